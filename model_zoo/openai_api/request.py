"""What is sent: the options of a model, and the body of a request as bytes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, field_validator

from images.policy import Policy
from mmconv.values import Image, Message, Part, Ref, Sampling, Text

_OURS = frozenset({"model", "messages", "stream", "n"})


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
    media_types: tuple[str, ...] = Policy().media_types
    """The types of images that the server takes; others are encoded anew."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the server calls the bound of a reply's tokens."""
    guided_json: bool = False
    """Sends a call's JSON schema, where it has one, for the server to hold the reply to."""
    empty_answer: str = ""
    """What stands in a conversation for an answer without words, where the server refuses those."""
    extra_body: Mapping[str, Any] = Field(default_factory=dict)
    """Added to every request, and wins over what stands there."""
    image_cache_mb: int = Field(default=16, ge=0)
    """Megabytes of images that are kept ready for sending."""

    @field_validator("extra_body")
    @classmethod
    def _leaves_our_fields_alone(cls, extra: Mapping[str, Any]) -> Mapping[str, Any]:
        taken = sorted(_OURS & extra.keys())
        if taken:
            raise ValueError(f"{', '.join(taken)} cannot be set here")
        return extra

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
    if sampling.schema is not None and options.guided_json:
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
