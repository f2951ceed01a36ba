"""What is sent: the options of a model, and the body of a request as bytes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from images.policy import LEAST_BYTES, Policy
from mmconv.core.types import ANY_OBJECT, Image, Message, Part, Ref, Sampling, Text

_OURS = frozenset({"model", "messages", "stream", "n"})

_OUR_HEADERS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
        "user-agent",
    }
)
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)

_OF_A_SECRET = re.compile(
    r"(?:^|[-_]|(?<=[a-z\d])(?=[A-Z]))(?i:api-?key|auth|authorization|cookie|credentials?|jwt|key"
    r"|passwd|password|pwd|secret|sig|signature|token)$|(?i:^code$)"
)
"""What names of headers and parameters that hold a secret end with."""


def _in_words(given: Any) -> Any:
    """YAML takes 2024-10-21 for a date, and 1 for a number."""
    if not isinstance(given, Mapping):
        return given
    return {
        name: str(value) if type(value) in {date, int} else value for name, value in given.items()
    }


_Words: TypeAlias = Annotated[Mapping[str, str], BeforeValidator(_in_words)]


class OpenAIOptions(BaseModel):
    """Options of a model that an OpenAI-compatible server has.

    Images that keep to the bounds and types are sent byte for byte, others scaled or encoded anew.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    identity: str | None = None
    """Names the model in keys instead of the URL, so that its server may move."""
    max_pixels: int | None = Field(default=None, gt=0)
    """The largest area of an image that is sent."""
    min_pixels: int | None = Field(default=None, gt=0)
    """The least area of an image that is sent."""
    max_side: int | None = Field(default=None, gt=0)
    """The longest side of an image that is sent, in pixels."""
    max_bytes: int | None = Field(default=None, ge=LEAST_BYTES)
    """The largest file of an image that is sent, in bytes before base64 adds a third to them: a
    larger one is sent as JPEG, and scaled down where that does not suffice."""
    media_types: tuple[str, ...] = Policy().media_types
    """The types of images that the server takes; others are encoded anew."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the server calls the bound of a reply's tokens."""
    guided_json: bool = False
    """Sends a call's JSON schema, where it has one, for the server to hold the reply to; JSON mode
    (any object) is always sent."""
    empty_answer: str = ""
    """What stands in a conversation for an answer without words, where the server refuses those."""
    extra_body: Mapping[str, Any] = Field(default_factory=dict)
    """Added to every request, and wins over what stands there."""
    headers: _Words = Field(default_factory=dict)
    """Sent with every request; the environment fills in ${NAME}, which alone is written down."""
    query: _Words = Field(default_factory=dict)
    """Parameters behind the address, like Azure's api-version; the environment fills in ${NAME}."""
    image_cache_mb: int = Field(default=16, ge=0)
    """Megabytes of images that are kept ready for sending."""

    @field_validator("extra_body")
    @classmethod
    def _leaves_our_fields_alone(cls, extra: Mapping[str, Any]) -> Mapping[str, Any]:
        taken = sorted(_OURS & extra.keys())
        if taken:
            raise ValueError(f"{', '.join(taken)} cannot be set here")
        return extra

    @field_validator("headers")
    @classmethod
    def _leaves_our_headers_alone(cls, headers: Mapping[str, str]) -> Mapping[str, str]:
        for name in headers:
            if name.lower() in _OUR_HEADERS:
                raise ValueError(f"{name} cannot be set here")
            if not _HEADER.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a header")
        return headers

    @field_validator("headers", "query")
    @classmethod
    def _names_what_is_secret(cls, given: Mapping[str, str]) -> Mapping[str, str]:
        for name, text in given.items():
            if _OF_A_SECRET.search(name) and "${" not in text:
                raise ValueError(f"name the variable that holds it: {{{name}: ${{NAME}}}}")
        return given

    def policy(self) -> Policy:
        """The image policy; raises `ConfigError` where its bounds contradict each other."""
        return Policy(
            max_pixels=self.max_pixels,
            min_pixels=self.min_pixels,
            max_side=self.max_side,
            media_types=self.media_types,
        )


def encode_request(
    model: str,
    messages: Sequence[Message],
    sampling: Sampling,
    options: OpenAIOptions,
    uris: Mapping[str, orjson.Fragment],
) -> bytes:
    """The JSON body; `uris` holds the images' data URIs, by hash, as JSON ready to be copied."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [
            {"role": message.role, "content": _content(message, uris, options.empty_answer)}
            for message in messages
        ],
        options.max_tokens_field: sampling.max_tokens,
    }
    body.update(_drawn(sampling))
    if sampling.schema == ANY_OBJECT:
        body["response_format"] = {"type": "json_object"}
    elif sampling.schema is not None and options.guided_json:
        schema = {"name": "reply", "schema": orjson.loads(sampling.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    body.update(options.extra_body)
    return orjson.dumps(body)


def _drawn(sampling: Sampling) -> Iterator[tuple[str, Any]]:
    if sampling.temperature is not None:
        yield "temperature", sampling.temperature
    if sampling.top_p is not None:
        yield "top_p", sampling.top_p
    if sampling.seed is not None:
        # without this, a trial with a fixed seed would bring the same reply again
        yield "seed", sampling.seed + sampling.trial
    if sampling.stop:
        yield "stop", sampling.stop


def _content(
    message: Message, uris: Mapping[str, orjson.Fragment], empty_answer: str
) -> str | list[dict[str, Any]]:
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    if len(texts) < len(message.parts):
        return [_part(part, uris) for part in message.parts]
    text = "".join(texts)
    is_empty = message.role == "assistant" and not text.strip()
    return empty_answer or text if is_empty else text


def _part(part: Part, uris: Mapping[str, orjson.Fragment]) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image(sha256=sha256):
            return {"type": "image_url", "image_url": {"url": uris[sha256]}}
        case Ref(call=call):
            raise ValueError(f"a model needs resolved messages; {call!r} is still a Ref")
