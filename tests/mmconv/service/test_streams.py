"""Streams of a real server whose model streams too: pieces as they come, and clients that go."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.mmconv.service.conftest import Servers

BODY = {"model": "far", "messages": [{"role": "user", "content": "Count."}], "stream": True}


class Upstream:
    """A model's server that says "one ", and goes on when `may_go_on` is set."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()
        self.is_left = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await self._send(response, "one ", "and")
            await self.may_go_on.wait()
            await self._send(response, " two", finish="stop")
        except asyncio.CancelledError:
            self.is_left.set()
            raise
        return response

    async def _send(
        self, response: web.StreamResponse, *texts: str, finish: str | None = None
    ) -> None:
        for text in texts:
            choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
            await response.write(b"data: " + orjson.dumps({"choices": [choice]}) + b"\n\n")


@asynccontextmanager
async def served(upstream: Upstream, start: Servers) -> AsyncIterator[httpx2.AsyncClient]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", upstream.answer)
    async with TestServer(app) as running:
        url = str(running.make_url("/v1"))
        far = {"provider": "openai", "model": "far", "base_url": url}
        server = await asyncio.to_thread(start, models={"far": far})
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            yield client


async def read_until(lines: AsyncIterator[str], text: str) -> None:
    async for line in lines:
        if text in line:
            return
    pytest.fail(f"the stream ended without {text!r}")


async def test_a_piece_comes_before_the_next_is_made(start: Servers) -> None:
    upstream = Upstream()
    async with (
        served(upstream, start) as client,
        client.stream("POST", "/v1/chat/completions", json=BODY) as answer,
    ):
        lines = answer.aiter_lines()
        await read_until(lines, '"one')
        upstream.may_go_on.set()
        await read_until(lines, "two")
        await read_until(lines, "[DONE]")


async def test_a_client_that_goes_ends_the_request_to_the_models_server(start: Servers) -> None:
    upstream = Upstream()
    async with served(upstream, start) as client:
        async with client.stream("POST", "/v1/chat/completions", json=BODY) as answer:
            await read_until(answer.aiter_lines(), '"one')
        await asyncio.wait_for(upstream.is_left.wait(), 60)
