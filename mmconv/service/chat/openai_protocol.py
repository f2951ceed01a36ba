"""OpenAI's chat protocol as data: what may be asked, and how answers are written.

Every field of OpenAI's is either honoured or refused by name; none is dropped in silence. Fields
that can only be refused (tools, several choices, penalties) may be sent with the value that asks
for nothing, since clients do. Sizes are checked by `http.request_limits`: they are settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from mmconv.core.types import ANY_OBJECT, Finish, Reply
from mmconv.service.http.request_limits import HOTTEST

FINISHES: Mapping[Finish, str] = {
    "stop": "stop",
    "length": "length",
    "filter": "content_filter",
    "unknown": "stop",
}
"""How a reply ended -> OpenAI's word; it has none for an end that nobody told."""

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
"""A text at which an answer ends; an empty one would end it before it begins."""


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TextPart(_Shape):
    """Text of a message."""

    type: Literal["text"]
    text: str


class ImageUrl(_Shape):
    """Where an image is: `image:<id>`, a data URI, or an https URL where the server allows it.

    `detail` is the model's own policy; "low" would be another size and is refused.
    """

    url: str
    detail: Literal["auto", "high"] | None = None


class ImagePart(_Shape):
    """An image of a message."""

    type: Literal["image_url"]
    image_url: ImageUrl


class SystemMessage(_Shape):
    """Instructions; "developer" is the newer word for the same."""

    role: Literal["system", "developer"]
    content: str | list[TextPart]


class UserMessage(_Shape):
    """What a person says and shows."""

    role: Literal["user"]
    content: str | list[Annotated[TextPart | ImagePart, Field(discriminator="type")]]


class AssistantMessage(_Shape):
    """What a model said, as it stands in this server's own answers.

    `reasoning_content` is taken and not shown to the model again.
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
    """A JSON schema that the answer shall obey."""

    name: str = "reply"
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class TextFormat(_Shape):
    """Any text."""

    type: Literal["text"]


class ObjectFormat(_Shape):
    """A JSON object of any fields; only for models whose backend guides their output."""

    type: Literal["json_object"]


class SchemaFormat(_Shape):
    """JSON that obeys a schema; only for models whose backend guides their output."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


Format: TypeAlias = Annotated[TextFormat | ObjectFormat | SchemaFormat, Field(discriminator="type")]
"""What an answer must look like."""


class StreamOptions(_Shape):
    """What a stream holds beside the text."""

    include_usage: bool = False
    include_obfuscation: Literal[False] | None = None


class ChatRequest(_Shape):
    """A chat completion to make.

    What is left out is as the model's file has it; then `max_tokens` is 1024, and temperature and
    top_p are the model's own. `top_p` 0 leaves the likeliest token alone, as temperature 0 does.
    Without a seed every answer is drawn anew. `user`, `safety_identifier` and `prompt_cache_key`
    are taken as names of a conversation, which keeps it on one replica. Chats are not kept: `store`
    cannot be asked for, and `metadata` has no effect.
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
        """The client's own name for the conversation, if it gave one."""
        return self.prompt_cache_key or self.safety_identifier or self.user

    @property
    def wanted_schema(self) -> dict[str, Any] | None:
        """The JSON schema to obey."""
        match self.response_format:
            case SchemaFormat(json_schema=wanted):
                return wanted.schema_
            case ObjectFormat():
                return dict(orjson.loads(ANY_OBJECT))
        return None


class AnswerMessage(BaseModel):
    """What the model said; `reasoning_content` is what it thought aloud before."""

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
    """An image as the model saw it: its id, and its size in pixels after the model's policy."""

    id: str
    width: int
    height: int


class Beyond(BaseModel):
    """What mmconv tells beyond OpenAI's protocol: images as seen, seconds, the model's hash."""

    images: list[Seen]
    seconds: float
    fingerprint: str


class ChatCompletion(BaseModel):
    """A chat completion; `usage` is null where the backend does not count."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None
    system_fingerprint: str
    mmconv: Beyond


class ModelCard(BaseModel):
    """A model that the operator has configured; it cannot be asked where it is not `usable`.

    The server then lacks the key that it needs.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    usable: bool


class ModelList(BaseModel):
    """The models that can be asked."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionHead:
    """What a completion, or each chunk of one, begins with.

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
        """The chunk that opens a stream: no text yet."""
        return self._chunk({"role": "assistant", "content": ""})

    def chunks(self, reply: Reply, *, with_usage: bool) -> Iterator[dict[str, Any]]:
        """The chunks after the first one: the text comes whole, since it is there whole.

        The one that ends the choice holds what mmconv tells.
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
