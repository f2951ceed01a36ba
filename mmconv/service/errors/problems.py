"""What a client is told when a request cannot be served: one shape, OpenAI's, for all routes.

`{"error": {"message", "type", "param", "code"}}`. A message never holds a traceback, a secret or a
path of this machine (`mmconv.service.errors.privacy`): what is not meant for clients is logged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
"""Status -> OpenAI's type; other 4xx are `invalid_request_error`, 5xx `server_error`."""

LONGEST = 1000
"""Characters of a message; it may quote what a client sent. A longer one ends in `...`."""


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


def too_large(what: str, most: int, param: str | None = None) -> Problem:
    """The refusal of something of more than `most` bytes."""
    return Problem(
        413, f"{what} is larger than {most:,} bytes", param=param, code="request_too_large"
    )
