"""OpenAI's chat protocol as data: requests and completions.

Every field of OpenAI's is honoured, passed on, ignored because it cannot change an answer, or
refused by name. Tools are accepted only if they may not be called, since clients send them so.
Sizes are checked in `requests`: they are settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mmconv.core.types import ANY_OBJECT, Finish, Reply
from mmconv.service.requests import HOTTEST, Word

FINISHES: Mapping[Finish, str] = {
    "stop": "stop",
    "length": "length",
    "filter": "content_filter",
    "unknown": "stop",
}
"""How a reply ended -> OpenAI's word. It has none for an unknown end."""

Nothing: TypeAlias = Annotated[list[Any], Field(max_length=0)]
"""A list that must be empty."""


Penalty: TypeAlias = Annotated[float, Field(ge=-2, le=2)]
"""A penalty on tokens that were said before."""

NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "reasoning_effort": (),
    "verbosity": (),
    "top_k": (0, -1),
    "min_p": (0,),
    "repetition_penalty": (1,),
    "chat_template_kwargs": ({},),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
}
"""Fields for models that take them -> the values that every model does, since they change nothing.
"""

Stop: TypeAlias = Annotated[str, Field(min_length=1)]
"""A text at which an answer ends. An empty one would end it before it begins."""


class Shape(BaseModel):
    """A part of a request in OpenAI's protocols, whose values are not converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Cacheable(Shape):
    """What Anthropic's clients mark for its cache. It changes no answer and is ignored."""

    cache_control: dict[str, Any] | None = None


class TextPart(_Cacheable):
    """Text of a message. `cache_control` is ignored."""

    type: Literal["text"]
    text: str


class ImageUrl(Shape):
    """An image: `image:<id>`, a data URI, or an https URL if the server allows it.

    `detail` is the model's own policy. "low" would be another size and is refused.
    """

    url: str
    detail: Literal["auto", "high"] | None = None


class ImagePart(_Cacheable):
    """An image of a message. `cache_control` is ignored."""

    type: Literal["image_url"]
    image_url: ImageUrl


class _Message(_Cacheable):
    name: str | None = None


class SystemMessage(_Message):
    """Instructions. "developer" is a newer word for "system"."""

    role: Literal["system", "developer"]
    content: str | list[TextPart]


class UserMessage(_Message):
    """Text and images of the user. `name` goes to servers of OpenAI's protocol."""

    role: Literal["user"]
    content: str | list[Annotated[TextPart | ImagePart, Field(discriminator="type")]]


class AssistantMessage(_Message):
    """A model's answer, as this server returns it.

    Without content it is empty. `reasoning_content` is accepted and not shown to the model again.
    """

    role: Literal["assistant"]
    content: str | list[TextPart] | None = None
    reasoning_content: str | None = None
    refusal: None = None
    tool_calls: Nothing | None = None
    function_call: None = None
    annotations: Nothing | None = None
    audio: None = None


ChatMessage: TypeAlias = Annotated[
    SystemMessage | UserMessage | AssistantMessage, Field(discriminator="role")
]


class JsonSchema(Shape):
    """A JSON schema that the answer must match."""

    name: str = "reply"
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class TextFormat(Shape):
    """Any text."""

    type: Literal["text"]


class ObjectFormat(Shape):
    """A JSON object of any fields. Only for models whose backend guides their output."""

    type: Literal["json_object"]


class SchemaFormat(Shape):
    """JSON that matches a schema. Only for models whose backend guides their output."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


Format: TypeAlias = Annotated[TextFormat | ObjectFormat | SchemaFormat, Field(discriminator="type")]
"""The format of an answer."""


class StreamOptions(Shape):
    """What a stream holds besides the text."""

    include_usage: bool = False
    include_obfuscation: Literal[False] | None = None


class ChatRequest(Shape):
    """A chat completion to create.

    Fields left out are as in the model's file; otherwise `max_tokens` is 1024, and temperature and
    top_p are the model's own. `top_p` 0 selects the likeliest token, as temperature 0 does. Without
    a seed each answer is a new sample; `n` answers are `n` calls. `user`, `safety_identifier` and
    `prompt_cache_key` name a conversation, which keeps it on one replica. Chats are not stored:
    `store` is not supported, and `metadata` has no effect. The fields from `reasoning_effort` to
    `logprobs` are passed to models that take them; other models refuse all values but the neutral
    one. Tools are ignored if `tool_choice` is "none", and not supported otherwise.
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
    n: int | None = Field(default=None, ge=1, le=128)
    store: Literal[False] | None = None
    modalities: list[Literal["text"]] | None = None
    service_tier: Literal["auto", "default"] | None = None
    reasoning_effort: Word | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    top_k: int | None = Field(default=None, ge=-1)
    min_p: float | None = Field(default=None, ge=0, le=1)
    repetition_penalty: float | None = Field(default=None, gt=0, le=10)
    chat_template_kwargs: dict[str, Any] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=1024)] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    tool_choice: Literal["none", "auto"] | None = None
    tools: list[dict[str, Any]] | None = None
    parallel_tool_calls: bool | None = None
    function_call: Literal["none", "auto"] | None = None
    functions: Nothing | None = None

    @field_validator("tools")
    @classmethod
    def _tools_are_not_called(cls, tools: list[Any] | None, info: ValidationInfo) -> Any:
        if tools and info.data.get("tool_choice") != "none":
            raise ValueError("not supported here: leave it out")
        return tools

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

    def extra(self) -> dict[str, Any]:
        """The fields for `Sampling.extra` that are set."""
        values = ((name, getattr(self, name)) for name in NEUTRAL)
        return {name: value for name, value in values if value is not None}

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
    """An answer; `logprobs` as the model's server sends them."""

    index: int
    message: AnswerMessage
    logprobs: dict[str, Any] | None = None
    finish_reason: str


class PromptTokens(BaseModel):
    """Tokens of the prompt that the model's server read from its cache."""

    cached_tokens: int


class Usage(BaseModel):
    """Tokens, as the model's backend counts them; of all calls together."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokens | None = None


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

    `created` is seconds since 1970, `fingerprint` the model's hash, `choices` how many there are.
    """

    id: str
    created: int
    model: str
    fingerprint: str
    choices: int = 1

    def completion(self, replies: Sequence[Reply]) -> ChatCompletion:
        """The whole answers."""
        choices = [
            Choice(
                index=index,
                message=AnswerMessage(content=reply.text, reasoning_content=reply.reasoning),
                logprobs=None if reply.logprobs is None else dict(reply.logprobs),
                finish_reason=FINISHES[reply.finish],
            )
            for index, reply in enumerate(replies)
        ]
        return ChatCompletion(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=choices,
            usage=usage_of(replies),
            system_fingerprint=self.fingerprint[:16],
            mmconv=self.beyond(replies[0]),
        )

    def beyond(self, reply: Reply) -> Beyond:
        """The fields beyond OpenAI's protocol."""
        images = [
            Seen(id=image.sha256, width=image.width, height=image.height) for image in reply.seen
        ]
        return Beyond(images=images, seconds=reply.seconds, fingerprint=self.fingerprint)

    def chunk(self, index: int, delta: Mapping[str, str], **ended: Any) -> dict[str, Any]:
        """A chunk of the answer `index`; the last one of an answer says how it `ended`."""
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        return {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint[:16],
            "choices": [choice | ended],
        }


def usage_of(replies: Sequence[Reply]) -> Usage | None:
    """The tokens of replies, if their backend counts them."""
    counts = [(reply.input_tokens, reply.output_tokens) for reply in replies]
    if any(None in pair for pair in counts):
        return None
    read, said = (sum(filter(None, column)) for column in zip(*counts, strict=True))
    cached = [reply.cached_tokens for reply in replies if reply.cached_tokens is not None]
    return Usage(
        prompt_tokens=read,
        completion_tokens=said,
        total_tokens=read + said,
        prompt_tokens_details=PromptTokens(cached_tokens=sum(cached)) if cached else None,
    )
