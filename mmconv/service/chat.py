"""`/v1/chat/completions` and `/v1/models`: every configured model, in OpenAI's protocol.

Backends return whole replies, so a stream sends its head early and each text in one piece. Nothing
is stored: the request's messages hold what was said before.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any
from uuid import uuid4

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from mmconv.core.keys import content_key
from mmconv.core.types import Message, Part, Reply, Sampling, Text
from mmconv.service.access import Asker, Caller, Chatter, Shared
from mmconv.service.chat_protocol import (
    NEUTRAL,
    ChatCompletion,
    ChatMessage,
    ChatRequest,
    CompletionHead,
    ImagePart,
    ModelCard,
    ModelList,
    SystemMessage,
)
from mmconv.service.errors import Problem, json_response
from mmconv.service.models import ask
from mmconv.service.openapi import documented
from mmconv.service.request_images import RequestImages, request_images
from mmconv.service.requests import GONE, JsonRoute, check_bounds, first_of, gone, while_connected
from mmconv.service.run_requests import has_key, require_key
from mmconv.service.state import Service
from model_zoo.providers import provider_of

router = APIRouter(prefix="/v1", tags=["chat"], route_class=JsonRoute)

PATIENCE_SECONDS = 10.0
"""How long a stream's head waits for the reply, so that a failure has its own status. After that,
how often a comment shows clients and proxies that the server is at work."""

HOSTED = ("openai", "vllm")
"""Providers whose servers choose a random seed themselves. Some of them refuse one."""

STREAMED = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Headers that keep proxies from buffering a stream."""


@router.get("/models", response_model=ModelList)
async def list_models(shared: Shared, _caller: Asker) -> Response:
    """List the models by their public names, and whether they can be used."""
    cards = [_card(shared, name) for name in shared.settings.models]
    return json_response(ModelList(data=cards).model_dump())


@router.get("/models/{model:path}", response_model=ModelCard, responses=documented(404))
async def get_model(model: str, shared: Shared, _caller: Asker) -> Response:
    """Get one of them."""
    shared.model(model)
    return json_response(_card(shared, model).model_dump())


@router.post(
    "/chat/completions",
    response_model=ChatCompletion,
    responses=documented(404, 409, 502, 503, 504) | {200: {"content": {"text/event-stream": {}}}},
)
async def complete_chat(
    asked: ChatRequest,
    request: Request,
    shared: Shared,
    caller: Chatter,
    _version: Annotated[str | None, Query(alias="api-version")] = None,
) -> Response:
    """Answer a conversation, whole or as a stream of server-sent events.

    If the model fails or the server ends during a stream, an event has the error instead of the
    text, followed by `[DONE]`. The last message must not be the assistant's: it is not continued.
    """
    head = CompletionHead(
        id=f"chatcmpl-{uuid4().hex}",
        created=int(time.time()),
        model=asked.model,
        choices=asked.n or 1,
        fingerprint=shared.model(asked.model).model.fingerprint,
    )
    work = answer(shared, caller, asked)
    if asked.stream:
        with_usage = asked.stream_options is not None and asked.stream_options.include_usage
        return await _stream(request, asyncio.ensure_future(work), head, with_usage)
    replies = await while_connected(request, work)
    return json_response(head.completion(replies).model_dump())


async def answer(shared: Service, caller: Caller, asked: ChatRequest) -> list[Reply]:
    """Call the model with the request's messages, once for each choice. Raises `Problem`."""
    role = shared.model(asked.model)
    spec = shared.settings.models[asked.model]
    require_key(spec, asked.model, "model")
    sampling = replace(Sampling(temperature=None), **role.sampling)
    check_bounds(asked, shared.settings.sizes)
    if asked.messages[-1].role == "assistant":
        # Some servers continue such a message. Other models take it for a finished turn.
        param = f"messages[{len(asked.messages) - 1}].role"
        message = "the last message is the assistant's, and cannot be continued here; end with user"
        raise Problem(400, f"{param}: {message}", param=param)
    sampling = replace(sampling, **_chosen(shared, asked))
    if sampling.seed is None and sampling.temperature != 0 and spec.provider not in HOSTED:
        # Backends repeat their reply to a repeated request. Without a seed clients expect another.
        sampling = replace(sampling, seed=random.getrandbits(31))
    with request_images(shared) as images:
        messages = tuple(
            [
                await _message(message, f"messages[{number}].content", images)
                for number, message in enumerate(asked.messages)
            ]
        )
        messages, _ = role.prompt(messages, sampling)
        affinity = asked.conversation or content_key("", messages[:2], Sampling())
        calls = [
            asyncio.ensure_future(
                ask(shared, caller, asked.model, messages, replace(sampling, trial=n), affinity)
            )
            for n in range(asked.n or 1)
        ]
        try:
            return await asyncio.gather(*calls)
        finally:
            for call in calls:
                call.cancel()


def _chosen(shared: Service, asked: ChatRequest) -> dict[str, Any]:
    """The fields of the sampling that the client sets. Raises `Problem` 400."""
    chosen: dict[str, Any] = {
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "max_tokens": asked.max_completion_tokens or asked.max_tokens,
        "seed": asked.seed,
    }
    if asked.top_p == 0:
        # Only the likeliest token is left. Few backends accept 0, and this is equivalent.
        chosen |= {"temperature": 0.0, "top_p": 1.0}
    if asked.stop is not None:
        chosen["stop"] = (asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop)
    if asked.output_schema is not None:
        spec = shared.settings.models[asked.model]
        if not provider_of(spec).guides_output(spec):
            raise Problem(400, "this model cannot be held to a schema", param="response_format")
        chosen["schema"] = orjson.dumps(asked.output_schema).decode()
    if extra := _extra(shared, asked):
        chosen["extra"] = extra
    return {name: value for name, value in chosen.items() if value is not None}


def _extra(shared: Service, asked: ChatRequest) -> dict[str, Any]:
    """The fields that go to the model as they are. Raises `Problem` 400 if it does not take one."""
    spec = shared.settings.models[asked.model]
    extra, known = asked.extra(), provider_of(spec).extra_fields(spec)
    for name, value in extra.items():
        if name not in known and value not in NEUTRAL[name]:
            raise Problem(400, f"{name}: this model does not take it; leave it out", param=name)
    length = {"chat_template_kwargs": orjson.dumps(extra.get("chat_template_kwargs")).decode()}
    check_bounds(length, shared.settings.sizes)
    return {name: value for name, value in extra.items() if name in known}


async def _message(message: ChatMessage, param: str, images: RequestImages) -> Message:
    """The message as a value, its images checked and held. Raises `Problem`."""
    role = "system" if isinstance(message, SystemMessage) else message.role
    parts: list[Part] = []
    if message.content is None or isinstance(message.content, str):
        return Message(role=role, parts=(Text(text=message.content or ""),), name=message.name)
    for number, part in enumerate(message.content):
        if isinstance(part, ImagePart):
            place = f"{param}[{number}].image_url.url"
            parts.append(await images.image(part.image_url.url, place))
        else:
            parts.append(Text(text=part.text))
    return Message(role=role, parts=tuple(parts), name=message.name)


async def _stream(
    request: Request, work: asyncio.Future[list[Reply]], head: CompletionHead, with_usage: bool
) -> Response:
    """A stream of the reply. Raises `Problem` if the work fails before the head must be sent."""
    leaving = asyncio.ensure_future(gone(request))
    try:
        await first_of(work, leaving, PATIENCE_SECONDS)
        if leaving.done():
            raise Problem(GONE, "the client has gone")
        if work.done():
            work.result()
    except BaseException:
        work.cancel()
        raise
    finally:
        leaving.cancel()
    events = _events(work, head, with_usage)
    return StreamingResponse(events, headers=STREAMED, media_type="text/event-stream")


async def _events(
    work: asyncio.Future[list[Reply]], head: CompletionHead, with_usage: bool
) -> AsyncIterator[bytes]:
    """The replies as events. If the client leaves, Starlette cancels the stream."""
    try:
        for index in range(head.choices):
            yield _event(head.first_chunk(index))
        while not work.done():
            await asyncio.wait((work,), timeout=PATIENCE_SECONDS)
            if not work.done():
                yield b": at work\n\n"
        for index, reply in enumerate(work.result()):
            for chunk in head.chunks(index, reply):
                yield _event(chunk)
        if with_usage:
            yield _event(head.usage_chunk(work.result()))
    except Problem as problem:
        # The status has been sent. Clients of the protocol look for this.
        yield _event(problem.body)
    finally:
        work.cancel()
    yield b"data: [DONE]\n\n"


def _event(value: Any) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def _card(shared: Service, name: str) -> ModelCard:
    spec = shared.settings.models[name]
    created = int(shared.started)
    return ModelCard(id=name, created=created, owned_by=spec.provider, usable=has_key(spec))
