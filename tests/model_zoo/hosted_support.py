"""A loopback server for tests of providers that use a host's own SDK."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from mmconv.core.config import ModelSpec
from mmconv.core.protocols import Backend
from model_zoo.providers import find_provider
from tests.model_zoo.openai_support import Pictures


class Host:
    """Answers each request with the next of `answers`, the last again and again.

    An answer is a document, or a document with status and headers.
    """

    def __init__(self, *answers: Any) -> None:
        self.answers = [
            answer if isinstance(answer, tuple) else (answer, 200, {}) for answer in answers
        ]
        self.paths: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []

    async def receive(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        self.headers.append({name.lower(): text for name, text in request.headers.items()})
        data = await request.read()
        self.bodies.append(orjson.loads(data) if data else {})
        document, status, headers = self.answers[0]
        if len(self.answers) > 1:
            del self.answers[0]
        body = document if isinstance(document, bytes) else orjson.dumps(document)
        return web.Response(
            body=body, status=status, headers=headers, content_type="application/json"
        )


@asynccontextmanager
async def hosted(
    host: Host, provider: str, pictures: Pictures | None = None, **fields: Any
) -> AsyncIterator[Backend]:
    """The provider's backend, whose server is `host`."""
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", host.receive)
    async with TestServer(app, host="127.0.0.1") as running:
        spec = host_spec(provider, str(running.make_url("/")), **fields)
        backend = await find_provider(provider).open_backend(spec, pictures or Pictures())
        try:
            yield backend
        finally:
            await backend.aclose()


def host_spec(provider: str, url: str | None = None, **fields: Any) -> ModelSpec:
    given = {"provider": provider, "model": "some-model", "base_url": url, "timeout": 5.0}
    return ModelSpec(**{**given, **fields})
