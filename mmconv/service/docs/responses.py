"""The answers of routes as the OpenAPI document tells them: errors, headers, empty ones."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from mmconv.service.errors.problems import ErrorBody

Responses = dict[int | str, dict[str, Any]]
"""The `responses` of a route, as FastAPI takes them: status -> what its answer is."""

LATER = {"Retry-After": "Seconds after which to come back, where that is known."}
"""The headers of an answer to who should come back."""

HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "`Bearer`."},
    429: LATER,
    503: LATER,
}
"""Status -> what the headers of its errors mean."""


def documented(*statuses: int) -> Responses:
    """The `responses` of a route, for its documentation: those named, and those that all have."""
    return {
        status: {"model": ErrorBody, "description": HTTPStatus(status).phrase}
        | headed(HEADERS.get(status, {}))
        for status in sorted({400, 401, 403, 408, 413, 429, 500, 503, *statuses})
    }


def headed(headers: Mapping[str, str]) -> dict[str, Any]:
    """The part of an answer's documentation that tells its headers and what they mean."""
    if not headers:
        return {}
    text = {"type": "string"}
    told = {name: {"description": words, "schema": text} for name, words in headers.items()}
    return {"headers": told}


def with_location(status: int, **about: Any) -> Responses:
    """The `responses` of a route that answers with where a job is; `about` is what else is told."""
    return {status: about | headed({"Location": "Where to ask how it is."})}


def with_etag(**about: Any) -> Responses:
    """The `responses` of a route whose answers have an `ETag`; `about` is what else is told."""
    tags = {
        "ETag": "For If-None-Match.",
        "Last-Modified": "For If-Modified-Since.",
    }
    unchanged = "It is as the client has it (If-None-Match, If-Modified-Since)."
    return {200: about | headed(tags), 304: {"description": unchanged} | headed(tags)}


def stopped(model: type) -> Responses:
    """The `responses` of a route that stops a job (202) or removes it; `model` tells how it is."""
    return {
        200: {"model": model, "description": "It had ended before, and is as it was."},
        204: {"description": "It is gone."},
    }
