"""The HTTP server around the application: uvicorn, with heads bounded and an end that drains.

When the process is told to end, no more connections are taken, streams end, and requests under way
have some time to finish.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from socket import socket
from types import FrameType

import uvicorn
from uvicorn.loops.auto import auto_loop_factory
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mmconv.service.app import open_app
from mmconv.service.settings import Settings
from mmconv.service.state import Service

HEAD_BYTES = 65_536
"""A request's line and headers; the parser itself has no bound."""

HEAD_SECONDS = 20.0
"""The time in which they must be there."""

IDLE_SECONDS = 75
"""How long a connection is kept for the next request; clients drop theirs sooner."""

CONNECTIONS = 4096
"""More are answered with 503."""


class BoundedHead(HttpToolsProtocol):
    """Closes connections whose request's head is too long, or too long in coming."""

    _timer: asyncio.TimerHandle | None = None
    _read = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Wait for the first request."""
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, while there is not too much of a head."""
        self._read += len(data)
        super().data_received(data)
        if self._timer is not None and self._read > HEAD_BYTES:
            self._arrived()
            self.send_400_response("The request's headers are too long.")

    def on_message_begin(self) -> None:
        """A request's first byte has come."""
        super().on_message_begin()
        self._expect()

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._arrived()
        super().on_headers_complete()

    def _expect(self) -> None:
        if self._timer is None:
            self._read = 0
            self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _arrived(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Server(uvicorn.Server):
    """Tells what requests share that the process is ending, as soon as it is told."""

    def __init__(
        self, config: uvicorn.Config, shared: Service, on_start: Callable[[str, int], None]
    ) -> None:
        super().__init__(config)
        self._shared = shared
        self._on_start = on_start
        self._loop = asyncio.get_running_loop()

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen, and tell where."""
        await super().startup(sockets=sockets)
        # A full collection would go through all that is loaded, and hold up every request.
        gc.freeze()
        gc.set_threshold(100_000, 50, 50)
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        self._on_start(host, port)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End, or end at once where that was asked for before."""
        self._loop.call_soon_threadsafe(self._shared.draining.set)
        super().handle_exit(sig, frame)


def run(settings: Settings, on_start: Callable[[str, int], None]) -> None:
    """`serve` in an event loop of its own: uvloop's where it is installed."""
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(serve(settings, on_start))


async def serve(settings: Settings, on_start: Callable[[str, int], None]) -> None:
    """Serve until the process is told to end; `on_start` gets the host and port that are bound.

    Raises `mmconv.errors.MmconvError` where what the settings name cannot be opened.
    """
    async with open_app(settings) as app:
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            http=BoundedHead,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=round(settings.drain_seconds),
        )
        await Server(config, app.state.service, on_start).serve()
