"""The gate before every route: who asks is checked, and how much he sends, before it is read.

It is the application's only middleware; it also measures. What a body means is the routes' matter.
"""

from __future__ import annotations

import asyncio
import logging
import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mmconv.service.access import identify
from mmconv.service.errors.problems import Problem, ending, too_large
from mmconv.service.http.disconnect import GONE
from mmconv.service.http.refusal_log import REFUSED, RefusalLog
from mmconv.service.http.request_tracing import begin_trace
from mmconv.service.http.responses import Answer
from mmconv.service.settings import Settings, Sizes
from mmconv.service.state import Service

log = logging.getLogger(__name__)

SMALL_BYTES = 65_536
"""A body of this size is let in however much others send: most requests are smaller."""

OPEN_PATHS = ("/v1/", "/metrics")
"""What a token is needed for, where there are tokens; the rest tells nothing about anybody."""


class Gate:
    """ASGI middleware: refuses strangers and large bodies, cuts slow ones off, counts all."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._refusals = RefusalLog()
        self.buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        shared: Service = scope["app"].state.service
        method = scope["method"]
        trace = begin_trace(method, scope["path"])
        answer = Answer(scope, send, trace.id)
        if method == "HEAD":
            scope = {**scope, "method": "GET"}
        body = _Body(self, scope, receive, shared.settings.sizes)
        started = time.monotonic()
        shared.metrics.open.inc()
        try:
            if _is_private(scope, shared.settings):
                trace.caller = identify(shared.settings, Headers(scope=scope)).name
            _check_head(scope, shared.settings.sizes)
            await self._app(scope, body.receive, answer.send)
        except Problem as problem:
            await problem.response()(scope, receive, answer.send)
        except asyncio.CancelledError:
            if not shared.draining.is_set() or (answer.begun and not answer.streams):
                raise
            if answer.begun:
                await answer.end_stream(ending())
            else:
                await ending().response()(scope, receive, answer.send)
        except Exception:
            # Starlette answers it, beyond this gate.
            answer.status = 500
            log.error("%s: the server failed", trace)
            raise
        finally:
            self.buffered -= body.received
            shared.metrics.open.dec()
            shared.metrics.count_request(
                getattr(scope.get("route"), "path", "none"),
                method,
                answer.status,
                time.monotonic() - started,
            )
            if answer.status in REFUSED:
                self._refusals.tell(scope, trace, answer.status)


class _Body:
    """Receives a request's body, within its size and time."""

    def __init__(self, gate: Gate, scope: Scope, receive: Receive, sizes: Sizes) -> None:
        self._gate = gate
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        self._announced = length != "0" or "transfer-encoding" in headers
        self._receive = receive
        self._sizes = sizes
        self._deadline = asyncio.get_running_loop().time() + sizes.body_seconds
        self._whole = False
        self.received = 0

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise Problem(408, "the body did not come in time", code="timeout") from None
        if message["type"] != "http.request":
            if self._announced:
                # Readers of a body would fail with a traceback, or call the body unreadable.
                raise Problem(GONE, "the client disconnected before its body was complete")
            return message
        self._whole = not message.get("more_body", False)
        size = len(message.get("body", b""))
        self.received += size
        self._gate.buffered += size
        if self.received > self._sizes.body_bytes:
            raise too_large("the body", self._sizes.body_bytes)
        if self.received > SMALL_BYTES and self._gate.buffered > self._sizes.buffered_bytes:
            raise Problem(503, "too much is being sent at once", code="busy", retry_after=2)
        return message


def _is_private(scope: Scope, settings: Settings) -> bool:
    """Whether it matters who asks; without tokens, everything is for this machine."""
    return not settings.tokens or scope["path"].startswith(OPEN_PATHS)


def _check_head(scope: Scope, sizes: Sizes) -> None:
    """Refuse what the head alone shows to be wrong; raises `Problem`."""
    headers = Headers(scope=scope)
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > sizes.body_bytes:
        raise too_large("the body", sizes.body_bytes)
    if (encoding := headers.get("content-encoding", "identity")) != "identity":
        raise Problem(400, f"the body is encoded (Content-Encoding: {encoding}): send it plain")
