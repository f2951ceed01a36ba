"""The chat-completions provider over loopback connections: what comes back, what goes wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from mmconv.core.errors import Refused, Transient
from model_zoo import openai_api
from tests.model_zoo.openai_support import (
    ONCE,
    Answer,
    Pictures,
    ask,
    asked,
    opened,
    say_red,
    spec,
    unused_url,
)


async def test_a_rate_limit_comes_with_its_wait() -> None:
    async def busy(_request: web.Request) -> web.Response:
        return web.Response(status=429, text="busy", headers={"Retry-After": "3"})

    async with opened(busy) as (backend, server):
        with pytest.raises(Transient, match="busy") as raised:
            await ask(backend, asked("Hm?"))
    assert (raised.value.kind, raised.value.retry_after) == ("rate_limit", 3.0)
    assert len(server.bodies) == 1


async def test_redirects_are_not_followed() -> None:
    async def moved(_request: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect("/v1/elsewhere")

    async with opened(moved) as (backend, _):
        with pytest.raises(Refused, match="HTTP 307"):
            await ask(backend, asked("Hm?"))


async def test_a_silent_server_is_a_timeout() -> None:
    released = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return await say_red(request)

    async with opened(hang, timeout=0.1) as (backend, _):
        with pytest.raises(Transient, match=r"no reply in 0\.1 s") as raised:
            await ask(backend, asked("Hm?"))
        released.set()
    assert raised.value.kind == "timeout"


def speaking(*replies: dict[str, Any], status: int = 200) -> Answer:
    """Answers with one reply after the other, each a message and how it ended."""
    left = iter(replies)

    async def speak(_request: web.Request) -> web.Response:
        message = {"content": "", **next(left)}
        usage = {"prompt_tokens": 10, "completion_tokens": len(message["content"] or "")}
        choice = {"message": message, "finish_reason": message.pop("ends", "stop")}
        return web.json_response({"choices": [choice], "usage": usage}, status=status)

    return speak


TWICE: dict[str, tuple[list[dict[str, Any]], str]] = {
    "then it speaks": ([{}, {"content": "Red."}], "Red."),
    "that is all": ([{}, {}], ""),
    "blanks": ([{"content": " "}, {"content": None, "refusal": "No."}], "No."),
    "no reason": ([{"ends": None}, {"content": "Red."}], "Red."),
}


@pytest.mark.parametrize(("replies", "text"), TWICE.values(), ids=TWICE)
async def test_what_says_nothing_is_asked_once_more(
    replies: list[dict[str, Any]], text: str
) -> None:
    async with opened(speaking(*replies)) as (backend, server):
        reply = await backend.generate(asked("Hm?"), ONCE, affinity="a")
    assert reply.text == text
    assert server.bodies == server.bodies[:1] * 2
    assert reply.input_tokens == 20


@pytest.mark.parametrize("only", [{"ends": "length"}, {"reasoning": "Hm."}])
async def test_what_ended_in_thoughts_is_asked_once(only: dict[str, Any]) -> None:
    async with opened(speaking(only)) as (backend, server):
        assert await ask(backend, asked("Hm?")) == ""
    assert len(server.bodies) == 1


async def test_no_content_at_all_is_a_failure_to_be_retried() -> None:
    async with opened(speaking({"content": None})) as (backend, server):
        with pytest.raises(Transient, match="not a chat completion") as raised:
            await ask(backend, asked("Hm?"))
    assert raised.value.kind == "malformed"
    assert raised.value.input_tokens == 10  # they are paid
    assert len(server.bodies) == 1


async def test_a_reply_may_have_another_status_of_success() -> None:
    async with opened(speaking({"content": "Red."}, status=201)) as (backend, _):
        assert await ask(backend, asked("Hm?")) == "Red."


async def test_an_answer_without_end_is_not_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("model_zoo.openai_api.client._LARGEST_ANSWER", 2**20)

    async def talk(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b" " * 2**16)

    async with opened(talk) as (backend, _):
        with pytest.raises(Transient, match="over 1 MiB") as raised:
            await ask(backend, asked("Hm?"))
    assert raised.value.kind == "malformed"


async def drop(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def drop_midway(request: web.Request) -> web.Response:
    answer = web.StreamResponse(headers={"Content-Length": "100"})
    await answer.prepare(request)
    await answer.write(b'{"choices"')
    return await drop(request)


@pytest.mark.parametrize("dropping", [drop, drop_midway])
async def test_a_dropped_connection_is_told(dropping: Answer) -> None:
    async with opened(dropping) as (backend, _):
        with pytest.raises(Transient) as raised:
            await ask(backend, asked("Hm?"))
    assert raised.value.kind == "connection"


async def test_a_server_that_is_not_there_is_told() -> None:
    url = unused_url()
    backend = await openai_api.open_backend(spec(base_url=url), Pictures())
    with pytest.raises(Refused, match=rf"^no connection to {url} in 0\.3 s: ") as raised:
        await ask(backend, asked("Hm?"))
    assert raised.value.kind == "connection"
    assert "--wait-for-servers" in str(raised.value)
    await backend.aclose()
    await backend.aclose()
