"""What providers share that speak to a hosted API through its own SDK.

A provider writes a request, sends it and reads the answer's JSON. Images, limits, empty replies and
answers that cannot be read are handled here. SDKs retry nothing: the runner does that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any

from pydantic import Field

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Refused, Transient
from mmconv.core.protocols import ImageSource, ServerLimit
from mmconv.core.types import Image, Message, Part, Reply, Sampling, SeenImage, Text
from model_zoo.base import request_twice_if_empty
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.replies import load_json, read_failure, read_limits
from model_zoo.openai_api.request import DataUris, ImageFields

_DEFAULT_CONCURRENCY = 64


class HostedFields(ImageFields):
    """The options that the native providers share."""

    guided_json: bool = False
    """Sends a call's JSON schema, if it has one, for the server to enforce."""
    empty_answer: str = "(no answer)"
    """Replaces an empty answer in a conversation, which the server would refuse."""
    extra_body: Mapping[str, Any] = Field(default_factory=dict)
    """Added to every request; overrides other fields."""

    def identity(self) -> list[Any]:
        """What of these options changes replies, for a fingerprint."""
        others = [self.guided_json, self.empty_answer, self.extra_body]
        return [self.policy(), self.max_bytes, *others]


class HostedClient(ABC):
    """A `Backend` of a hosted API."""

    def __init__(
        self, spec: ModelSpec, endpoint: Endpoint, options: HostedFields, images: ImageSource
    ) -> None:
        self.endpoint = endpoint
        self.limits: tuple[ServerLimit, ...] = ()
        self._empty_answer = options.empty_answer
        self.max_concurrency = spec.max_concurrency or _DEFAULT_CONCURRENCY
        self._uris = DataUris(images, options)

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Answer once, or again if the reply is empty; raises as `Backend.generate` does."""
        request, seen = await self.prepare(messages, sampling)
        return await request_twice_if_empty(lambda: self._request(request, seen))

    async def prepare(
        self, messages: Sequence[Message], sampling: Sampling
    ) -> tuple[dict[str, Any], tuple[SeenImage, ...]]:
        """The request, and its images as they are sent."""
        uris = await self._uris.get(image for message in messages for image in message.images)
        request = self.write(messages, sampling, {uri.seen.sha256: uri.source for uri in uris})
        return request, tuple([uri.seen for uri in uris])

    async def aclose(self) -> None:
        """Close all connections and drop the cached images."""
        await self._uris.aclose()

    @abstractmethod
    def write(
        self,
        messages: Sequence[Message],
        sampling: Sampling,
        images: Mapping[str, tuple[str, str]],
    ) -> dict[str, Any]:
        """The request; `images` holds media types and base64 by hash. Raises `Refused`."""

    @abstractmethod
    async def send(self, request: dict[str, Any]) -> tuple[Mapping[str, str], str | bytes]:
        """Headers and body of the answer; raises `Transient` or `Refused`."""

    @abstractmethod
    def read(self, document: Any) -> Reply:
        """Read the answer; raises `LookupError` or `TypeError` for what is not one."""

    def parts(self, message: Message) -> Iterator[Part]:
        """The parts of a message without empty texts, which hosted APIs refuse."""
        parts = [each for each in message.parts if not isinstance(each, Text) or each.text.strip()]
        if parts or message.role != "assistant":
            yield from parts or message.parts
        else:
            yield Text(text=self._empty_answer)

    async def _request(self, request: dict[str, Any], seen: tuple[SeenImage, ...]) -> Reply:
        self.limits = ()
        begun = perf_counter()
        headers, data = await self.send(request)
        seconds = perf_counter() - begun
        self.limits = read_limits(headers)
        return replace(self.read_answer(data, seen), seconds=seconds)

    def read_answer(self, data: str | bytes, seen: tuple[SeenImage, ...]) -> Reply:
        """The reply in an answer; raises `Transient` for what is not one, `Refused` if filtered."""
        try:
            data = data.encode() if isinstance(data, str) else data
            reply = self.read(load_json(data))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            message = f"not a reply: {self.endpoint.excerpt(data)}"
            raise Transient("malformed", message) from error
        if reply.finish == "filter" and not reply.text.strip():
            raise Refused(
                "filter",
                "the server's content filter held the reply back",
                input_tokens=reply.input_tokens,
                output_tokens=reply.output_tokens,
            )
        return replace(reply, seen=seen)


def missing_sdk(spec: ModelSpec, error: ImportError) -> ConfigError:
    """The error of a provider whose SDK is not installed; its extra has the provider's name."""
    return ConfigError(
        f"model {spec.label}: provider {spec.provider} needs its SDK ({error}); run: "
        f"pip install 'mmconv[{spec.provider}]'"
    )


@contextmanager
def sdk_failures(
    sdk: Any, endpoint: Endpoint, timeout: float, client: HostedClient | None = None
) -> Iterator[None]:
    """Raise errors of `sdk` (anthropic, openai) as `Transient` or `Refused`; keep limits."""
    try:
        yield
    except sdk.APIStatusError as error:
        answer = error.response
        if client is not None:
            client.limits = read_limits(answer.headers)
        raise read_failure(answer.status_code, answer.headers, answer.content, endpoint) from error
    except sdk.APITimeoutError as error:
        raise Transient("timeout", f"no reply in {timeout:g} s") from error
    except sdk.APIConnectionError as error:
        message = f"{endpoint.url}: {error.__cause__ or error}"
        raise Transient("connection", endpoint.excerpt(message)) from error


def source_of(part: Part, images: Mapping[str, tuple[str, str]]) -> tuple[str, str] | str:
    """An image's media type and base64, or a text."""
    match part:
        case Text(text=text):
            return text
        case Image(sha256=sha256):
            return images[sha256]
        case _:
            raise ValueError(f"a model needs resolved messages; {part.call!r} is still a Ref")
