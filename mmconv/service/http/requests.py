"""How routes read requests: bounded JSON, known query parameters, limits, disconnects."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, get_origin

import orjson
from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from mmconv.service.errors import Problem
from mmconv.service.settings import Sizes
from mmconv.service.state import Service

DEEPEST = 64
"""Levels of nesting in a JSON body. A chat request has five, a JSON schema perhaps twenty."""

_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
"""A JSON string with its quotes, or the beginning of one that does not end."""

_SIGN = re.compile(rb"[\[{,]|" + _TEXT, re.DOTALL)


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
        shared: Service = self.app.state.service
        return read_json(await self.body(), shared.settings.sizes.json_values)


def read_json(data: bytes, limit: int) -> Any:
    """JSON of at most `limit` values and `DEEPEST` levels.

    A value takes ten times its bytes in memory or more, so values are counted by what separates
    them before any is created. Raises `Problem` 400 or 413, or `json.JSONDecodeError`; 400 also for
    an object with a repeated field, of which orjson takes the last.
    """
    opened = data.count(b"[") + data.count(b"{")
    if opened + data.count(b",") > limit and _holds_more(data, limit):
        raise Problem(413, f"the body holds more than {limit:,} values", code="request_too_large")
    value = orjson.loads(data)
    if opened > DEEPEST and _is_deep(value):
        raise _too_deep()
    # Every field has a colon, so a repeated field leaves fewer than were sent. Escaped colons in
    # strings are left too.
    sent = sum(map(data.count, (b":", b"\\u003a", b"\\u003A")))
    if sent > orjson.dumps(value).count(b":"):
        _check_repeated(data)
    return value


def _check_repeated(data: bytes) -> None:
    """Raise `Problem` 400 for the first repeated field of an object."""

    def check(fields: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for name, _ in fields:
            if name in seen:
                raise Problem(400, f"{name}: stands twice in one object", param=name)
            seen.add(name)

    try:
        json.loads(data, object_pairs_hook=check)
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> Problem:
    return Problem(400, f"the body is nested more than {DEEPEST} levels deep")


def _holds_more(data: bytes, limit: int) -> bool:
    """Whether there are more values than `limit`, by separators outside strings."""
    signs = texts = 0
    for match in _SIGN.finditer(data):
        is_text = data[match.start()] == ord('"')
        texts += is_text
        signs += not is_text
        # A value has at most one name, so more strings than this mean more values too.
        if signs > limit or texts > 2 * limit + 2:
            return True
    return False


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _children(outer)]
    return bool(level)


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


Words = Annotated[str, Field(min_length=1)]
"""A text that may not be empty. Answers may: models return empty ones."""

Fault: TypeAlias = tuple[str, str]
"""A field of a request, written `turns[0].act`, and what is wrong with it."""

Word = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f]*$")]
"""A name to filter by."""


class QueryParameters(BaseModel):
    """The parameters of a route that has several. Unknown ones are refused."""

    model_config = ConfigDict(extra="forbid")


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


async def check_query(request: Request) -> None:
    """A dependency of all API routes: refuses unknown and repeated parameters with 400.

    FastAPI ignores an unknown parameter, and takes the last of a repeated one.
    """
    if not request.url.query:
        return
    known = dict(_parameters(request.scope["route"]))
    for name in (query := request.query_params):
        if name not in known:
            message = f"{name}: no such field"
            raise Problem(400, message, param=name, code="unknown_parameter")
        if (times := len(query.getlist(name))) > 1 and not known[name]:
            raise Problem(400, f"{name}: given {times} times; give it once", param=name)


def _parameters(route: APIRoute) -> Iterator[tuple[str, bool]]:
    """The names of a route's query parameters, and whether each may be repeated."""
    for parameter in route.dependant.query_params:
        kind: Any = parameter.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            for name, field in kind.model_fields.items():
                yield name, get_origin(field.annotation) is list
        else:
            yield parameter.alias, get_origin(kind) is list


# The operator's limits, which types cannot express. Images are bounded where they are read.

HOTTEST = 2.0
"""The highest temperature that may be requested."""

LONG_TEXTS = 10
"""All texts of a request together may be this many times as long as one."""

MOST_PLANNED = 500_000_000
"""Characters of all prompts that a request may need."""

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
        elif param.endswith(("max_tokens", "completion_tokens")) and value > sizes.max_tokens:
            most = f"at most {sizes.max_tokens:,} may be asked for"
            raise Problem(400, f"{param}: {most}", param=param)
    if total > LONG_TEXTS * sizes.text_length:
        raise Problem(413, f"all texts together: at most {LONG_TEXTS * sizes.text_length:,}")
    return total


def check_volume(length: int, prompts: int, param: str) -> None:
    """Raise `Problem` 413 if so many prompts of up to `length` characters are too much."""
    if length * prompts > MOST_PLANNED:
        raise Problem(413, f"{param}: too much text for so many turns and calls", param=param)


def refuse_faults(faults: Iterable[Fault]) -> None:
    """Raise `Problem` 400 for the first of a request's faults, each a field and a message."""
    for param, message in faults:
        raise Problem(400, f"{param}: {message}", param=param)


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
