"""uvicorn around the application: bounded connections, and a shutdown that drains.

A client that is slow, sends something other than HTTP, or does not read its responses takes up a
connection for some seconds, and memory that all connections share. uvicorn has no settings for
these bounds. `Connection` overrides public names only. Its parser is h11, which bounds heads.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from http import HTTPStatus
from socket import socket
from types import FrameType
from typing import Any, ClassVar

import h11
import orjson
import uvicorn
from fastapi import FastAPI
from uvicorn.loops.auto import auto_loop_factory
from uvicorn.protocols.http.h11_impl import H11Protocol

from mmconv.core.errors import ConfigError
from mmconv.engine.garbage import collect_rarely
from mmconv.service.app import open_app
from mmconv.service.errors import Problem
from mmconv.service.settings import Settings
from mmconv.service.state import Serving
from mmconv.service.tracing import HEADER, RefusalLog, Trace

HEAD_BYTES = 65_536
"""Bytes of a request's line and headers, and of trailers, that have not ended yet."""

HEAD_SECONDS = 20.0
"""The time in which a request's line and headers must arrive."""

LINGER_SECONDS = 5.0
"""How long the rest of a refused request is read and dropped. Closing at once would reset the
connection, and the client might never see the refusal."""

STALLED_SECONDS = 30.0
"""How long a client may read nothing of a response that is ready."""

UNSENT_BYTES = 250_000_000
"""Bytes of all responses that wait for clients, which are in memory twice. Others are dropped."""

CONNECTIONS = 4096
"""More are refused with 503."""

IDLE_SECONDS = 75
"""How long a connection is kept for the next request. Clients close theirs sooner."""


class Connection(H11Protocol):
    """A connection that bounds what a client makes it wait for, and refuses in our shape."""

    _refusals: ClassVar = RefusalLog()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._reader: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Wait for the first request, unless there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            self._refuse(503, "too many connections", code="busy")
        else:
            self._close_after(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        super().connection_lost(exc)
        for timer in filter(None, (self._deadline, self._reader)):
            timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse data. A head that has begun, or line ends between requests, may not take long."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            if self._deadline is None:
                self._close_after(HEAD_SECONDS)
        elif self.cycle is not None and not self.cycle.response_complete:
            self._close_after(None)

    def on_response_complete(self) -> None:
        """The end of a response. If the body is not complete yet, do not wait long for the rest."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._close_after(LINGER_SECONDS)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, or a head or trailers that are too long."""
        if self.cycle is not None and self.cycle.response_started:
            self.transport.abort()
        else:
            self._refuse(400, f"this is not HTTP, or has more than {HEAD_BYTES:,} bytes of headers")

    def pause_writing(self) -> None:
        """A response waits for its client. Drop it if all that wait hold too much memory."""
        super().pause_writing()
        waiting = (other for other in self.connections if isinstance(other, Connection))
        if sum(other.transport.get_write_buffer_size() for other in waiting) > UNSENT_BYTES:
            self.transport.abort()
        else:
            self._watch_reader()

    def resume_writing(self) -> None:
        """The client has read most of it."""
        super().resume_writing()
        if self._reader is not None:
            self._reader.cancel()

    def _close_after(self, seconds: float | None) -> None:
        """Close the connection then, None for never; this replaces what was said before."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if seconds is not None:
            self._deadline = self.loop.call_later(seconds, self.transport.close)

    def _watch_reader(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._reader = self.loop.call_later(STALLED_SECONDS, self._end_stalled, unsent)

    def _end_stalled(self, unsent_before: int) -> None:
        if self.transport.get_write_buffer_size() < unsent_before:
            self._watch_reader()
        else:
            self.transport.abort()

    def _refuse(self, status: int, message: str, code: str | None = None) -> None:
        """Respond without a request."""
        trace = Trace(method="connection", path=message)
        shared: Serving = self.config.app.state.service  # type: ignore[union-attr]  # never a name here
        shared.metrics.count_request("none", trace.method, status, 0.0)
        self._refusals.record({"client": self.client}, trace, status)
        body = orjson.dumps(Problem(status, message, code=code).body)
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n{HEADER}: {trace.id}\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


class Server(uvicorn.Server):
    """Announces its address, and starts draining as soon as the process is signalled."""

    def __init__(
        self, config: uvicorn.Config, shared: Serving, on_start: Callable[[str, int], None]
    ) -> None:
        super().__init__(config)
        self._shared = shared
        self._on_start = on_start
        self._loop = asyncio.get_running_loop()

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen, and announce the address. Raises `ConfigError` if it cannot be bound."""
        try:
            await super().startup(sockets=sockets)
        except SystemExit as error:
            raise ConfigError(
                f"cannot listen at {self.config.host}:{self.config.port}, as logged above: set "
                "another host or port (port 0 picks a free one)"
            ) from error
        collect_rarely()
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        self._on_start(host, port)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down; at once on the second signal."""
        self._loop.call_soon_threadsafe(self._shared.drain)
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM until the server has ended.

        uvicorn's own method raises them again at its end, before the worker has drained.
        """
        previous = {
            number: signal.signal(number, self.handle_exit)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


Opener = Callable[[Settings], AbstractAsyncContextManager[FastAPI]]
"""Opens the application."""


def run(
    settings: Settings, on_start: Callable[[str, int], None], opener: Opener = open_app
) -> None:
    """`serve` in an event loop of its own: uvloop's if it is installed."""
    _raise_file_limit()
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(serve(settings, on_start, opener))


async def serve(
    settings: Settings, on_start: Callable[[str, int], None], opener: Opener = open_app
) -> None:
    """Serve until the process is signalled; `on_start` gets the bound host and port.

    Raises `MmconvError` if something that the settings name cannot be opened.
    """
    # Its warnings are about the content of single requests. Refusals are logged by us.
    logging.getLogger("uvicorn.error").addFilter(lambda record: record.levelno != logging.WARNING)
    async with opener(settings) as app:
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            http=Connection,
            h11_max_incomplete_event_size=HEAD_BYTES,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=[str(network) for network in settings.trusted_proxies],
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=round(settings.drain_seconds),
        )
        await Server(config, app.state.service, on_start).serve()


def _raise_file_limit() -> None:
    """Allow enough open files for all connections, as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < needed:
        limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
