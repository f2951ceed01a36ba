"""The interfaces of backends, images and providers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from mmconv.core.errors import BackendError
from mmconv.core.types import Image, Message, Reply, Sampling, SeenImage

Spec = TypeVar("Spec", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimit:
    """What a server says of one of its limits: `remaining` of `limit` units are left.

    `reset` are the seconds until all are there again; they come back evenly.
    """

    unit: Literal["requests", "tokens"]
    limit: float
    remaining: float
    reset: float


Channel: TypeAlias = Literal["text", "reasoning"]
"""The field of a reply that a piece of it belongs to."""

Listen: TypeAlias = Callable[[Channel, str], None]
"""Takes the next piece of a reply that is still being written."""


class Backend(Protocol):
    """Turns resolved messages into a reply; never retries, never truncates, never sees a `Ref`.

    A backend that can stream also has `stream(messages, sampling, *, affinity, listen)`. It answers
    as `generate` does, and calls `listen` in the event loop with pieces as they come. Together they
    begin the reply's fields; what they leave out is read off the reply.

    A backend may also have `limits`: the `ServerLimit`s in the answer that `generate` has just
    read, whether it was a reply or a failure. They decide when the next calls go out.

    A backend whose requests outlive the process has `describe_wait()`, a text for progress. When a
    run stops, its calls are cancelled; the next run finds their replies.
    """

    @property
    def max_concurrency(self) -> int:
        """How many calls may be under way at once."""

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Answer once.

        `affinity` is equal for the calls of one conversation, so that replicas can keep its
        prefix in one cache. Raises `Transient` or `Refused`, and `ImageError` for
        an image that is gone: these become a failure of the call. Anything else ends the run:
        another `InputError` (a server that died, say) with its message, the rest as a bug.
        What is known to fail a call now and then, such as a device's `RuntimeError`, a backend
        catches and raises as `Transient`; what it did not foresee may spoil every reply, and is
        never a failed call.
        """

    async def aclose(self) -> None:
        """Release connections, processes and memory. Safe to call twice."""


class BatchState(NamedTuple):
    """How far a batch is.

    `checking`: it may still be refused. `full`: it was, since the account has too many requests in
    other batches. `error` is that of requests without an answer in a batch that has ended.
    """

    status: Literal["checking", "running", "ended", "full"]
    error: BackendError | None = None


class BatchApi(Protocol):
    """A provider's API of batches: many requests at once, answered within a day.

    All methods raise `Transient` or `Refused` as `Backend.generate` does. Requests and answers are
    JSON; a request is known by a key of 64 hex characters.
    """

    most_requests: int
    most_bytes: int

    async def encode(
        self, messages: Sequence[Message], sampling: Sampling
    ) -> tuple[bytes, tuple[SeenImage, ...]]:
        """A request, and its images as they are sent."""

    def read(self, answer: bytes, seen: tuple[SeenImage, ...]) -> Reply:
        """The reply in an answer."""

    async def submit(self, name: str, requests: Mapping[str, bytes]) -> str:
        """Send a batch by our name for it, in one attempt; returns its id."""

    async def find(self, name: str, size: int, since: float) -> list[str]:
        """The ids of batches of this size after `since` (Unix time) that may be this one."""

    async def poll(self, batch: str) -> BatchState:
        """How far the batch is."""

    async def results(self, batch: str) -> dict[str, bytes | BackendError]:
        """The answers of a batch that has ended, and the errors of requests without one."""

    async def aclose(self) -> None:
        """Release connections. Safe to call twice."""


class ImageSource(Protocol):
    """Gives an image's original bytes back by its hash."""

    def read(self, sha256: str) -> bytes:
        """The file's bytes; raises `ImageError` if they are gone or were changed."""


class ImageSink(Protocol):
    """Checks and decodes images, and returns what messages hold."""

    def add_file(self, path: str) -> Image:
        """Check a local file and remember where it is; raises `ImageError`."""

    def add_bytes(self, data: bytes, where: str) -> Image:
        """Check and keep an image without a file of its own; `where` names it in messages."""


class Provider(Protocol[Spec]):
    """A module that speaks to one kind of model, as those of `model_zoo` do.

    It is named in a model's file (`provider: package.module`) or before the model's name
    (`package.module/MODEL`); `Spec` is `ModelSpec` of `core.config`. The two functions are apart so
    that resuming a finished run, scoring and showing load no model.

    A model's file is the spec as it was written: `spec.address` is its `base_url` with what the
    environment says in place of `${NAME}`, `spec.key` the key in the variable that `api_key_env`
    names. Such a key is taken out of what `open_backend` and `generate` raise.
    `mmconv.core.documents.validate(ParrotOptions, spec.options, spec.label)` reads the options by a
    pydantic model, and raises `ConfigError` for each that is wrong.

    A module may have more:

    - `delegate(spec)` gives the `ProviderFunctions` of `model_zoo.providers` that run the model
      instead of this module's, or None;
    - `check_key(spec)` raises `ConfigError` for a key that is not set; without it, that is done for
      the one in `api_key_env`;
    - `check_sight(spec)` raises it for a model that is known, unloaded, to take no images;
    - `check_prompt(messages)` raises it for prompts that no model of it reads;
    - `check_ready(spec)` raises it for what is seen, unloaded, to keep the model from opening;
    - `metadata(spec)` is a mapping of texts that the run's manifest records with the fingerprint;
    - `guides_output(spec)`: whether replies are constrained to a call's JSON schema;
    - `extra_fields(spec)`: the names of fields in `Sampling.extra` that have an effect;
    - `open_renderer(spec, images)` loads what writes prompts and no weights; it blocks, downloads
      nothing, and gives a `Renderer`, or None for a model whose prompts are written elsewhere; it
      raises `ConfigError` where the checkpoint's files are not on this machine, or cannot be read;
    - `open_batches(spec, images)` opens the `BatchApi` for models with `batch`;
    - `await probe(spec)` gives the names that the model's server serves, or None if no server is
      there yet; raises `BackendError`.

    Its pydantic models whose names end in `Options` are listed by `mmconv models --fields NAME`,
    with the docstrings of their fields where `model_config` has `use_attribute_docstrings=True`.
    """

    def fingerprint(self, spec: Spec) -> str:
        """Name all that decides a reply: replies are cached under it.

        It must differ whenever the same request could get another reply: for other weights (their
        content, not their path), options, prompts or templates of the module, and for a revision
        that is raised when the module's code answers differently. Include library versions only if
        requests are cheap; `hf` and `vllm` leave them to the run's manifest, or every upgrade would
        repeat all requests. Speed and retries must not count, nor system prompt and sampling, which
        are in the content key anyway. Load no model and contact no server. Raises `ConfigError` for
        an unknown model or options.
        """

    async def open_backend(self, spec: Spec, images: ImageSource) -> Backend:
        """Load or connect; called at the first call that is not cached.

        `images` gives the bytes of the images in messages. Raises `ConfigError` where
        that cannot work.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPrompt:
    """A conversation as text, special tokens and all, and how large an input it becomes.

    `text` is what the tokenizer is given; `added` are special tokens that the tokenizer puts to it
    by itself. `tokens` counts the whole input, `image_tokens` the placeholders of images in it.
    `images` are the widths and heights, in pixels, that the processor is given; `tensors` are the
    shapes of what is made of all images together, by name.
    """

    text: str
    added: tuple[str, ...]
    tokens: int
    image_tokens: int
    images: tuple[tuple[int, int], ...]
    tensors: Mapping[str, tuple[int, ...]]


class Renderer(Protocol):
    """Writes prompts as a model's backend does, by the very functions that it uses."""

    @property
    def note(self) -> str:
        """Where what is written may differ from what the model gets; empty if nowhere."""

    def __call__(self, messages: Sequence[Message]) -> RawPrompt:
        """What resolved messages become; blocks.

        Raises `Refused` for messages that the backend would refuse, `ImageError` for
        an image that is gone.
        """
