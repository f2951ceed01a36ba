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


def documented(*statuses: int) -> Responses:
    """The error responses of a route: those of every route, and the given statuses."""
    return {
        status: {"model": ErrorBody, "description": HTTPStatus(status).phrase}
        | headed(HEADERS.get(status, {}))
        for status in sorted({400, 401, 403, 408, 413, 429, 500, 503, *statuses})
    }


def headed(headers: Mapping[str, str]) -> dict[str, Any]:
    """The part of a response's documentation that lists its headers with their meaning."""
    if not headers:
        return {}
    text = {"type": "string"}
    return {
        "headers": {name: {"description": words, "schema": text} for name, words in headers.items()}
    }


def with_location(status: int, **fields: Any) -> Responses:
    """The `responses` of a route that answers with the address of a job."""
    return {status: fields | headed({"Location": "The address of the job."})}


def with_etag(**fields: Any) -> Responses:
    """The `responses` of a route whose answers have an `ETag`."""
    tags = {"ETag": "For If-None-Match.", "Last-Modified": "For If-Modified-Since."}
    unchanged = "Not changed since (If-None-Match, If-Modified-Since)."
    return {200: fields | headed(tags), 304: {"description": unchanged} | headed(tags)}


def stopped(model: type) -> Responses:
    """The `responses` of a route that stops a job (202) or removes it."""
    return {
        200: {"model": model, "description": "It had already ended and is unchanged."},
        204: {"description": "It is removed."},
    }
