"""Middleware before every route: checks the caller and the body's size, and sends the response.

It is the application's only middleware, so it also measures. Routes validate what a body means.
"""

from __future__ import annotations

import asyncio
import logging
import time

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mmconv.service.access import identify
from mmconv.service.errors import Problem, ending, too_large
from mmconv.service.requests import GONE
from mmconv.service.settings import Sizes
from mmconv.service.state import Serving
from mmconv.service.tracing import HEADER, REFUSED, RefusalLog, begin_trace

log = logging.getLogger(__name__)

SMALL_BYTES = 65_536
"""A body of this size is accepted even if others fill the buffer: most requests are smaller."""

STREAMED = ("POST", "/v1/data")
"""The request whose body may be larger, since its route writes it to disk."""

PRIVATE_PATHS = ("/v1/", "/web/", "/metrics")
"""Paths that need a token if tokens are configured. The others expose no data."""


class Gate:
    """ASGI middleware: refuses unknown callers and large bodies, cuts off slow ones, counts all."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._refusals = RefusalLog()
        self.buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        shared: Serving = scope["app"].state.service
        sizes, method = shared.settings.sizes, scope["method"]
        trace = begin_trace(method, scope["path"])
        answer = Answer(scope, send, trace.id)
        if method == "HEAD":
            scope = {**scope, "method": "GET"}
        headers = Headers(scope=scope)
        is_streamed = (method, scope["path"]) == STREAMED
        most = sizes.dataset_bytes if is_streamed else sizes.body_bytes
        body = _Body(self, headers, receive, sizes, most)
        started = time.monotonic()
        shared.metrics.open.inc()
        try:
            # Without tokens everything is for this machine only, so the caller always matters.
            if not shared.settings.tokens or scope["path"].startswith(PRIVATE_PATHS):
                scope["caller"] = identify(shared.settings, headers)
                trace.caller = scope["caller"].name
            _check_headers(headers, most)
            await self._app(scope, body.receive, answer.send)
        except Problem as problem:
            await problem.response()(scope, receive, answer.send)
        except asyncio.CancelledError:
            if not shared.draining.is_set() or (answer.begun and not answer.streams):
                raise
            if answer.begun:
                # as OpenAI's protocol does
                last = b"data: " + orjson.dumps(ending().body) + b"\n\ndata: [DONE]\n\n"
                await answer.send({"type": "http.response.body", "body": last})
            else:
                await ending().response()(scope, receive, answer.send)
        except Exception:
            # Starlette answers it, outside this gate.
            answer.status = 500
            log.error("%s: the server failed", trace)
            raise
        finally:
            self.buffered -= body.buffered
            shared.metrics.open.dec()
            route = getattr(scope.get("route"), "path", "none")
            seconds = time.monotonic() - started
            shared.metrics.count_request(route, method, answer.status, seconds)
            if answer.status in REFUSED:
                self._refusals.record(scope, trace, answer.status)


class _Body:
    """Receives a request's body within its limits of size and time."""

    def __init__(
        self, gate: Gate, headers: Headers, receive: Receive, sizes: Sizes, most: int
    ) -> None:
        self._gate = gate
        length = headers.get("content-length", "0")
        self._announced = length != "0" or "transfer-encoding" in headers
        self._receive = receive
        self._sizes = sizes
        self._most = most
        self._begun = asyncio.get_running_loop().time()
        self._complete = False
        self.received = 0
        self.buffered = 0

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        try:
            portions = 1 + self.received // self._sizes.body_bytes
            async with asyncio.timeout_at(self._begun + portions * self._sizes.body_seconds):
                message = await self._receive()
        except TimeoutError:
            raise Problem(408, "request body timed out", code="timeout") from None
        if message["type"] != "http.request":
            if self._announced:
                # Without this, readers of the body fail with a traceback or call it unreadable.
                raise Problem(GONE, "the client disconnected before its body was complete")
            return message
        self._complete = not message.get("more_body", False)
        size = len(message.get("body", b""))
        self.received += size
        if self.received > self._most:
            raise too_large("the body", self._most)
        if self._most > self._sizes.body_bytes:
            return message  # its route writes it to disk
        self.buffered += size
        self._gate.buffered += size
        if self.received > SMALL_BYTES and self._gate.buffered > self._sizes.buffered_bytes:
            raise Problem(503, "too much is being sent at once", code="busy", retry_after=2)
        return message


def _check_headers(headers: Headers, most: int) -> None:
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > most:
        raise too_large("the body", most)
    if (encoding := headers.get("content-encoding", "identity")) != "identity":
        raise Problem(400, f"the body is encoded (Content-Encoding: {encoding}): send it plain")


_OF_BODY = ("content-encoding", "content-length", "content-range", "content-type")
"""Headers about a body, removed from a 304."""

_FILES = StaticFiles()
"""Knows what a client has, as it does for files."""


class Answer:
    """Sends a response with its request's id, and remembers the status.

    Routes answer GET only. HEAD gets no body, and a client that has the current version (by `ETag`
    or `Last-Modified`) gets 304. The status is 499 if the client left before the response.
    """

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self._send = send
        self._method: str = scope["method"]
        self._request_headers = Headers(scope=scope)
        self._id = (HEADER.lower().encode(), request_id.encode())
        self._ended = False
        self.status = GONE
        self.begun = False
        self.streams = False

    async def send(self, message: Message) -> None:
        """Send a part of it. Without a body to send, what follows the head is dropped."""
        if self._ended:
            return
        if message["type"] == "http.response.start":
            self.begun = True
            message = {**message, "headers": [*message["headers"], self._id]}
            headers = MutableHeaders(raw=message["headers"])
            self.streams = headers.get("content-type", "").startswith("text/event-stream")
            if self._is_current(message["status"], headers):
                message["status"] = 304
                for name in _OF_BODY:
                    del headers[name]
                message["headers"] = headers.raw
            self.status = message["status"]
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._ended = True
        elif self.begun and (self._method == "HEAD" or self.status == 304):
            self._ended = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def _is_current(self, status: int, headers: Headers) -> bool:
        """Whether the client already has what would be sent."""
        if self._method not in ("GET", "HEAD") or status not in (200, 206) or "etag" not in headers:
            return False
        return _FILES.is_not_modified(headers, self._request_headers)
