"""The exceptions that leave a route, each answered in the one shape of `errors.problems`."""

from __future__ import annotations

import errno
import logging
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from mmconv.core.errors import InputError, StoreError, StoreFull
from mmconv.engine.garbage import collect_soon
from mmconv.service.errors.privacy import presentable
from mmconv.service.errors.problems import Problem, json_response
from mmconv.service.errors.validation import validation_problem
from mmconv.service.http.request_tracing import id_header, traced

log = logging.getLogger(__name__)

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


def install_handlers(app: FastAPI) -> None:
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
    return validation_problem(error.errors(), error.body).response()


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
    return json_response(problem.body, problem.status, {"Connection": "close"} | id_header())
