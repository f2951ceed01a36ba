"""What a client is told when a request cannot be served: one shape, OpenAI's, for all routes.

`{"error": {"message", "type", "param", "code"}}`. A message never holds a traceback, a secret or a
path of this machine (`mmconv.service.privacy`): what is not meant for clients is logged.
"""

from __future__ import annotations

import errno
import logging
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from mmconv.errors import InputError, StoreError, StoreFull
from mmconv.runner import collect_soon
from mmconv.service.privacy import presentable
from mmconv.service.tracing import identified, traced
from mmconv.service.wording import in_one, plainly

log = logging.getLogger(__name__)

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
"""Status -> OpenAI's type; other 4xx are `invalid_request_error`, 5xx `server_error`."""

LONGEST = 1000
"""Characters of a message; it may quote what a client sent. A longer one ends in `...`."""

DATABASE_SECONDS = 2.0
"""When a client is told to come back while the database is away."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
"""What a disk says that is full, or closed to writing."""

ROOM_SECONDS = 60.0
"""When a client is told to come back while it is; only an operator makes room."""

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
"""What Starlette says of requests that no route takes -> more, and a word for programs."""

PARAMETERS = (("query",), ("path",), ("header",), ("cookie",))
"""What the locations of other parameters begin with."""


class ErrorDetail(BaseModel):
    """What went wrong: in words, of which type, at which field, and a word for programs."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """The body of every answer that tells of an error."""

    error: ErrorDetail


class Problem(HTTPException):
    """A request that is answered with an error; raised by routes and by what they call.

    `param` names the field of the request (`messages[1].content`), `code` is a word for programs,
    `retry_after` are seconds, told with 429 and 503. It is an `HTTPException` because FastAPI lets
    nothing else out of the reading of a body.
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
        super().__init__(status, self.message, _headers(status, retry_after))

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body."""
        general = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = TYPES.get(self.status, general)
        detail = ErrorDetail(message=self.message, type=kind, param=self.param, code=self.code)
        return ErrorBody(error=detail).model_dump()

    def response(self) -> Response:
        """The answer."""
        return json_response(self.body, self.status, self.headers)


def _headers(status: int, retry_after: float | None) -> dict[str, str]:
    if status == 401:
        return {"WWW-Authenticate": "Bearer"}
    return {} if retry_after is None else {"Retry-After": str(max(1, math.ceil(retry_after)))}


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer of JSON; dataclasses are written as their fields."""
    return Response(orjson.dumps(value), status, headers, media_type="application/json")


def no_model(name: str, param: str) -> Problem:
    """The answer to who names a model that is not configured in the field `param`."""
    told = f"no model {name!r} here; GET /v1/models lists them"
    return Problem(404, told, param=param, code="model_not_found")


def ending() -> Problem:
    """What is told once the process has been told to end."""
    return Problem(503, "the server is ending", code="draining", retry_after=10)


def install(app: FastAPI) -> None:
    """Answer every exception in the one shape."""
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(InputError, _on_input)
    app.add_exception_handler(StoreError, _on_store)
    app.add_exception_handler(OSError, _on_file)
    app.add_exception_handler(Exception, _on_bug)


async def _on_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


async def _on_invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return invalid(error.errors(), error.body).response()


async def _on_http(request: Request, error: Exception) -> Response:
    """What Starlette and FastAPI say: no such route, another method, a form that is none."""
    assert isinstance(error, HTTPException)
    told = str(error.detail)
    message, code = UNROUTED.get(told, (told, None))
    problem = Problem(error.status_code, message, code=code)
    headers = _allowed(request) if error.status_code == 405 else error.headers
    return json_response(problem.body, error.status_code, headers)


def _allowed(request: Request) -> dict[str, str]:
    """The methods of the request's path; the routes that have it know one each."""
    path = getattr(request.scope.get("route"), "path", "")
    operations = request.app.openapi()["paths"].get(path, {"get": None})
    allowed = {method.upper() for method in operations} | (
        {"HEAD"} if "get" in operations else set()
    )
    return {"Allow": ", ".join(sorted(allowed))}


async def _on_input(_request: Request, error: Exception) -> Response:
    """What the engine says of an input, where no route has said it better."""
    return Problem(400, presentable(str(error), "the request cannot be served as it is")).response()


async def _on_store(_request: Request, error: Exception) -> Response:
    log.warning("%s: %s", traced(), error)
    if isinstance(error, StoreFull):
        return _no_room()
    return Problem(
        503,
        "the database does not answer; ask again later",
        code="no_database",
        retry_after=DATABASE_SECONDS,
    ).response()


async def _on_file(request: Request, error: Exception) -> Response:
    """What the system says of a file: no bug where the disk is full or closed."""
    assert isinstance(error, OSError)
    if error.errno not in NO_ROOM:
        raise error
    out = request.app.state.service.settings.out
    log.warning("%s: cannot write into %s: %s", traced(), out, error)
    return _no_room()


def _no_room() -> Response:
    told = "the server's disk is full, or closed to it; whoever runs it can mend that"
    return Problem(503, told, code="no_room", retry_after=ROOM_SECONDS).response()


async def _on_bug(_request: Request, _error: Exception) -> Response:
    # Starlette hands the exception on to the server, which logs it and closes the connection.
    collect_soon()
    problem = Problem(500, "the server failed; its log says why", code="bug")
    return json_response(problem.body, problem.status, {"Connection": "close"} | identified())


def invalid(errors: Sequence[Mapping[str, Any]], body: Any) -> Problem:
    """The telling one of pydantic's errors about a request, its field as OpenAI would write it.

    Locations are FastAPI's, which begin with "body" and the like, or steps of the body itself.

    Where a value may be of several kinds there is an error for each; the one that got furthest
    into the value is about the kind that was meant, and several at the same place are told as one.
    """
    placed = [(error, _place(error["loc"], body)) for error in errors]
    error, place = max(placed, key=lambda each: len(each[1]))
    if error["type"] == "json_invalid":
        return Problem(400, _not_json(error), code="invalid_json")
    param = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    param = param.removeprefix(".")
    if not param and error["type"] == "value_error":
        return Problem(400, plainly(error))
    if not param:
        return Problem(400, "a JSON object is needed (Content-Type: application/json)")
    if error["type"] == "extra_forbidden":
        return Problem(400, f"{param}: no such field", param=param, code="unknown_parameter")
    words = in_one([plainly(each) for each, its_place in placed if its_place == place])
    return Problem(400, f"{param}: {words}", param=param)


def _not_json(error: Mapping[str, Any]) -> str:
    """Where the body stops being JSON, as its reader tells it."""
    place, why = error["loc"][-1], error.get("ctx", {}).get("error")
    if not why or not isinstance(place, int):
        return "the body is not JSON"
    return f"the body is not JSON: {why} (at character {place + 1})"


def _place(location: tuple[Any, ...], body: Any) -> list[Any]:
    """The steps of pydantic's location that are fields of the request, not names of its types."""
    if location[:1] != ("body",):
        return list(location[1:] if location[:1] in PARAMETERS else location)
    steps: list[Any] = []
    for step in location[1:]:
        try:
            body = body[step]
        except (LookupError, TypeError):
            # The name of a type, unless it is the field that is missing.
            if step is not location[-1] or not isinstance(body, dict):
                continue
        steps.append(step)
    return steps
