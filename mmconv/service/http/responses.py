"""The responses of routes as the OpenAPI document describes them: errors and headers."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from mmconv.service.errors import ErrorBody

Responses = dict[int | str, dict[str, Any]]
"""The `responses` of a route, as FastAPI takes them: status -> description."""

LATER = {"Retry-After": "Seconds after which to come back, where that is known."}

HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "`Bearer`."},
    429: LATER,
    503: LATER,
}
"""Status -> the headers of its errors, with their meaning."""

TAGS = {"ETag": "For If-None-Match.", "Last-Modified": "For If-Modified-Since."}

LOCATION = {"Location": "The address of the job."}


def answers(headers: Mapping[str, str], **fields: Any) -> dict[str, Any]:
    """The documentation of a response: FastAPI's fields, and its headers with their meaning."""
    text = {"type": "string"}
    described = {name: {"description": words, "schema": text} for name, words in headers.items()}
    return fields | ({"headers": described} if described else {})


def documented(*statuses: int) -> Responses:
    """The error responses of a route besides those of `EVERYWHERE`."""
    return {
        status: answers(
            HEADERS.get(status, {}), model=ErrorBody, description=HTTPStatus(status).phrase
        )
        for status in statuses
    }


EVERYWHERE = documented(400, 401, 403, 408, 413, 429, 500, 503)
"""The error responses of every route."""


def with_etag(**fields: Any) -> Responses:
    """The `responses` of a route whose answers have an `ETag`."""
    unchanged = "Not changed since (If-None-Match, If-Modified-Since)."
    return {200: answers(TAGS, **fields), 304: answers(TAGS, description=unchanged)}


def stopped(model: type) -> Responses:
    """The `responses` of a route that stops a job (202) or removes it."""
    return {
        200: {"model": model, "description": "It had already ended and is unchanged."},
        204: {"description": "It is removed."},
    }
