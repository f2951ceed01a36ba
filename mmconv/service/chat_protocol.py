"""OpenAI's chat protocol as data: requests and completions.

Every field of OpenAI's is either honoured or refused by name. Unsupported fields (tools, several
choices, penalties) are accepted with their neutral value, since clients send it. Sizes are checked
in `http.requests`: they are settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from mmconv.core.types import ANY_OBJECT, Finish, Reply
from mmconv.service.requests import HOTTEST

FINISHES: Mapping[Finish, str] = {
    "stop": "stop",
    "length": "length",
    "filter": "content_filter",
    "unknown": "stop",
}
"""How a reply ended -> OpenAI's word. It has none for an unknown end."""

Nothing: TypeAlias = Annotated[list[Any], Field(max_length=0)]
"""A list that must be empty."""


def _no_other(value: float) -> float:
    if value:
        raise ValueError("not supported here: leave it out")
    return value


Zero: TypeAlias = Annotated[
    float, AfterValidator(_no_other), WithJsonSchema({"type": "number", "const": 0})
]
"""A number that must be 0."""

Stop: TypeAlias = Annotated[str, Field(min_length=1)]
"""A text at which an answer ends. An empty one would end it before it begins."""


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TextPart(_Shape):
    """Text of a message."""

    type: Literal["text"]
    text: str


class ImageUrl(_Shape):
    """An image: `image:<id>`, a data URI, or an https URL if the server allows it.

    `detail` is the model's own policy. "low" would be another size and is refused.
    """

    url: str
    detail: Literal["auto", "high"] | None = None


class ImagePart(_Shape):
    """An image of a message."""

    type: Literal["image_url"]
    image_url: ImageUrl


class SystemMessage(_Shape):
    """Instructions. "developer" is a newer word for "system"."""

    role: Literal["system", "developer"]
    content: str | list[TextPart]


class UserMessage(_Shape):
    """Text and images of the user."""

    role: Literal["user"]
    content: str | list[Annotated[TextPart | ImagePart, Field(discriminator="type")]]


class AssistantMessage(_Shape):
    """A model's answer, as this server returns it.

    `reasoning_content` is accepted and not shown to the model again.
    """

    role: Literal["assistant"]
    content: str | list[TextPart]
    reasoning_content: str | None = None
    refusal: None = None
    tool_calls: Nothing | None = None
    function_call: None = None
    annotations: Nothing | None = None
    audio: None = None


ChatMessage: TypeAlias = Annotated[
    SystemMessage | UserMessage | AssistantMessage, Field(discriminator="role")
]


class JsonSchema(_Shape):
    """A JSON schema that the answer must match."""

    name: str = "reply"
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class TextFormat(_Shape):
    """Any text."""

    type: Literal["text"]


class ObjectFormat(_Shape):
    """A JSON object of any fields. Only for models whose backend guides their output."""

    type: Literal["json_object"]


class SchemaFormat(_Shape):
    """JSON that matches a schema. Only for models whose backend guides their output."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


Format: TypeAlias = Annotated[TextFormat | ObjectFormat | SchemaFormat, Field(discriminator="type")]
"""The format of an answer."""


class StreamOptions(_Shape):
    """What a stream holds besides the text."""

    include_usage: bool = False
    include_obfuscation: Literal[False] | None = None


class ChatRequest(_Shape):
    """A chat completion to create.

    Fields left out are as in the model's file; otherwise `max_tokens` is 1024, and temperature and
    top_p are the model's own. `top_p` 0 selects the likeliest token, as temperature 0 does. Without
    a seed each answer is a new sample. `user`, `safety_identifier` and `prompt_cache_key` name a
    conversation, which keeps it on one replica. Chats are not stored: `store` is not supported, and
    `metadata` has no effect.
    """

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    temperature: float | None = Field(default=None, ge=0, le=HOTTEST)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: int | None = Field(default=None, gt=0)
    max_completion_tokens: int | None = Field(default=None, gt=0)
    stop: Stop | list[Stop] | None = None
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: Format | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    metadata: dict[str, str] | None = None
    n: Literal[1] | None = None
    store: Literal[False] | None = None
    modalities: list[Literal["text"]] | None = None
    service_tier: Literal["auto", "default"] | None = None
    frequency_penalty: Zero | None = None
    presence_penalty: Zero | None = None
    logit_bias: Annotated[dict[str, Any], Field(max_length=0)] | None = None
    logprobs: Literal[False] | None = None
    top_logprobs: Literal[0] | None = None
    tools: Nothing | None = None
    tool_choice: Literal["none", "auto"] | None = None
    parallel_tool_calls: bool | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> ChatRequest:
        bounds = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(bounds) > 1:
            raise ValueError("max_tokens and max_completion_tokens differ; give one of them")
        return self

    @property
    def conversation(self) -> str | None:
        """The client's name for the conversation, if any."""
        return self.prompt_cache_key or self.safety_identifier or self.user

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON schema that the answer must match."""
        match self.response_format:
            case SchemaFormat(json_schema=requested):
                return requested.schema_
            case ObjectFormat():
                return dict(orjson.loads(ANY_OBJECT))
        return None


class AnswerMessage(BaseModel):
    """The model's answer; `reasoning_content` is its reasoning before it."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None
    reasoning_content: str | None = None


class Choice(BaseModel):
    """The one answer."""

    index: int = 0
    message: AnswerMessage
    logprobs: None = None
    finish_reason: str


class Usage(BaseModel):
    """Tokens, as the model's backend counts them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Seen(BaseModel):
    """An image as the model saw it: its id, and its size in pixels after resizing."""

    id: str
    width: int
    height: int


class Beyond(BaseModel):
    """Fields beyond OpenAI's protocol: images as seen, seconds, the model's hash."""

    images: list[Seen]
    seconds: float
    fingerprint: str


class ChatCompletion(BaseModel):
    """A chat completion; `usage` is null if the backend does not count tokens."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None
    system_fingerprint: str
    mmconv: Beyond


class ModelCard(BaseModel):
    """A configured model. Without `usable` the server has no key for it."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    usable: bool


class ModelList(BaseModel):
    """The configured models."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionHead:
    """The fields that a completion shares with its chunks.

    `created` is seconds since 1970, `fingerprint` the model's hash.
    """

    id: str
    created: int
    model: str
    fingerprint: str

    def completion(self, reply: Reply) -> ChatCompletion:
        """The whole answer."""
        message = AnswerMessage(content=reply.text, reasoning_content=reply.reasoning)
        return ChatCompletion(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=[Choice(message=message, finish_reason=FINISHES[reply.finish])],
            usage=usage_of(reply),
            system_fingerprint=self.fingerprint[:16],
            mmconv=self._beyond(reply),
        )

    def first_chunk(self) -> dict[str, Any]:
        """The first chunk of a stream, without text."""
        return self._chunk({"role": "assistant", "content": ""})

    def chunks(self, reply: Reply, *, with_usage: bool) -> Iterator[dict[str, Any]]:
        """The chunks after the first one, with the whole text in one of them.

        The chunk that ends the choice has the fields beyond OpenAI's protocol.
        """
        if reply.reasoning is not None:
            yield self._chunk({"reasoning_content": reply.reasoning})
        yield self._chunk({"content": reply.text})
        yield self._chunk({}, FINISHES[reply.finish]) | {"mmconv": self._beyond(reply).model_dump()}
        if with_usage:
            usage = usage_of(reply)
            yield self._chunk({}) | {"choices": [], "usage": usage and usage.model_dump()}

    def _beyond(self, reply: Reply) -> Beyond:
        images = [
            Seen(id=image.sha256, width=image.width, height=image.height) for image in reply.seen
        ]
        return Beyond(images=images, seconds=reply.seconds, fingerprint=self.fingerprint)

    def _chunk(self, delta: Mapping[str, str], finish: str | None = None) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint[:16],
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
        }


def usage_of(reply: Reply) -> Usage | None:
    """The tokens of a reply, if its backend counts them."""
    read, said = reply.input_tokens, reply.output_tokens
    if read is None or said is None:
        return None
    return Usage(prompt_tokens=read, completion_tokens=said, total_tokens=read + said)
