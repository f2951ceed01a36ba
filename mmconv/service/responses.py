"""`/v1/responses`: every configured model, in OpenAI's newer protocol; a chat in other words.

Text and images only, and no state: a request holds the whole conversation. What is accepted without
effect (`include`, `metadata`, `reasoning.summary`) changes no answer.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal, TypeAlias
from uuid import uuid4

from fastapi import APIRouter, Request
from pydantic import (
    AfterValidator,
    BaseModel,
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
    Shape,
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


class InputText(Shape):
    """Text of a message."""

    type: Literal["input_text"]
    text: str


class InputImage(Shape):
    """An image of a message: `image:<id>`, a data URI, or an https URL if the server allows it."""

    type: Literal["input_image"]
    image_url: str
    detail: Literal["auto", "high"] | None = None
    file_id: None = None


class OutputText(Shape):
    """Text of an answer. Only `text` is shown to the model again."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


class MessageItem(Shape):
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


class ReasoningItem(Shape):
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


class Reasoning(Shape):
    """How much a model reasons, for models that take it. `summary` has no effect."""

    effort: Word | None = None
    summary: Word | None = None
    generate_summary: Word | None = None


class NamedFormat(JsonSchema):
    """JSON that matches a schema. Only for models whose backend guides their output."""

    type: Literal["json_schema"]


class TextOptions(Shape):
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


class ResponseStreamOptions(Shape):
    """What a stream holds besides the answer."""

    include_obfuscation: Off | None = None


class ResponseRequest(Shape):
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

    @classmethod
    def to(cls, body: ResponseRequest) -> ResponseObject:
        """The response to a request, in progress."""
        same = ("instructions", "max_output_tokens", "model", "temperature", "top_p", "user")
        chosen = body.text and body.text.format
        return cls(
            id=f"resp_{uuid4().hex}",
            created_at=int(time.time()),
            status="in_progress",
            output=[],
            reasoning={"effort": body.reasoning and body.reasoning.effort, "summary": None},
            text={"format": chosen.model_dump(by_alias=True) if chosen else {"type": "text"}},
            usage=None,
            metadata=body.metadata or {},
            **{name: getattr(body, name) for name in same},
        )

    def answered(self, reply: Reply) -> ResponseObject:
        """The response with its answer."""
        reason = CUT.get(reply.finish)
        status = "incomplete" if reason else "completed"
        output = [self.item("text", reply.text, status)]
        if reply.reasoning is not None:
            output.insert(0, self.item("reasoning", reply.reasoning, "completed"))
        details = {"reason": reason} if reason else None
        changed = {"status": status, "output": output, "usage": _usage(reply)}
        return self.model_copy(update=changed | {"incomplete_details": details})

    def item(self, channel: str, text: str | None, status: str) -> dict[str, Any]:
        """The item of the reasoning or of the text; without text as it is when it begins."""
        kind: dict[str, Any] = {"id": "msg", "type": "message", "role": "assistant"}
        if channel == "reasoning":
            kind = {"id": "rs", "type": "reasoning", "summary": []}
        content = [] if text is None else [_part(channel, text)]
        number = self.id.removeprefix("resp")
        return kind | {"id": f"{kind['id']}{number}", "content": content, "status": status}


CUT: Mapping[str, str] = {"length": "max_output_tokens", "filter": "content_filter"}
"""How a reply ended too early -> OpenAI's reason."""


def _part(channel: str, text: str) -> dict[str, Any]:
    """The one part of an item."""
    if channel == "reasoning":
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(reply: Reply) -> dict[str, Any] | None:
    usage = usage_of([reply])
    if usage is None:
        return None
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": reply.cached_tokens or 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total_tokens,
    }


class Writer:
    """The events of a stream, in the protocol's order, with their numbers."""

    def __init__(self, response: ResponseObject) -> None:
        self._response = response
        self._number = -1
        self._opened: list[str] = []
        self._text = ""

    def begin(self) -> Iterator[bytes]:
        """The events before the answer."""
        response = self._response.model_dump()
        yield self._event("response.created", response=response)
        yield self._event("response.in_progress", response=response)

    def piece(self, channel: str, text: str) -> Iterator[bytes]:
        """The events of a piece of the answer. Reasoning after the text is left to the end."""
        if channel not in self._opened:
            if "text" in self._opened:
                return
            yield from self._close("completed")
            yield from self._open(channel)
        self._text += text
        yield self._text_event("delta", delta=text)

    def end(self, reply: Reply) -> Iterator[bytes]:
        """The events after the answer."""
        if "text" not in self._opened:
            yield from self._close("completed")
            yield from self._open("text")
        response = self._response.answered(reply)
        yield from self._close(response.status)
        yield self._event(f"response.{response.status}", response=response.model_dump())

    def fail(self, detail: Mapping[str, Any]) -> bytes:
        """The event of a failure, also in the form that clients of chat look for."""
        return self._event("error", **{**detail, "type": "error"}, error=detail)

    def _open(self, channel: str) -> Iterator[bytes]:
        self._opened.append(channel)
        self._text = ""
        yield self._item_event("added", None, "in_progress")
        yield self._part_event("response.content_part.added", part=_part(channel, ""))

    def _close(self, status: str) -> Iterator[bytes]:
        if self._opened:
            part = _part(self._opened[-1], self._text)
            yield self._text_event("done", text=self._text)
            yield self._part_event("response.content_part.done", part=part)
            yield self._item_event("done", self._text, status)

    def _item_event(self, step: str, text: str | None, status: str) -> bytes:
        item = self._response.item(self._opened[-1], text, status)
        kind = f"response.output_item.{step}"
        return self._event(kind, item=item, output_index=len(self._opened) - 1)

    def _text_event(self, step: str, **fields: Any) -> bytes:
        if self._opened[-1] == "reasoning":
            return self._part_event(f"response.reasoning_text.{step}", **fields)
        return self._part_event(f"response.output_text.{step}", **fields, logprobs=[])

    def _part_event(self, kind: str, **fields: Any) -> bytes:
        item = self._response.item(self._opened[-1], None, "")["id"]
        place = {"item_id": item, "output_index": len(self._opened) - 1, "content_index": 0}
        return self._event(kind, **place, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        return write_event({"sequence_number": self._number, **fields, "type": kind}, kind)


@router.post(
    "/responses",
    response_model=ResponseObject,
    responses=documented(404, 409, 502, 503, 504) | {200: {"content": {"text/event-stream": {}}}},
)
async def create_response(
    body: ResponseRequest, request: Request, shared: Shared, caller: Chatter
) -> Response:
    """Answer a conversation, whole or as a stream of server-sent events. Nothing is stored.

    If the model fails or the server ends during a stream, its last event is `error`.
    """
    check_bounds(body, shared.settings.sizes)
    response = ResponseObject.to(body)

    async def answered(listener: Listener | None = None) -> list[Reply]:
        with _renamed():
            chat, fields = body.chat()
            return await answer(shared, caller, chat, listener, fields)

    if body.stream:
        answers = Answers(answered)
        return await open_stream(request, answers, _events(answers, Writer(response)))
    [reply] = await while_connected(request, answered())
    return json_response(response.answered(reply).model_dump())


async def _events(answers: Answers, writer: Writer) -> AsyncIterator[bytes]:
    try:
        yield b"".join(writer.begin())
        async for piece in answers:
            yield AT_WORK if piece is None else b"".join(writer.piece(*piece[1:]))
        yield b"".join(writer.end(answers.replies[0]))
    except Problem as problem:
        yield writer.fail(problem.body["error"])


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
