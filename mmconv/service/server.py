"""uvicorn around the application: bounded connections, and a shutdown that drains.

A client that is slow, sends something other than HTTP, or does not read its responses takes up a
connection for some seconds, and memory that all connections share. uvicorn has no settings for
these bounds. `Connection` overrides callbacks of `asyncio.Protocol` and of httptools' parser, and
`send_400_response`: public names only.
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
from typing import Any, ClassVar, TypeVarTuple, Unpack

import orjson
import uvicorn
from fastapi import FastAPI
from uvicorn.loops.auto import auto_loop_factory
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mmconv.core.errors import ConfigError
from mmconv.engine.garbage import collect_rarely
from mmconv.service.app import open_app
from mmconv.service.errors import Problem
from mmconv.service.settings import Settings
from mmconv.service.state import Serving
from mmconv.service.tracing import HEADER, RefusalLog, Trace

HEAD_BYTES = 65_536
"""Bytes of a request's line and headers, and of trailers. The parser itself has no limit."""

HEAD_SECONDS = 20.0
"""The time in which a request's line and headers must arrive."""

LINGER_SECONDS = 5.0
"""How long the rest of a refused request is read and dropped. Closing at once would reset the
connection, and the client might never see the refusal."""

STALLED_SECONDS = 30.0
"""How long a client may read nothing of a response that is ready."""

UNSENT_BYTES = 500_000_000
"""Bytes of all responses that wait for clients. Beyond that the longest waiting are dropped."""

CONNECTIONS = 4096
"""More are refused with 503."""

IDLE_SECONDS = 75
"""How long a connection is kept for the next request. Clients close theirs sooner."""

Args = TypeVarTuple("Args")


class _Timer:
    """Calls a function after some time, unless it is stopped before."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None

    @property
    def runs(self) -> bool:
        return self._handle is not None

    def start(self, seconds: float, call: Callable[[Unpack[Args]], object], *args: *Args) -> None:
        self.stop()
        self._handle = self._loop.call_later(seconds, call, *args)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class Connection(HttpToolsProtocol):
    """A connection that bounds heads, trailers and everything that a client makes it wait for."""

    _refusals: ClassVar = RefusalLog()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head = _Timer(self.loop)
        self._rest = _Timer(self.loop)
        self._reader = _Timer(self.loop)
        self._read = 0
        self._complete = True
        self._refused = False
        self._waiting_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Wait for the first request, unless there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            self._refuse(503, "too many connections", code="busy")
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        for timer in (self._head, self._rest, self._reader):
            timer.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data, and refuse a head, or trailers after a body, that are too long."""
        if self._refused:
            return
        self._read += len(data)
        super().data_received(data)
        if self._refused:  # by a callback of the parser
            return  # type: ignore[unreachable]
        if self._head.runs and self._read > HEAD_BYTES:
            self._refuse_head()
        elif not self._complete and self._read > HEAD_BYTES:
            self.transport.abort()
        elif self._complete and (self.cycle is None or self.cycle.response_complete):
            # Line ends between requests stop uvicorn's own timeout and begin no request.
            self._expect_head()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        """The end of a head, which may be too long although it came in one packet."""
        # Four bytes of each header are its ": " and line end.
        headers = sum(len(name) + len(value) + 4 for name, value in self.headers)
        if len(self.url) + headers > HEAD_BYTES:
            # The parser stops, and uvicorn calls `send_400_response`.
            raise ValueError("the request's headers are too long")
        self._head.stop()
        self._read = 0
        self._complete = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body, so what was read before it does not count as trailers."""
        self._read = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The end of a request."""
        self._rest.stop()
        self._complete = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The end of a response. If the body is not complete yet, do not wait long for the rest."""
        super().on_response_complete()
        if not self._complete and not self._rest.runs:
            self._rest.start(LINGER_SECONDS, self.transport.close)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, or a head at which the parser was stopped."""
        if self._head.runs and self._read > HEAD_BYTES:
            self._refuse_head()
        else:
            self._refuse(400, msg)

    def pause_writing(self) -> None:
        """A response waits for its client. Drop the oldest if all of them hold too much memory."""
        super().pause_writing()
        self._waiting_since = self.loop.time()
        self._watch_reader()
        waiting = [
            other
            for other in self.connections
            if isinstance(other, Connection) and other._reader.runs
        ]
        unsent = sum(other._unsent for other in waiting)
        for other in sorted(waiting, key=lambda other: other._waiting_since):
            if unsent <= UNSENT_BYTES:
                break
            unsent -= other._unsent
            other.transport.abort()

    def resume_writing(self) -> None:
        """The client has read most of it."""
        self._reader.stop()
        super().resume_writing()

    @property
    def _unsent(self) -> int:
        return self.transport.get_write_buffer_size()

    def _watch_reader(self) -> None:
        self._reader.start(STALLED_SECONDS, self._end_stalled, self._unsent)

    def _end_stalled(self, unsent_before: int) -> None:
        if self._unsent < unsent_before:
            self._watch_reader()
        else:
            self.transport.abort()

    def _expect_head(self) -> None:
        if not self._head.runs:
            self._read = 0
            self._head.start(HEAD_SECONDS, self.transport.close)

    def _refuse_head(self) -> None:
        self._refuse(431, f"the request's headers are longer than {HEAD_BYTES:,} bytes")

    def _refuse(self, status: int, message: str, code: str | None = None) -> None:
        """Respond without a request, then read and drop for a while what still arrives."""
        self._refused = True
        self._head.stop()
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
        self.transport.write_eof()
        self._rest.start(LINGER_SECONDS, self.transport.close)


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
