"""How routes read requests: bounded JSON, known query parameters, limits, disconnects."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Annotated, Any, Generic, TypeVar, get_origin

import orjson
from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.responses import Response

from mmconv.core.types import Image
from mmconv.service.errors import Problem
from mmconv.service.settings import Sizes

DEEPEST = 64
"""Levels of nesting in a JSON body. A chat request has five, a JSON schema perhaps twenty."""

_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A JSON string with its quotes, or the beginning of one that does not end."""

_BRACKET = re.compile(rb"[\[\]{}]")


class JsonRoute(APIRoute):
    """A route whose JSON body is read by orjson and bounded. Pass it to a router."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's own handler, with another JSON parser."""
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            return await handle(_JsonRequest(request.scope, request.receive))

        return handle_json


class _JsonRequest(Request):
    async def json(self) -> Any:
        """The body's value. Raises `Problem` 413, or `json.JSONDecodeError`."""
        sizes: Sizes = self.app.state.service.settings.sizes
        return read_json(await self.body(), sizes.json_values)


def read_json(data: bytes, limit: int) -> Any:
    """JSON of at most `limit` values and `DEEPEST` levels.

    A value takes ten times its bytes in memory or more, so values are counted by what separates
    them before any is created. Raises `Problem` 400 or 413, or `json.JSONDecodeError`.
    """
    opened = data.count(b"[") + data.count(b"{")
    if opened > DEEPEST or opened + data.count(b",") > limit:
        signs = _TEXT.sub(b"", data)
        if sum(map(signs.count, (b"[", b"{", b","))) > limit:
            message = f"the body holds more than {limit:,} values"
            raise Problem(413, message, code="request_too_large")
        brackets = _BRACKET.findall(signs)
        depths = accumulate(1 if bracket in (b"[", b"{") else -1 for bracket in brackets)
        if max(depths, default=0) > DEEPEST:
            raise Problem(400, f"the body is nested more than {DEEPEST} levels deep")
    return orjson.loads(data)


Words = Annotated[str, Field(min_length=1)]
"""A text that may not be empty. Answers may: models return empty ones."""

Word = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f]*$")]
"""A name to filter by."""


Item = TypeVar("Item")
Cursor = TypeVar("Cursor", str, int)


class Page(BaseModel, Generic[Item, Cursor]):
    """A part of a list; `next` is the `after` of the following page, or null."""

    data: list[Item]
    next: Cursor | None


def unknown_page() -> Problem:
    """400 for an `after` that the list does not hold. It may have been removed since."""
    return Problem(400, "after: take it from the page before", param="after")


def part_of(names: Sequence[str], after: str | None, limit: int) -> tuple[slice, str | None]:
    """Where at most `limit` names after `after` are, and the last of them if more follow.

    Raises `Problem` 400 for an unknown `after`.
    """
    if after is not None and after not in names:
        raise unknown_page()
    begin = 0 if after is None else names.index(after) + 1
    end = begin + limit
    return slice(begin, end), names[end - 1] if end < len(names) else None


def check_query(request: Request) -> None:
    """Refuse unknown and repeated query parameters with 400.

    FastAPI ignores an unknown parameter, and takes the last of a repeated one.
    """
    query = request.query_params
    if not query:
        return
    known: dict[str, Any] = {}
    for parameter in request.scope["route"].dependant.query_params:
        kind: Any = parameter.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            known |= {name: field.annotation for name, field in kind.model_fields.items()}
        else:
            known[parameter.alias] = kind
    for name in query:
        if name not in known:
            message = f"{name}: no such field"
            raise Problem(400, message, param=name, code="unknown_parameter")
        if (times := len(query.getlist(name))) > 1 and get_origin(known[name]) is not list:
            raise Problem(400, f"{name}: given {times} times; give it once", param=name)


# The operator's limits, which types cannot express. Images are bounded where they are read.

HOTTEST = 2.0
"""The highest temperature that may be requested."""

LONG_TEXTS = 10
"""All texts of a request together may be this many times as long as one."""

MOST_PLANNED = 500_000_000
"""Characters of all prompts that a request may need."""

NOT_SENT = Image(sha256="0" * 64, media_type="", width=0, height=0)
"""Stands for an image that is not sent, or not read yet. No call that is made may show it."""

IMAGES = frozenset({"image", "images", "image_url"})
"""The fields that hold images, as `image:<id>`, data URIs or URLs."""


def check_bounds(request: BaseModel | Mapping[str, object], sizes: Sizes) -> int:
    """Raise `Problem` 413 for a long text or list, 400 for too many tokens or a high temperature.

    Only fields that the client set are checked. Returns the length of all texts.
    """
    total = 0
    fields = {"": request} if isinstance(request, BaseModel) else request
    for param, value in (pair for name, field in fields.items() for pair in _values(name, field)):
        if isinstance(value, str):
            total += len(value)
            if len(value) > sizes.text_length:
                message = f"{param}: at most {sizes.text_length:,} characters"
                raise Problem(413, message, param=param)
        elif isinstance(value, tuple | list):
            if len(value) > sizes.turns:
                raise Problem(413, f"{param}: at most {sizes.turns} are read", param=param)
        elif param.endswith("temperature") and value > HOTTEST:
            raise Problem(400, f"{param}: at most {HOTTEST:g} may be asked for", param=param)
        elif (
            param.endswith(("max_tokens", "completion_tokens", "output_tokens"))
            and value > sizes.max_tokens
        ):
            most = f"at most {sizes.max_tokens:,} may be asked for"
            raise Problem(400, f"{param}: {most}", param=param)
    if total > LONG_TEXTS * sizes.text_length:
        raise Problem(413, f"all texts together: at most {LONG_TEXTS * sizes.text_length:,}")
    return total


def check_volume(length: int, prompts: int, param: str) -> None:
    """Raise `Problem` 413 if so many prompts of up to `length` characters are too much."""
    if length * prompts > MOST_PLANNED:
        raise Problem(413, f"{param}: too much text for so many turns and calls", param=param)


def _values(
    param: str, value: object
) -> Iterator[tuple[str, str | float | tuple[object, ...] | list[object]]]:
    """Every text, list and number that a request sets, with its field."""
    if isinstance(value, str | int | float | tuple | list):
        yield param, value
    if isinstance(value, tuple | list):
        for place, item in enumerate(value):
            yield from _values(f"{param}[{place}]", item)
    elif isinstance(value, BaseModel):
        for name, item in value:
            if name in value.model_fields_set - IMAGES:
                yield from _values(f"{param}.{name}" if param else name, item)


Result = TypeVar("Result")

GONE = 499
"""The status of a request whose client left before the response. Only logs and metrics show it."""


async def gone(request: Request) -> None:
    """Return when the client has disconnected. The request's body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def first_of(
    working: asyncio.Future[Any], leaving: asyncio.Future[None], seconds: float | None = None
) -> None:
    """Wait until the work is done, the client has gone, or the seconds are over."""
    futures: set[asyncio.Future[Any]] = {working, leaving}
    await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Do the work. If the client leaves first, cancel it and raise `Problem`.

    What the work does then to finish is awaited, until the server's own time is over.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(gone(request))
    try:
        await first_of(working, leaving)
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))
        if working.cancelled():
            raise Problem(GONE, "the client has gone")
        return working.result()
    except asyncio.CancelledError:
        # Work that finishes its calls after the first cancellation is cancelled again below.
        working.cancel()
        await asyncio.sleep(0)
        raise
    finally:
        leaving.cancel()
        working.cancel()
