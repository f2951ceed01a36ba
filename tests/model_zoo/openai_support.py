"""What tests of the chat-completions provider share: a scripted server, and asking it."""

import io
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import PIL.Image
from aiohttp import web
from aiohttp.test_utils import TestServer

from images import ImageStore
from mmconv.core.config import ModelSpec
from mmconv.core.protocols import Backend
from mmconv.core.types import Image, Message, Part, Sampling
from model_zoo import openai_api
from model_zoo.openai_api.endpoint import Endpoint
from tests.messages import message

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
ONCE = Sampling()


class Pictures(ImageStore):
    """An image store that counts what is read."""

    reads = 0

    def add(self, side: int, seed: int = 0) -> Image:
        pixels = np.random.default_rng(seed).integers(0, 255, (side, side, 3), dtype=np.uint8)
        file = io.BytesIO()
        PIL.Image.fromarray(pixels).save(file, "PNG")
        return self.add_bytes(file.getvalue())

    def read(self, sha256: str) -> bytes:
        self.reads += 1
        return super().read(sha256)


@dataclass
class Server:
    """A scripted server: keeps what it was sent, answers with `answer`."""

    answer: Answer
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def receive(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        self.bodies.append(await request.json())
        return await self.answer(request)


async def say_red(_request: web.Request) -> web.Response:
    message = {"role": "assistant", "content": "Red."}
    return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}]})


@asynccontextmanager
async def opened(
    answer: Answer = say_red,
    pictures: Pictures | None = None,
    *,
    host: str = "127.0.0.1",
    **fields: Any,
) -> AsyncIterator[tuple[Backend, Server]]:
    server = Server(answer)
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", server.receive)
    async with TestServer(app, host=host) as running:
        backend = await openai_api.open_backend(
            spec(base_url=str(running.make_url("/v1/")), **fields), pictures or Pictures()
        )
        try:
            yield backend, server
        finally:
            await backend.aclose()


def spec(**fields: Any) -> ModelSpec:
    given = {"provider": "openai", "model": "some/model", "timeout": 5.0, "wait_for_server": 0.3}
    return ModelSpec(**{**given, **fields})


def asked(*parts: str | Part) -> tuple[Message, ...]:
    return (message("user", *parts),)


def unused_url() -> str:
    """An address at which nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}/v1"


async def ask(backend: Backend, messages: Sequence[Message], sampling: Sampling = ONCE) -> str:
    return (await backend.generate(messages, sampling, affinity="a")).text


ENDPOINT = Endpoint(
    url="http://host/v1", model="some/model", key_env="SOME_KEY", key="sk-secret-123"
)
