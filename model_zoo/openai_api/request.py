"""What is sent: a model's options, the body of a request as bytes, and images as data URIs.

A data URI is made once per image, in a thread, and cached for the next request that shows it.
`images.policy` decides how an image is made to fit.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import BeforeValidator, Field, field_validator

from images.policy import LEAST_BYTES, Policy, prepare
from mmconv.core.protocols import ImageSource
from mmconv.core.types import ANY_OBJECT, Image, Message, Part, Ref, Sampling, SeenImage, Text
from model_zoo.base import Fields

EXTRA_FIELDS = (
    "chat_template_kwargs",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "min_p",
    "presence_penalty",
    "reasoning_effort",
    "repetition_penalty",
    "top_k",
    "top_logprobs",
    "verbosity",
)
"""Further fields of requests that OpenAI or vLLM reads. A server refuses those that it lacks."""

_OURS = frozenset({"model", "messages", "stream", "n"})

_OF_A_SECRET = re.compile(
    r"(?:^|[-_]|(?<=[a-z\d])(?=[A-Z]))(?i:api-?key|auth|authorization|cookie|credentials?|jwt|key"
    r"|passwd|password|pwd|secret|sig|signature|token)$|(?i:^code$)"
)
"""The ends of names of headers and parameters that hold a secret."""


def _as_texts(values: Any) -> Any:
    """YAML reads 2024-10-21 as a date, and 1 as a number."""
    if not isinstance(values, Mapping):
        return values
    return {
        name: str(value) if type(value) in {date, int} else value for name, value in values.items()
    }


_Texts: TypeAlias = Annotated[Mapping[str, str], BeforeValidator(_as_texts)]


class ImageFields(Fields):
    """The options of images: within the bounds and types they are sent byte for byte.

    Others are scaled or re-encoded.
    """

    max_pixels: int | None = Field(default=None, gt=0)
    """The largest area of an image that is sent."""
    min_pixels: int | None = Field(default=None, gt=0)
    """The least area of an image that is sent."""
    max_side: int | None = Field(default=None, gt=0)
    """The longest side of an image that is sent, in pixels."""
    max_bytes: int | None = Field(default=None, ge=LEAST_BYTES)
    """The largest file of an image that is sent, in bytes, before base64 adds a third: a larger one
    is sent as JPEG, and scaled down if that does not suffice."""
    media_types: tuple[str, ...] = Policy().media_types
    """The types of images that the server takes; others are re-encoded."""
    image_cache_mb: int = Field(default=16, ge=0)
    """Megabytes of encoded images to cache."""

    def policy(self) -> Policy:
        """The image policy; raises `ConfigError` if its bounds contradict each other."""
        return Policy(
            max_pixels=self.max_pixels,
            min_pixels=self.min_pixels,
            max_side=self.max_side,
            media_types=self.media_types,
        )


class OpenAIOptions(ImageFields):
    """Options of a model on an OpenAI-compatible server."""

    identity: str | None = None
    """Names the model in keys instead of the URL, so that its server may move."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The server's name for the limit of a reply's tokens."""
    prompt_cache_key: bool | None = None
    """Sends the conversation's name as `prompt_cache_key`, by which OpenAI routes requests to a
    server that has their prefix in its cache. Default: only to api.openai.com."""
    session_header: str = ""
    """A header that holds the conversation's name, such as x-session-id, for routers that keep a
    conversation on one server."""
    media_uuid: bool = False
    """Names each image by a hash (`uuid`), so that vLLM need not hash it itself to find it in its
    cache."""
    guided_json: bool = False
    """Sends a call's JSON schema, if it has one, for the server to enforce; JSON mode (any object)
    is always sent."""
    empty_answer: str = ""
    """Replaces an empty answer in a conversation, for servers that refuse those."""
    extra_body: Mapping[str, Any] = Field(default_factory=dict)
    """Added to every request; overrides other fields."""
    headers: _Texts = Field(default_factory=dict)
    """Sent with every request; ${NAME} is filled in from the environment, and never stored."""
    query: _Texts = Field(default_factory=dict)
    """Parameters of the URL, like Azure's api-version; the environment fills in ${NAME}."""

    @field_validator("extra_body")
    @classmethod
    def _leaves_our_fields_alone(cls, extra: Mapping[str, Any]) -> Mapping[str, Any]:
        taken = sorted(_OURS & extra.keys())
        if taken:
            raise ValueError(f"{', '.join(taken)} cannot be set here")
        return extra

    @field_validator("session_header")
    @classmethod
    def _names_a_header(cls, name: str) -> str:
        if name and not re.fullmatch(r"[\w-]+", name, re.ASCII):
            raise ValueError("expected the name of a header, such as x-session-id")
        return name

    @field_validator("headers", "query")
    @classmethod
    def _refuse_secrets(cls, texts: Mapping[str, str]) -> Mapping[str, str]:
        for name, text in texts.items():
            if _OF_A_SECRET.search(name) and "${" not in text:
                raise ValueError(f"name the variable that holds it: {{{name}: ${{NAME}}}}")
        return texts


def encode_request(  # noqa: PLR0913 - all that a body is made of
    model: str,
    messages: Sequence[Message],
    sampling: Sampling,
    options: OpenAIOptions,
    uris: Mapping[str, DataUri],
    *,
    session: str = "",
    is_streamed: bool = False,
) -> bytes:
    """The JSON body; `uris` holds the images' data URIs by hash, `session` is a cache key or ""."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [
            {"role": message.role, "content": _content(message, uris, options)}
            | ({} if message.name is None else {"name": message.name})
            for message in messages
        ],
        options.max_tokens_field: sampling.max_tokens,
    }
    body.update(_drawn(sampling))
    if session:
        body["prompt_cache_key"] = session
    if sampling.schema == ANY_OBJECT:
        body["response_format"] = {"type": "json_object"}
    elif sampling.schema is not None and options.guided_json:
        schema = {"name": "reply", "schema": orjson.loads(sampling.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if is_streamed:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    body.update(options.extra_body)
    body.update(sampling.extra)
    return orjson.dumps(body)


def _drawn(sampling: Sampling) -> Iterator[tuple[str, Any]]:
    if sampling.temperature is not None:
        yield "temperature", sampling.temperature
    if sampling.top_p is not None:
        yield "top_p", sampling.top_p
    if sampling.seed is not None:
        # otherwise all trials with a fixed seed would get the same reply
        yield "seed", sampling.seed + sampling.trial
    if sampling.stop:
        yield "stop", sampling.stop


def _content(
    message: Message, uris: Mapping[str, DataUri], options: OpenAIOptions
) -> str | list[dict[str, Any]]:
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    if len(texts) < len(message.parts):
        return [_part(part, uris, options.media_uuid) for part in message.parts]
    text = "".join(texts)
    is_empty = message.role == "assistant" and not text.strip()
    return options.empty_answer or text if is_empty else text


def _part(part: Part, uris: Mapping[str, DataUri], is_named: bool) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image(sha256=sha256):
            uri = uris[sha256]
            name = {"uuid": uri.name} if is_named else {}
            return {"type": "image_url", "image_url": {"url": uri.fragment}, **name}
        case Ref(call=call):
            raise ValueError(f"a model needs resolved messages; {call!r} is still a Ref")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataUri:
    """An image as JSON: a data URI in quotes."""

    quoted: bytes
    seen: SeenImage

    @property
    def fragment(self) -> orjson.Fragment:
        """A fragment of a JSON body."""
        return orjson.Fragment(self.quoted)

    @property
    def name(self) -> str:
        """The image's hash with its size, since another size of it is another image."""
        return f"{self.seen.sha256}-{self.seen.width}x{self.seen.height}{self.seen.media_type}"

    @property
    def source(self) -> tuple[str, str]:
        """The media type, and the file's bytes in base64."""
        media_type, _, data = self.quoted[6:-1].decode().partition(";base64,")
        return media_type, data


class DataUris:
    """A cache of data URIs, least recently used out first, of at most `image_cache_mb` in all."""

    def __init__(self, images: ImageSource, options: ImageFields) -> None:
        self._images = images
        self._policy = options.policy()
        self._max_bytes = options.max_bytes
        self._limit = options.image_cache_mb * 1_000_000
        self._size = 0
        self._ready: OrderedDict[str, DataUri] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[DataUri]] = {}
        # each thread that handles images keeps some megabytes for itself
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="mmconv-images")

    async def get(self, images: Iterable[Image]) -> list[DataUri]:
        """The images' data URIs, in their order; raises `ImageError` if one cannot be read."""
        uris = []
        for image in images:
            if image.sha256 in self._ready:
                self._ready.move_to_end(image.sha256)
                uris.append(self._ready[image.sha256])
            else:
                uris.append(await self._make(image))
        return uris

    async def aclose(self) -> None:
        """Wait for images under way and drop everything."""
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        self._threads.shutdown()
        self._ready.clear()
        self._size = 0

    async def _make(self, image: Image) -> DataUri:
        task = self._under_way.get(image.sha256)
        if task is None:
            task = asyncio.create_task(self._make_and_keep(image))
            self._under_way[image.sha256] = task
        # another request may wait for the same image, so a cancelled one must not stop the work
        return await asyncio.shield(task)

    async def _make_and_keep(self, image: Image) -> DataUri:
        try:
            loop = asyncio.get_running_loop()
            uri = await loop.run_in_executor(self._threads, self._encode, image)
        finally:
            del self._under_way[image.sha256]
        self._ready[image.sha256] = uri
        self._size += len(uri.quoted)
        while self._size > self._limit:
            _, oldest = self._ready.popitem(last=False)
            self._size -= len(oldest.quoted)
        return uri

    def _encode(self, image: Image) -> DataUri:
        data = self._images.read(image.sha256)
        prepared = prepare(data, image, self._policy, self._max_bytes)
        start = f'"data:{prepared.media_type};base64,'.encode()
        quoted = b"".join((start, b64encode(prepared.data), b'"'))
        seen = SeenImage(
            sha256=image.sha256,
            width=prepared.width,
            height=prepared.height,
            media_type="" if prepared.media_type == image.media_type else prepared.media_type,
        )
        return DataUri(quoted=quoted, seen=seen)
