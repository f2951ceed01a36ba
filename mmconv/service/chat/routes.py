"""`/v1/chat/completions` and `/v1/models`: every configured model, in OpenAI's protocol.

Backends give whole replies, so a stream has its head soon and the text at once when it is there.
Nothing is stored: what was said before is in the request's messages.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from mmconv.core.keys import content_key
from mmconv.core.types import Message, Part, Reply, Sampling, Text
from mmconv.service.access import Asker, Caller, Chatter, Shared
from mmconv.service.chat.openai_protocol import (
    ChatCompletion,
    ChatMessage,
    ChatRequest,
    CompletionHead,
    ImagePart,
    ModelCard,
    ModelList,
    SystemMessage,
)
from mmconv.service.docs.responses import documented
from mmconv.service.errors.problems import Problem, json_response
from mmconv.service.http.disconnect import GONE, first_of, gone, while_connected
from mmconv.service.http.json_bodies import JsonRoute
from mmconv.service.http.request_limits import check_bounds
from mmconv.service.images.request_images import RequestImages, request_images
from mmconv.service.models.api_keys import has_key, require_key
from mmconv.service.models.calls import ask
from mmconv.service.models.pool import guides_output
from mmconv.service.state import Service

router = APIRouter(prefix="/v1", tags=["chat"], route_class=JsonRoute)

PATIENCE_SECONDS = 10.0
"""How long a stream's head waits for the reply, so that a failure has a status of its own; and how
often after that a comment shows the client, and what lies between, that the server is at work."""

ELSEWHERE = ("openai", "vllm")
"""Providers whose servers draw anew by themselves; some of them refuse a seed."""

STREAMED = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""What keeps proxies from collecting a stream before they pass it on."""


@router.get("/models", response_model=ModelList, responses=documented())
async def list_models(shared: Shared, _caller: Asker) -> Response:
    """List the models, by the names that the operator gave them, and whether they can be asked."""
    cards = [_card(shared, name) for name in shared.models.specs]
    return json_response(ModelList(data=cards).model_dump())


@router.get("/models/{model:path}", response_model=ModelCard, responses=documented(404))
async def get_model(model: str, shared: Shared, _caller: Asker) -> Response:
    """Tell of one of them."""
    shared.model(model)
    return json_response(_card(shared, model).model_dump())


@router.post(
    "/chat/completions",
    response_model=ChatCompletion,
    responses=documented(404, 409, 502, 503, 504) | {200: {"content": {"text/event-stream": {}}}},
)
async def complete_chat(
    asked: ChatRequest, request: Request, shared: Shared, caller: Chatter
) -> Response:
    """Answer a conversation, whole or as a stream of server-sent events.

    A stream that cannot be finished, be it that the model fails or that the server ends, has an
    event with the error in place of the text, and `[DONE]`. The last message must not be the
    assistant's: it is not continued.
    """
    head = CompletionHead(
        id=f"chatcmpl-{uuid4().hex}",
        created=int(time.time()),
        model=asked.model,
        fingerprint=shared.model(asked.model).model.fingerprint,
    )
    work = answer(shared, caller, asked)
    if asked.stream:
        with_usage = asked.stream_options is not None and asked.stream_options.include_usage
        return await _stream(request, asyncio.ensure_future(work), head, with_usage)
    reply = await while_connected(request, work)
    return json_response(head.completion(reply).model_dump())


async def answer(shared: Service, caller: Caller, asked: ChatRequest) -> Reply:
    """Ask the model what the request says; raises `Problem`."""
    seat = shared.model(asked.model)
    require_key(shared.models.specs[asked.model], asked.model, "model")
    sampling = replace(Sampling(temperature=None), **seat.sampling)
    check_bounds(asked, shared.settings.sizes)
    _check_turn(asked)
    sampling = replace(sampling, **_chosen(shared, asked))
    drawn_here = shared.models.specs[asked.model].provider not in ELSEWHERE
    if sampling.seed is None and sampling.temperature != 0 and drawn_here:
        # Backends draw the same for the same request, and a client without a seed wants another.
        sampling = replace(sampling, seed=random.getrandbits(31))
    with request_images(shared) as images:
        messages = await _read_messages(asked.messages, images)
        messages, _ = seat.prompt(messages, sampling)
        affinity = asked.conversation or content_key("", messages[:2], Sampling())
        return await ask(shared, caller, asked.model, messages, sampling, affinity)


def _check_turn(asked: ChatRequest) -> None:
    """Raise `Problem` 400 for a last message of the assistant, which leaves no turn to answer.

    Some servers continue such a message; of other models it would be taken for a finished turn.
    """
    if asked.messages[-1].role == "assistant":
        param = f"messages[{len(asked.messages) - 1}].role"
        message = "the last message is the assistant's, and cannot be continued here; end with user"
        raise Problem(400, f"{param}: {message}", param=param)


def _chosen(shared: Service, asked: ChatRequest) -> dict[str, Any]:
    """The fields of the sampling that the client sets; raises `Problem` 400."""
    chosen: dict[str, Any] = {
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "max_tokens": asked.max_completion_tokens or asked.max_tokens,
        "seed": asked.seed,
    }
    if asked.top_p == 0:
        # Only the likeliest token is left. Few backends take 0, and all take this for the same.
        chosen |= {"temperature": 0.0, "top_p": 1.0}
    if asked.stop is not None:
        chosen["stop"] = (asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop)
    if asked.wanted_schema is not None:
        if not guides_output(shared.models.specs[asked.model]):
            raise Problem(400, "this model cannot be held to a schema", param="response_format")
        chosen["schema"] = orjson.dumps(asked.wanted_schema).decode()
    return {name: value for name, value in chosen.items() if value is not None}


async def _read_messages(
    given: Sequence[ChatMessage], images: RequestImages
) -> tuple[Message, ...]:
    """The messages as values, their images checked and held; raises `Problem`."""
    return tuple(
        [
            await _message(message, f"messages[{number}].content", images)
            for number, message in enumerate(given)
        ]
    )


async def _message(message: ChatMessage, param: str, images: RequestImages) -> Message:
    role = "system" if isinstance(message, SystemMessage) else message.role
    if isinstance(message.content, str):
        return Message(role=role, parts=(Text(text=message.content),))
    parts: list[Part] = []
    for number, part in enumerate(message.content):
        if isinstance(part, ImagePart):
            place = f"{param}[{number}].image_url.url"
            parts.append(await images.image(part.image_url.url, place))
        else:
            parts.append(Text(text=part.text))
    return Message(role=role, parts=tuple(parts))


async def _stream(
    request: Request, work: asyncio.Future[Reply], head: CompletionHead, with_usage: bool
) -> Response:
    """A stream of the reply; raises `Problem` if the work fails before the head must go out."""
    leaving = asyncio.ensure_future(gone(request))
    try:
        await first_of(work, leaving, PATIENCE_SECONDS)
        if leaving.done():
            raise Problem(GONE, "the client has gone")
        if work.done():
            work.result()
    except BaseException:
        work.cancel()
        leaving.cancel()
        raise
    events = _events(work, leaving, head, with_usage)
    return StreamingResponse(events, headers=STREAMED, media_type="text/event-stream")


async def _events(
    work: asyncio.Future[Reply],
    leaving: asyncio.Future[None],
    head: CompletionHead,
    with_usage: bool,
) -> AsyncIterator[bytes]:
    try:
        yield _event(head.first_chunk())
        while not work.done() and not leaving.done():
            await first_of(work, leaving, PATIENCE_SECONDS)
            if not work.done():
                yield b": at work\n\n"
        if work.done():
            for chunk in head.chunks(work.result(), with_usage=with_usage):
                yield _event(chunk)
    except Problem as problem:
        # The status has gone out; clients of the protocol look for this.
        yield _event(problem.body)
    finally:
        work.cancel()
        leaving.cancel()
    yield b"data: [DONE]\n\n"


def _event(value: Any) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def _card(shared: Service, name: str) -> ModelCard:
    spec = shared.models.specs[name]
    created = int(shared.started)
    return ModelCard(id=name, created=created, owned_by=spec.provider, usable=has_key(spec))
