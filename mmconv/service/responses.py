"""`/v1/responses`: every configured model, in OpenAI's newer protocol; a chat in other words.

Text and images only, and no state: a request holds the whole conversation. What is accepted without
effect (`include`, `metadata`, `reasoning.summary`) changes no answer.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias
from uuid import uuid4

from fastapi import APIRouter, Request
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    field_validator,
)
from starlette.responses import Response

from mmconv.core.types import Reply
from mmconv.service.access import Chatter, Shared
from mmconv.service.chat import answer
from mmconv.service.chat_protocol import (
    ChatRequest,
    JsonSchema,
    Nothing,
    ObjectFormat,
    TextFormat,
    usage_of,
)
from mmconv.service.errors import Problem, json_response, plainly
from mmconv.service.openapi import documented
from mmconv.service.requests import HOTTEST, JsonRoute, Word, check_bounds, while_connected
from mmconv.service.streams import AT_WORK, Answers, Listener, open_stream, write_event

router = APIRouter(prefix="/v1", tags=["chat"], route_class=JsonRoute)

NAMES = {"reasoning_effort": "reasoning.effort", "verbosity": "text.verbosity"}
NAMES |= {"response_format": "text.format", "messages": "input"}
"""A field of chats -> the field of responses."""


def _refuse_true(value: bool) -> bool:
    if value:
        raise ValueError("must be false, or left out")
    return value


Off: TypeAlias = Annotated[
    bool, AfterValidator(_refuse_true), Field(json_schema_extra={"const": False})
]
"""A switch that this server does not have. `Literal[False]` would take 0 as well."""


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class InputText(_Shape):
    """Text of a message."""

    type: Literal["input_text"]
    text: str


class InputImage(_Shape):
    """An image of a message: `image:<id>`, a data URI, or an https URL if the server allows it."""

    type: Literal["input_image"]
    image_url: str
    detail: Literal["auto", "high"] | None = None
    file_id: None = None


class OutputText(_Shape):
    """Text of an answer. Only `text` is shown to the model again."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


class MessageItem(_Shape):
    """A message of the conversation."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Annotated[InputText | InputImage | OutputText, Field(discriminator="type")]]
    id: str | None = None
    status: str | None = None
    phase: str | None = None

    def chat_message(self) -> dict[str, Any]:
        """The message as chat completions have it."""
        content: Any = self.content
        if not isinstance(content, str):
            content = [
                {"type": "image_url", "image_url": {"url": part.image_url, "detail": part.detail}}
                if isinstance(part, InputImage)
                else {"type": "text", "text": part.text}
                for part in content
            ]
        return {"role": self.role, "content": content}


class ReasoningItem(_Shape):
    """Reasoning of an earlier answer. It is accepted and not shown to the model again."""

    type: Literal["reasoning"]
    id: str | None = None
    summary: list[Any] | None = None
    content: list[Any] | None = None
    encrypted_content: str | None = None
    status: str | None = None


def _item_type(item: Any) -> Any:
    kind = item.get("type") if isinstance(item, dict) else getattr(item, "type", None)
    return kind or "message"


Item: TypeAlias = Annotated[
    Annotated[MessageItem, Tag("message")] | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(_item_type),
]
"""An item of the input. One without a type is a message."""


class Reasoning(_Shape):
    """How much a model reasons, for models that take it. `summary` has no effect."""

    effort: Word | None = None
    summary: Word | None = None
    generate_summary: Word | None = None


class NamedFormat(JsonSchema):
    """JSON that matches a schema. Only for models whose backend guides their output."""

    type: Literal["json_schema"]


class TextOptions(_Shape):
    """The form of an answer."""

    format: (
        Annotated[TextFormat | ObjectFormat | NamedFormat, Field(discriminator="type")] | None
    ) = None
    verbosity: Literal["low", "medium", "high"] | None = None

    def chat_format(self) -> dict[str, Any] | None:
        """The format as chat completions have it."""
        if isinstance(self.format, NamedFormat):
            schema = self.format.model_dump(by_alias=True, exclude={"type"})
            return {"type": "json_schema", "json_schema": schema}
        return None if self.format is None else self.format.model_dump()


class ResponseStreamOptions(_Shape):
    """What a stream holds besides the answer."""

    include_obfuscation: Off | None = None


class ResponseRequest(_Shape):
    """A response to create, from a whole conversation.

    Nothing is stored: `store: true` and `previous_response_id` are refused. The default of a field
    is that of a chat.
    """

    model: str
    input: str | Annotated[list[Item], Field(min_length=1)]
    instructions: str | None = None
    max_output_tokens: int | None = Field(default=None, gt=0)
    temperature: float | None = Field(default=None, ge=0, le=HOTTEST)
    top_p: float | None = Field(default=None, ge=0, le=1)
    reasoning: Reasoning | None = None
    text: TextOptions | None = None
    stream: bool | None = None
    stream_options: ResponseStreamOptions | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    include: list[Literal["reasoning.encrypted_content"]] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    metadata: dict[str, str] | None = None
    service_tier: Literal["auto", "default"] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    background: Off | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=0)
    tools: Nothing | None = None
    tool_choice: Literal["none", "auto"] | None = None
    parallel_tool_calls: bool | None = None

    @field_validator("store", "previous_response_id")
    @classmethod
    def _is_stateless(cls, value: Any) -> Any:
        if value:
            raise ValueError(
                "this server keeps no responses; leave it out, and send the conversation in input"
            )
        return value

    def chat(self) -> tuple[ChatRequest, list[str]]:
        """The same request as a chat, and the field here that each of its messages comes from."""
        messages: list[dict[str, Any]] = []
        fields: list[str] = []
        if self.instructions is not None:
            messages.append({"role": "system", "content": self.instructions})
            fields.append("instructions")
        if isinstance(self.input, str):
            messages.append({"role": "user", "content": self.input})
            fields.append("input")
        else:
            for number, item in enumerate(self.input):
                if isinstance(item, MessageItem):
                    messages.append(item.chat_message())
                    fields.append(f"input[{number}]")
        shared = ("model", "temperature", "top_p", "user", "safety_identifier", "prompt_cache_key")
        request = ChatRequest.model_validate(
            {name: getattr(self, name) for name in shared}
            | {
                "messages": messages,
                "max_completion_tokens": self.max_output_tokens,
                "response_format": self.text and self.text.chat_format(),
                "verbosity": self.text and self.text.verbosity,
                "reasoning_effort": self.reasoning and self.reasoning.effort,
            }
        )
        return request, fields


class ResponseObject(BaseModel):
    """A response; `usage` is null if the backend does not count tokens.

    `output` has the reasoning, if any, and a message.
    """

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Literal["in_progress", "completed", "incomplete"]
    error: None = None
    incomplete_details: dict[str, str] | None = None
    instructions: str | None
    max_output_tokens: int | None
    model: str
    output: list[dict[str, Any]]
    parallel_tool_calls: bool = False
    previous_response_id: None = None
    reasoning: dict[str, str | None]
    store: bool = False
    temperature: float | None
    text: dict[str, Any]
    tool_choice: str = "none"
    tools: list[Any] = []
    top_p: float | None
    truncation: str = "disabled"
    usage: dict[str, Any] | None
    user: str | None
    metadata: dict[str, str]


Event: TypeAlias = dict[str, Any]
"""An event of a stream: its `type` and fields."""

CUT: Mapping[str, str] = {"length": "max_output_tokens", "filter": "content_filter"}
"""How a reply ended too early -> OpenAI's reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """What is known of a response before its answer; `created` is seconds since 1970."""

    id: str
    created: int
    request: ResponseRequest

    def response(self, reply: Reply | None = None) -> ResponseObject:
        """The response: whole, or in progress without a reply."""
        asked = self.request
        reason = CUT.get(reply.finish) if reply is not None else None
        status: Literal["in_progress", "completed", "incomplete"] = "in_progress"
        if reply is not None:
            status = "incomplete" if reason else "completed"
        chosen = asked.text and asked.text.format
        return ResponseObject(
            id=f"resp_{self.id}",
            created_at=self.created,
            status=status,
            incomplete_details={"reason": reason} if reason else None,
            instructions=asked.instructions,
            max_output_tokens=asked.max_output_tokens,
            model=asked.model,
            output=[] if reply is None else self.output(reply),
            reasoning={"effort": asked.reasoning and asked.reasoning.effort, "summary": None},
            temperature=asked.temperature,
            text={"format": chosen.model_dump(by_alias=True) if chosen else {"type": "text"}},
            top_p=asked.top_p,
            usage=None if reply is None else _usage(reply),
            user=asked.user,
            metadata=asked.metadata or {},
        )

    def output(self, reply: Reply) -> list[dict[str, Any]]:
        """The items of an answer."""
        message = self.item(
            "text", reply.text, "incomplete" if reply.finish in CUT else "completed"
        )
        if reply.reasoning is None:
            return [message]
        return [self.item("reasoning", reply.reasoning, "completed"), message]

    def item(self, channel: str, text: str | None, status: str) -> dict[str, Any]:
        """The item of the reasoning or of the text; without text as it is when it begins."""
        content = [] if text is None else [part(channel, text)]
        if channel == "reasoning":
            return {
                "id": f"rs_{self.id}",
                "type": "reasoning",
                "summary": [],
                "content": content,
                "status": status,
            }
        return {
            "id": f"msg_{self.id}",
            "type": "message",
            "role": "assistant",
            "content": content,
            "status": status,
        }


def part(channel: str, text: str) -> dict[str, Any]:
    """The one part of an item."""
    if channel == "reasoning":
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


class Writer:
    """The events of a stream, in the protocol's order, with their numbers."""

    def __init__(self, head: ResponseHead) -> None:
        self._head = head
        self._number = -1
        self._opened: list[str] = []
        self._text = ""

    def begin(self) -> Iterator[Event]:
        """The events before the answer."""
        response = self._head.response().model_dump()
        yield self._event("response.created", response=response)
        yield self._event("response.in_progress", response=response)

    def piece(self, channel: str, text: str) -> Iterator[Event]:
        """The events of a piece of the answer. Reasoning after the text is left to the end."""
        if channel not in self._opened:
            if "text" in self._opened:
                return
            yield from self._close("completed")
            yield from self._open(channel)
        self._text += text
        logprobs: Event = {"logprobs": []} if channel == "text" else {}
        yield self._part_event(f"{_name(channel)}.delta", delta=text, **logprobs)

    def end(self, reply: Reply) -> Iterator[Event]:
        """The events after the answer."""
        if "text" not in self._opened:
            yield from self._close("completed")
            yield from self._open("text")
        response = self._head.response(reply)
        yield from self._close(response.status)
        yield self._event(f"response.{response.status}", response=response.model_dump())

    def fail(self, detail: Mapping[str, Any]) -> Event:
        """The event of a failure, also in the form that clients of chat look for."""
        return self._event("error", **{**detail, "type": "error"}, error=detail)

    def _open(self, channel: str) -> Iterator[Event]:
        self._opened.append(channel)
        self._text = ""
        item = self._head.item(channel, None, "in_progress")
        yield self._event("response.output_item.added", item=item, output_index=self._index)
        yield self._part_event("response.content_part.added", part=part(channel, ""))

    def _close(self, status: str) -> Iterator[Event]:
        if not self._opened:
            return
        channel = self._opened[-1]
        logprobs: Event = {"logprobs": []} if channel == "text" else {}
        yield self._part_event(f"{_name(channel)}.done", text=self._text, **logprobs)
        yield self._part_event("response.content_part.done", part=part(channel, self._text))
        item = self._head.item(channel, self._text, status)
        yield self._event("response.output_item.done", item=item, output_index=self._index)

    @property
    def _index(self) -> int:
        return len(self._opened) - 1

    def _part_event(self, kind: str, **fields: Any) -> Event:
        item = self._head.item(self._opened[-1], None, "")["id"]
        place = {"item_id": item, "output_index": self._index, "content_index": 0}
        return self._event(kind, **place, **fields)

    def _event(self, kind: str, **fields: Any) -> Event:
        self._number += 1
        return {"sequence_number": self._number, **fields, "type": kind}


def _name(channel: str) -> str:
    return "response.output_text" if channel == "text" else "response.reasoning_text"


def _usage(reply: Reply) -> dict[str, Any] | None:
    usage = usage_of([reply])
    return (
        None
        if usage is None
        else {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": reply.cached_tokens or 0},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.total_tokens,
        }
    )


@router.post(
    "/responses",
    response_model=ResponseObject,
    responses=documented(404, 409, 502, 503, 504) | {200: {"content": {"text/event-stream": {}}}},
)
async def create_response(
    asked: ResponseRequest, request: Request, shared: Shared, caller: Chatter
) -> Response:
    """Answer a conversation, whole or as a stream of server-sent events. Nothing is stored.

    If the model fails or the server ends during a stream, its last event is `error`.
    """
    check_bounds(asked, shared.settings.sizes)
    head = ResponseHead(id=uuid4().hex, created=int(time.time()), request=asked)

    async def answered(listener: Listener | None = None) -> list[Reply]:
        with _renamed():
            chat, fields = asked.chat()
            return await answer(shared, caller, chat, listener, fields)

    if asked.stream:
        answers = Answers(answered)
        return await open_stream(request, answers, _events(answers, Writer(head)))
    [reply] = await while_connected(request, answered())
    return json_response(head.response(reply).model_dump())


async def _events(answers: Answers, writer: Writer) -> AsyncIterator[bytes]:
    try:
        for event in writer.begin():
            yield write_event(event, event["type"])
        async for piece in answers:
            if piece is None:
                yield AT_WORK
                continue
            for event in writer.piece(piece[1], piece[2]):
                yield write_event(event, event["type"])
        for event in writer.end(answers.replies[0]):
            yield write_event(event, event["type"])
    except Problem as problem:
        yield write_event(writer.fail(problem.body["error"]), "error")


@contextmanager
def _renamed() -> Iterator[None]:
    """Name fields as this protocol does in what a chat's failures say."""
    try:
        yield
    except ValidationError as error:
        raise Problem(400, f"input: {plainly(error.errors()[0])}", param="input") from error
    except Problem as problem:
        if (param := problem.param) not in NAMES:
            raise
        message = problem.message.replace(f"{param}:", f"{NAMES[param]}:")
        raise Problem(problem.status, message, param=NAMES[param], code=problem.code) from problem
