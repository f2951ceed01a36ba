"""JSON bodies, read fast, and bounded in what they become in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from mmconv.service.errors.problems import Problem
from mmconv.service.state import Service

DEEPEST = 64
"""Levels of nesting in a JSON body; a chat request has five, a JSON schema perhaps twenty."""

_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
"""A text of JSON, with its quotes, or what begins as one and does not end."""

_SIGN = re.compile(rb"[\[{,]|" + _TEXT, re.DOTALL)

QUOTE = ord('"')


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
