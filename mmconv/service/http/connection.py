"""One connection: uvicorn's, within bounds of time and memory, its own refusals in our shape.

What a request means is not looked at here; what is refused is counted and logged as behind the
gate. A client that is slow, sends what is not HTTP, or leaves its answers unread takes up a
connection for some seconds, and memory that all of them share.

uvicorn has no settings for these bounds. What is overridden here are the callbacks of
`asyncio.Protocol` and of httptools' parser, and `send_400_response`; no name with an underscore.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, ClassVar, TypeVarTuple, Unpack

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mmconv.service.errors.problems import Problem
from mmconv.service.http.refusal_log import RefusalLog
from mmconv.service.http.request_tracing import HEADER, Trace
from mmconv.service.state import Service

HEAD_BYTES = 65_536
"""A request's line and headers, and as much of trailers; the parser itself has no bound."""

HEAD_SECONDS = 20.0
"""The time in which a request's line and headers must be there."""

LINGER_SECONDS = 5.0
"""How long the rest of a refused request is read and dropped. To close at once would reset the
connection, and the client might never see the refusal."""

STALLED_SECONDS = 30.0
"""How long a client may take nothing of an answer that waits for it."""

UNSENT_BYTES = 500_000_000
"""What all answers that wait for their clients may hold; then those go that have waited longest."""

CONNECTIONS = 4096
"""More are refused with 503."""

Given = TypeVarTuple("Given")


class _Timer:
    """Does one thing after some time, unless it is stopped before."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None

    @property
    def runs(self) -> bool:
        return self._handle is not None

    def start(self, seconds: float, act: Callable[[Unpack[Given]], object], *given: *Given) -> None:
        self.stop()
        self._handle = self._loop.call_later(seconds, act, *given)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class Connection(HttpToolsProtocol):
    """Reads heads within their bounds, and does not wait for ever for anything a client does."""

    _refusals: ClassVar = RefusalLog()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head = _Timer(self.loop)
        self._rest = _Timer(self.loop)
        self._reader = _Timer(self.loop)
        self._read = 0
        self._whole = True
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
        """Wait for nothing more."""
        for timer in (self._head, self._rest, self._reader):
            timer.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, while a head, or the trailers behind a body, are not too long."""
        if self._refused:
            return
        self._read += len(data)
        super().data_received(data)
        if self._refused:  # by what was just read
            return  # type: ignore[unreachable]
        if self._head.runs and self._read > HEAD_BYTES:
            self._refuse_head()
        elif not self._whole and self._read > HEAD_BYTES:
            self.transport.abort()
        elif self._whole and (self.cycle is None or self.cycle.response_complete):
            # Line ends between requests: uvicorn waits no longer, and they begin none.
            self._expect_head()

    def on_message_begin(self) -> None:
        """A request's first byte has come."""
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        """Its head is there, maybe too long and in one packet."""
        # Four bytes of each header are its ": " and line end.
        headers = sum(len(name) + len(value) + 4 for name, value in self.headers)
        if len(self.url) + headers > HEAD_BYTES:
            # The parser stops, and uvicorn calls `send_400_response`.
            raise ValueError("the request's headers are too long")
        self._head.stop()
        self._read = 0
        self._whole = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of its body, so that what came until here is none of its trailers."""
        self._read = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Its body too."""
        self._rest.stop()
        self._whole = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """It is answered; if that was before its body came, do not wait long for the rest."""
        super().on_response_complete()
        if not self._whole and not self._rest.runs:
            self._rest.start(LINGER_SECONDS, self.transport.close)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, or what the parser was stopped at."""
        if self._head.runs and self._read > HEAD_BYTES:
            self._refuse_head()
        else:
            self._refuse(400, msg)

    def pause_writing(self) -> None:
        """An answer waits for its client to read."""
        super().pause_writing()
        self._waiting_since = self.loop.time()
        self._watch(self._unsent)
        waiting = [
            each for each in self.connections if isinstance(each, Connection) and each._reader.runs
        ]
        unsent = sum(each._unsent for each in waiting)
        for each in sorted(waiting, key=lambda each: each._waiting_since):
            if unsent <= UNSENT_BYTES:
                break
            unsent -= each._unsent
            each.transport.abort()

    def resume_writing(self) -> None:
        """The client has read most of it."""
        self._reader.stop()
        super().resume_writing()

    @property
    def _unsent(self) -> int:
        return self.transport.get_write_buffer_size()

    def _watch(self, unsent: int) -> None:
        """Look again whether less is unsent by then."""
        self._reader.start(STALLED_SECONDS, self._end_stalled, unsent)

    def _end_stalled(self, unsent: int) -> None:
        if self._unsent < unsent:
            self._watch(self._unsent)
        else:
            self.transport.abort()

    def _expect_head(self) -> None:
        if not self._head.runs:
            self._read = 0
            self._head.start(HEAD_SECONDS, self.transport.close)

    def _refuse_head(self) -> None:
        self._refuse(431, f"the request's headers are longer than {HEAD_BYTES:,} bytes")

    def _refuse(self, status: int, message: str, code: str | None = None) -> None:
        """Answer without a request, then read and drop for a while what still comes."""
        self._refused = True
        self._head.stop()
        trace = Trace(method="connection", path=message)
        shared: Service = self.config.app.state.service  # type: ignore[union-attr]  # not a name here
        shared.metrics.count_request("none", trace.method, status, 0.0)
        self._refusals.tell({"client": self.client}, trace, status)
        body = orjson.dumps(Problem(status, message, code=code).body)
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n{HEADER}: {trace.id}\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.write_eof()
        self._rest.start(LINGER_SECONDS, self.transport.close)
