"""Errors as clients see them: one shape, OpenAI's, for all routes.

`{"error": {"message", "type", "param", "code"}}`. A message never holds a traceback, a secret or a
path of this machine. What is removed from it is logged.
"""

from __future__ import annotations

import errno
import logging
import math
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from mmconv.core.documents import name_place
from mmconv.core.errors import InputError, StoreError, StoreFull
from mmconv.engine.garbage import collect_soon
from mmconv.service.tracing import id_header, traced

log = logging.getLogger(__name__)

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
"""Status -> OpenAI's type. Other 4xx are `invalid_request_error`, 5xx `server_error`."""

LONGEST = 1000
"""Characters of a message, which may quote the client. A longer one ends in `...`."""


class ErrorDetail(BaseModel):
    """The message, its type, the field it is about, and a code for programs."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """The body of every error response."""

    error: ErrorDetail


class Problem(HTTPException):
    """A request that is answered with an error. Raised by routes and by what they call.

    `param` names the field of the request (`messages[1].content`), `code` is for programs,
    `retry_after` is in seconds, for 429 and 503. It is an `HTTPException` because FastAPI wraps
    any other exception raised while it reads a body.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.status = status
        self.message = message if len(message) <= LONGEST else f"{message[: LONGEST - 4]} ..."
        self.param = param
        self.code = code
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        if retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(retry_after)))
        super().__init__(status, self.message, headers)

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body."""
        general = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = TYPES.get(self.status, general)
        detail = ErrorDetail(message=self.message, type=kind, param=self.param, code=self.code)
        return ErrorBody(error=detail).model_dump()

    def response(self) -> Response:
        """The response that reports it."""
        return json_response(self.body, self.status, self.headers)


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON response. Dataclasses are written as their fields."""
    return Response(orjson.dumps(value), status, headers, media_type="application/json")


def ending() -> Problem:
    """503 while the process shuts down."""
    return Problem(503, "the server is ending", code="draining", retry_after=10)


def too_large(what: str, limit: int, param: str | None = None) -> Problem:
    """413 for something of more than `limit` bytes."""
    message = f"{what} is larger than {limit:,} bytes"
    return Problem(413, message, param=param, code="request_too_large")


# Messages of the engine, without what belongs to this machine or to the command line.

_PLACE = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://"  # a URL
    r"|(?<![\w/])(?:~|\.{1,2})?/[\w.~-]"  # a path
    r"|\b[A-Za-z]:\\"
    r"|environment variable"
)

_HINT = re.compile(r" \(--[^)]*\)")

_OPTION = re.compile(r"""(?<![\w'"-])--([a-z][a-z-]*)""")

FIELDS: Mapping[str, str | None] = {
    "allow-drafts": "options.allow_drafts",
    "no-judge": "options.generate_only",
    "prompts": "the server's own prompts",
    "skip-bad-records": "options.skip_bad_records",
}
"""Option of the command line -> the field of a run's request. Others have the same name."""


def presentable(message: str, fallback: str) -> str:
    """The message for clients; `fallback` if it names a path, URL or variable of this machine."""
    return without_commands(without_places(message, fallback))


def without_places(text: str, fallback: str) -> str:
    """The text as it is; `fallback` if it names a path, URL or variable of this machine."""
    if _PLACE.search(text):
        log.warning("sent a client only %r: %s", fallback, text)
        return fallback
    return text


def without_commands(message: str, fields: Mapping[str, str | None] = FIELDS) -> str:
    """The engine's message with fields for options of the command line, without hints `(--...)`.

    Lines about an option that has no field (None) are left out.
    """

    def field_of(option: str) -> str | None:
        return fields.get(option, option.replace("-", "_"))

    lines = _HINT.sub("", message).split("\n")
    kept = [line for line in lines if all(map(field_of, _OPTION.findall(line)))]
    return _OPTION.sub(lambda match: field_of(match[1]) or "", "\n".join(kept))


# Pydantic's errors, as one problem that names its field as people write JSON.

DISCRIMINATORS = ("type", "role", "benchmark")
"""The fields whose values select the kind of a part of a request."""

PARAMETERS = (("query",), ("path",), ("header",), ("cookie",))
"""How the locations of other parameters begin."""


def validation_problem(errors: Sequence[Mapping[str, Any]], body: Any) -> Problem:
    """The most specific of pydantic's errors about a request, its field named as OpenAI does.

    Locations are FastAPI's, which begin with "body" and the like, or steps of the body itself. If
    a value may be of several kinds, there is an error for each. The one that got furthest into the
    value is about the kind that was meant. Several at one place are joined.
    """
    placed = [(error, _place(error["loc"], body)) for error in errors]
    error, place = max(placed, key=lambda pair: len(pair[1]))
    if error["type"] == "json_invalid":
        message = "the body is not JSON"
        position, reason = error["loc"][-1], error.get("ctx", {}).get("error")
        if reason and isinstance(position, int):
            message += f": {reason} (at character {position + 1})"
        return Problem(400, message, code="invalid_json")
    param = name_place(place, first=0)
    if not param and error["type"] == "value_error":
        return Problem(400, plainly(error))
    if not param:
        return Problem(400, "a JSON object is needed (Content-Type: application/json)")
    if error["type"] == "extra_forbidden":
        return Problem(400, f"{param}: no such field", param=param, code="unknown_parameter")
    words = dict.fromkeys(plainly(other) for other, its_place in placed if its_place == place)
    return Problem(400, f"{param}: {' or '.join(words)}", param=param)


def _place(location: tuple[Any, ...], body: Any) -> list[Any]:
    """The steps of pydantic's location that are fields of the request, not names of its types."""
    if location[:1] != ("body",):
        return list(location[1:] if location[:1] in PARAMETERS else location)
    steps: list[Any] = []
    tagged: Any = None
    for place, step in enumerate(location[1:], start=2):
        # The name of a kind: a part of type "text" has a field of that name as well.
        kinds = [body.get(name) for name in DISCRIMINATORS] if isinstance(body, dict) else []
        if step in kinds and body is not tagged and place < len(location):
            tagged = body
            continue
        try:
            body = body[step]
        except (LookupError, TypeError):
            # The name of a type, unless it is the field that is missing.
            if step is not location[-1] or not isinstance(body, dict):
                continue
        steps.append(step)
    return steps


def plainly(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors, without its place."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "none_required" or context.get("max_length") == 0:
        return "not supported here: leave it out"
    if kind == "union_tag_not_found":
        return f"{context['discriminator']} is missing"
    message = str(error["msg"])
    for prefix in ("Value error, ", "Assertion failed, ", "Input ", "String "):
        message = message.removeprefix(prefix)
    return message[:1].lower() + message[1:]


# The exceptions that leave a route.

DATABASE_SECONDS = 2.0
"""`Retry-After` while the database is away."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
"""Errors of a disk that is full or read-only."""

ROOM_SECONDS = 60.0
"""`Retry-After` while it is. Only the operator can free space."""

UNROUTED = {
    HTTPStatus.NOT_FOUND.phrase: (
        "there is nothing at this path; /docs lists what there is",
        "no_such_path",
    ),
    HTTPStatus.METHOD_NOT_ALLOWED.phrase: (
        "this path takes other methods; /docs lists them",
        "method_not_allowed",
    ),
}
"""Starlette's detail for a request without a route -> our message and code."""


def install_handlers(app: FastAPI) -> None:
    """Answer every exception in the one shape."""
    for kind in (HTTPException, RequestValidationError, InputError, StoreError, OSError):
        app.add_exception_handler(kind, _answer)
    app.add_exception_handler(Exception, _answer_bug)


async def _answer(request: Request, error: Exception) -> Response:
    problem = _problem_of(request, error)
    if problem.status == 405:
        # Starlette's own header names one method: each of our routes has one.
        path = getattr(request.scope.get("route"), "path", "")
        methods = request.app.state.methods.get(path, {"GET"})
        methods = {*methods, "HEAD"} if "GET" in methods else methods
        problem.headers = {"Allow": ", ".join(sorted(methods))}
    return problem.response()


def _problem_of(request: Request, error: Exception) -> Problem:
    """The error response for an exception. Raises it again if it is a bug."""
    match error:
        case Problem():
            return error
        case RequestValidationError():
            return validation_problem(error.errors(), error.body)
        case HTTPException():  # no such route, another method, an invalid form
            message, code = UNROUTED.get(error.detail, (error.detail, None))
            if code == "no_such_path" and f"/v1{request.url.path}" in request.app.state.methods:
                message = f"use /v1{request.url.path}: the client's base URL must end in /v1"
            return Problem(error.status_code, message, code=code)
        case InputError():
            return Problem(400, presentable(str(error), "the request cannot be served as it is"))
        case StoreError():
            log.warning("%s: %s", traced(), error)
            if not isinstance(error, StoreFull):
                message = "the database does not answer; ask again later"
                return Problem(503, message, code="no_database", retry_after=DATABASE_SECONDS)
        case OSError() if error.errno in NO_ROOM:
            out = request.app.state.service.settings.out
            log.warning("%s: cannot write into %s: %s", traced(), out, error)
        case _:
            raise error
    message = "the server's disk is full or read-only; its operator must free space"
    return Problem(503, message, code="no_room", retry_after=ROOM_SECONDS)


async def _answer_bug(_request: Request, _error: Exception) -> Response:
    # Starlette hands the exception on to the server, which logs it and closes the connection.
    collect_soon()
    problem = Problem(500, "the server failed; its log says why", code="bug")
    return json_response(problem.body, problem.status, {"Connection": "close"} | id_header())
