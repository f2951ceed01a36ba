"""The gate before every route: who asks is checked, and how much he sends, before it is read.

`Gate` is the application's only middleware; it also measures. `JsonRoute` reads JSON bodies fast
and bounds what they become in memory. What a body means is the routes' matter.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mmconv.service.access import identify
from mmconv.service.answering import Answer
from mmconv.service.problems import Problem, ending
from mmconv.service.refusals import REFUSED, Refusals
from mmconv.service.settings import Settings, Sizes
from mmconv.service.state import Service
from mmconv.service.tracing import begin

log = logging.getLogger(__name__)

DEEPEST = 64
"""Levels of nesting in a JSON body; a chat request has five, a JSON schema perhaps twenty."""

_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
"""A text of JSON, with its quotes, or what begins as one and does not end."""

_SIGN = re.compile(rb"[\[{,]|" + _TEXT, re.DOTALL)

QUOTE = ord('"')

SMALL_BYTES = 65_536
"""A body of this size is let in however much others send: most requests are smaller."""

OPEN_PATHS = ("/v1/", "/metrics")
"""What a token is needed for, where there are tokens; the rest tells nothing about anybody."""


class Gate:
    """ASGI middleware: refuses strangers and large bodies, cuts slow ones off, counts all."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._refusals = Refusals()
        self.buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        shared: Service = scope["app"].state.service
        method = scope["method"]
        trace = begin(method, scope["path"])
        answer = Answer(scope, send, trace.id)
        if method == "HEAD":
            scope = {**scope, "method": "GET"}
        body = _Body(self, receive, shared.settings.sizes)
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

    def __init__(self, gate: Gate, receive: Receive, sizes: Sizes) -> None:
        self._gate = gate
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


def too_large(what: str, most: int, param: str | None = None) -> Problem:
    """The refusal of something of more than `most` bytes."""
    return Problem(
        413, f"{what} is larger than {most:,} bytes", param=param, code="request_too_large"
    )


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


class JsonRoute(APIRoute):
    """A route whose JSON body is read by orjson and bounded; give it to a router."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's own, with another way to read JSON."""
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            return await handle(_JsonRequest(request.scope, request.receive))

        return handle_json


class _JsonRequest(Request):
    async def json(self) -> Any:
        """The body's value; raises `Problem` 413, or `json.JSONDecodeError`."""
        shared: Service = self.app.state.service
        return read_json(await self.body(), shared.settings.sizes.json_values)


def read_json(data: bytes, most: int) -> Any:
    """JSON of at most `most` values and `DEEPEST` levels.

    A value takes ten times its bytes in memory and more, so values are counted by what separates
    them before any is made. Raises `Problem` 400 or 413, or `json.JSONDecodeError`; 400 also where
    an object has a field twice, of which orjson takes the last.
    """
    opened = data.count(b"[") + data.count(b"{")
    if opened + data.count(b",") > most and _holds_more(data, most):
        raise Problem(413, f"the body holds more than {most:,} values", code="request_too_large")
    value = orjson.loads(data)
    if opened > DEEPEST and _is_deep(value):
        raise _too_deep()
    # Every field has a colon, so more are sent than are left where a field stands twice; those that
    # texts have escaped are left too.
    sent = sum(map(data.count, (b":", b"\\u003a", b"\\u003A")))
    if sent > orjson.dumps(value).count(b":"):
        _name_twice(data)
    return value


def _name_twice(data: bytes) -> None:
    """Raise `Problem` 400 for the first field that an object has twice."""

    def once(fields: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for name, _ in fields:
            if name in seen:
                raise Problem(400, f"{name}: stands twice in one object", param=name)
            seen.add(name)

    try:
        json.loads(data, object_pairs_hook=once)
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> Problem:
    return Problem(400, f"the body is nested more than {DEEPEST} levels deep")


def _holds_more(data: bytes, most: int) -> bool:
    """Whether there are more values than `most`, by what opens and separates them outside texts."""
    signs = texts = 0
    for found in _SIGN.finditer(data):
        is_text = data[found.start()] == QUOTE
        texts += is_text
        signs += not is_text
        # A value has one name at most, so more texts than this are more values too.
        if signs > most or texts > 2 * most + 2:
            return True
    return False


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
    return bool(level)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
