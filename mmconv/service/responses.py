"""`/v1/responses`: every configured model, in OpenAI's newer protocol; a chat in other words."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from uuid import uuid4

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import Response

from mmconv.core.types import Reply
from mmconv.service.access import Chatter, Shared
from mmconv.service.chat import answer
from mmconv.service.errors import Problem, json_response, plainly
from mmconv.service.openapi import documented
from mmconv.service.requests import JsonRoute, check_bounds, while_connected
from mmconv.service.responses_protocol import ResponseHead, ResponseObject, ResponseRequest, Writer
from mmconv.service.streams import AT_WORK, Answers, Listener, open_stream, write_event

router = APIRouter(prefix="/v1", tags=["chat"], route_class=JsonRoute)

NAMES = {"reasoning_effort": "reasoning.effort", "verbosity": "text.verbosity"}
NAMES |= {"response_format": "text.format", "messages": "input"}
"""A field of chats -> the field of responses."""


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
