"""`/v1/chat/completions` and `/v1/models`: every configured model, in OpenAI's protocol.

Nothing is stored: the request's messages hold what was said before.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any
from uuid import uuid4

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mmconv.core.keys import content_key
from mmconv.core.types import Message, Part, Reply, Sampling, Text
from mmconv.service.access import Asker, Caller, Chatter, Shared
from mmconv.service.chat_protocol import (
    FINISHES,
    NEUTRAL,
    ChatCompletion,
    ChatMessage,
    ChatRequest,
    CompletionHead,
    ImagePart,
    ModelCard,
    ModelList,
    SystemMessage,
    usage_of,
)
from mmconv.service.errors import Problem, json_response
from mmconv.service.models import ask
from mmconv.service.openapi import documented
from mmconv.service.request_images import RequestImages, request_images
from mmconv.service.requests import JsonRoute, check_bounds, while_connected
from mmconv.service.run_requests import has_key, require_key
from mmconv.service.state import Service
from mmconv.service.streams import AT_WORK, Answers, Listener, open_stream, write_event
from model_zoo.providers import provider_of

router = APIRouter(prefix="/v1", tags=["chat"], route_class=JsonRoute)

HOSTED = ("anthropic", "google", "openai", "vllm")
"""Providers whose servers choose a random seed themselves. Some of them refuse one."""


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
    body: ChatRequest,
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
        model=body.model,
        choices=body.n or 1,
        fingerprint=shared.model(body.model).model.fingerprint,
    )
    if body.stream:
        with_usage = body.stream_options is not None and body.stream_options.include_usage
        answers = Answers(partial(answer, shared, caller, body))
        events = _events(answers, head, with_usage)
        return await open_stream(request, answers, events, b"data: [DONE]\n\n")
    replies = await while_connected(request, answer(shared, caller, body))
    return json_response(head.completion(replies).model_dump())


async def answer(
    shared: Service,
    caller: Caller,
    body: ChatRequest,
    listener: Listener | None = None,
    fields: Sequence[str] | None = None,
) -> list[Reply]:
    """Call the model with the request's messages, once for each choice.

    Raises `Problem`, which names messages by `fields` if their request had others.
    """
    fields = fields or [f"messages[{number}]" for number in range(len(body.messages))]
    role = shared.model(body.model)
    spec = shared.settings.models[body.model]
    require_key(spec, body.model, "model")
    sampling = replace(Sampling(temperature=None), **role.sampling)
    check_bounds(body, shared.settings.sizes)
    if body.messages[-1].role == "assistant":
        # Some servers continue such a message. Other models take it for a finished turn.
        param = f"{fields[-1]}.role"
        message = "the last message is the assistant's, and cannot be continued here; end with user"
        raise Problem(400, f"{param}: {message}", param=param)
    sampling = replace(sampling, **_chosen(shared, body))
    if sampling.seed is None and sampling.temperature != 0 and spec.provider not in HOSTED:
        # Backends repeat their reply to a repeated request. Without a seed clients expect another.
        sampling = replace(sampling, seed=random.getrandbits(31))
    with request_images(shared, caller.as_owner) as images:
        messages = tuple(
            [
                await _message(message, f"{field}.content", images)
                for field, message in zip(fields, body.messages, strict=True)
            ]
        )
        messages, _ = role.prompt(messages, sampling)
        affinity = body.conversation or content_key("", messages[:2], Sampling())
        call = partial(ask, shared, caller, body.model, messages)
        calls = [
            asyncio.ensure_future(
                call(replace(sampling, trial=n), affinity, listener and listener(n))
            )
            for n in range(body.n or 1)
        ]
        try:
            return await asyncio.gather(*calls)
        finally:
            for task in calls:
                task.cancel()


def _chosen(shared: Service, body: ChatRequest) -> dict[str, Any]:
    """The fields of the sampling that the client sets. Raises `Problem` 400."""
    spec = shared.settings.models[body.model]
    provider = provider_of(spec)
    chosen: dict[str, Any] = {
        "temperature": body.temperature,
        "top_p": body.top_p,
        "max_tokens": body.max_completion_tokens or body.max_tokens,
        "seed": body.seed,
    }
    if body.top_p == 0:
        # Only the likeliest token is left. Few backends accept 0, and this is equivalent.
        chosen |= {"temperature": 0.0, "top_p": 1.0}
    if body.stop is not None:
        chosen["stop"] = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop)
    if body.output_schema is not None:
        if not provider.guides_output(spec):
            raise Problem(400, "this model cannot be held to a schema", param="response_format")
        chosen["schema"] = orjson.dumps(body.output_schema).decode()
    extra, known = body.extra(), provider.extra_fields(spec)
    for name, value in extra.items():
        if name not in known and value not in NEUTRAL[name]:
            raise Problem(400, f"{name}: this model does not take it; leave it out", param=name)
    length = {"chat_template_kwargs": orjson.dumps(extra.get("chat_template_kwargs")).decode()}
    check_bounds(length, shared.settings.sizes)
    chosen["extra"] = {name: value for name, value in extra.items() if name in known} or None
    return {name: value for name, value in chosen.items() if value is not None}


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


async def _events(answers: Answers, head: CompletionHead, with_usage: bool) -> AsyncIterator[bytes]:
    for index in range(head.choices):
        yield write_event(head.chunk(index, {"role": "assistant", "content": ""}))
    async for piece in answers:
        if piece is None:
            yield AT_WORK
            continue
        index, channel, text = piece
        field = "content" if channel == "text" else "reasoning_content"
        yield write_event(head.chunk(index, {field: text}))
    for index, reply in enumerate(answers.replies):
        finish = FINISHES[reply.finish]
        last = head.chunk(index, {}, finish_reason=finish, logprobs=reply.logprobs)
        yield write_event(last | {"mmconv": head.beyond(reply).model_dump()})
    if with_usage:
        usage = usage_of(answers.replies)
        yield write_event(
            head.chunk(0, {}) | {"choices": [], "usage": usage and usage.model_dump()}
        )


def _card(shared: Service, name: str) -> ModelCard:
    spec = shared.settings.models[name]
    created = int(shared.started)
    return ModelCard(id=name, created=created, owned_by=spec.provider, usable=has_key(spec))
