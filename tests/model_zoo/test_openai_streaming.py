"""Streamed replies of a chat-completions server: pieces as they come, and the reply at the end."""

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from aiohttp import web

from mmconv.core.errors import BackendError, Transient
from mmconv.core.types import Reply, Sampling
from model_zoo.reasoning import ReplyPieces
from tests.model_zoo.openai_support import ONCE, asked, opened

USAGE = {"prompt_tokens": 3, "completion_tokens": 2}


def delta(text: str | None = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    content = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": content | fields, "finish_reason": finish}
    return {"model": "some/model", "choices": [choice]}


async def begin(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    return response


async def send(response: web.StreamResponse, *chunks: Any) -> None:
    for chunk in chunks:
        await response.write(b"data: " + orjson.dumps(chunk) + b"\n\n")


async def streamed(chunks: Sequence[Any], *, done: bool = True) -> tuple[Reply, list[Any]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        await send(response, *chunks)
        if done:
            await response.write(b"data: [DONE]\n\n")
        return response

    heard: list[Any] = []
    async with opened(answer) as (backend, server):
        stream: Any = backend
        reply = await stream.stream(
            asked("Hi."), ONCE, affinity="a", listen=lambda *piece: heard.append(piece)
        )
        assert server.bodies[0]["stream"] is True
    return reply, heard


async def test_pieces_come_before_the_reply_ends() -> None:
    is_heard = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        await send(response, delta("Red "), delta("and"))
        await is_heard.wait()
        await send(response, delta(" blue."), delta(finish="stop"), {"choices": [], "usage": USAGE})
        return response

    heard: list[str] = []

    def listen(_channel: str, piece: str) -> None:
        heard.append(piece)
        is_heard.set()

    async with opened(answer) as (backend, _):
        stream: Any = backend
        reply = await stream.stream(asked("Hi."), ONCE, affinity="a", listen=listen)
    assert (reply.text, reply.finish) == ("Red and blue.", "stop")
    assert (reply.input_tokens, reply.output_tokens, reply.answered_by) == (3, 2, "some/model")
    assert "".join(heard) == reply.text
    assert len(heard) > 1


@pytest.mark.parametrize(
    "chunks",
    [
        [delta(reasoning_content="A stop "), delta(reasoning_content="sign."), delta("Red.")],
        [delta("<thi"), delta("nk>A stop sign.</thi"), delta("nk>\n\nRed"), delta(".")],
    ],
)
async def test_reasoning_is_passed_on_apart(chunks: list[Any]) -> None:
    reply, heard = await streamed([*chunks, delta(finish="length")])
    assert (reply.text, reply.reasoning, reply.finish) == ("Red.", "A stop sign.", "length")
    for channel, text in (("reasoning", "A stop sign."), ("text", "Red.")):
        assert "".join(piece for name, piece in heard if name == channel) == text


async def test_log_probabilities_of_all_chunks_are_joined() -> None:
    chunks = [delta("Red"), delta(".", "stop")]
    for chunk, token in zip(chunks, ("Red", "."), strict=True):
        chunk["choices"][0]["logprobs"] = {"content": [{"token": token}]}
    reply, _ = await streamed(chunks)
    assert reply.logprobs == {"content": [{"token": "Red"}, {"token": "."}]}


@pytest.mark.parametrize(
    ("chunks", "kind"),
    [
        ([delta("Red")], "connection"),
        ([delta("Red"), {"error": {"message": "out of memory", "code": 500}}], "server"),
        ([delta("Red"), delta(finish="error")], "server"),
        ([["not", "a", "chunk"]], "malformed"),
    ],
)
async def test_a_stream_that_fails_is_no_reply(chunks: list[Any], kind: str) -> None:
    with pytest.raises(BackendError) as failed:
        await streamed(chunks, done=False)
    assert failed.value.kind == kind
    assert isinstance(failed.value, Transient)


def test_a_stop_string_is_never_passed_on() -> None:
    heard: list[str] = []
    pieces = ReplyPieces(lambda _channel, piece: heard.append(piece), stops=("###",))
    for text in ("a #", "a ##", "a ##b", "a ##b\ufffd"):
        pieces.grow(text)
    assert heard == ["a", " ##b"]


async def test_a_server_that_does_not_stream_is_read_as_always() -> None:
    async with opened() as (backend, _):
        stream: Any = backend
        reply = await stream.stream(
            asked("Hi."), Sampling(), affinity="a", listen=lambda *_piece: None
        )
    assert reply.text == "Red."
