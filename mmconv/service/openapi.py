"""The OpenAPI document: FastAPI's, with examples, scopes, errors and the meaning of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml
from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from mmconv.service.access import INCLUDED_IN, Authorised
from mmconv.service.errors import ErrorBody

EXAMPLES: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("examples.yaml").read_text(encoding="utf-8")
)
"""Operation -> title -> body."""

PARAMETERS: Mapping[str, str] = {
    "api-version": "Accepted from Azure's clients, and ignored.",
    "after": "The `next` of the previous page. Without it: the first page.",
    "benchmark": "A benchmark, by its id.",
    "block": "The block's number and `.js`.",
    "condition": "Only this condition.",
    "data": "The dataset's name, as `GET /v1/data` lists it.",
    "despite": "What may differ besides the candidates. May be repeated.",
    "dialogue": "The dialogue's id, from the response that queued it.",
    "everybody": "Remove the image for everyone who uploaded it. Needs the scope admin.",
    "generate_only": "Whether runs will only request answers, so that no judge reads the data.",
    "format": "The format of the response.",
    "idempotency-key": "A key chosen by the client that identifies its run.",
    "image": "The SHA-256 of the image's file.",
    "limit": "At most N items.",
    "metric": "Only this metric.",
    "model": "A model's name, as `GET /v1/models` lists it.",
    "prompts": "Whether to include the judges' prompts, filled in.",
    "purge": "Remove it instead of stopping it.",
    "run": "The run's id, as `GET /v1/runs` lists it.",
    "runs": "The runs' ids separated by commas, the baseline first.",
    "sample": "A sample, by its name in the run's data.",
    "small": "A WebP of at most 192 pixels a side instead of the file.",
    "sort": "The column that ranks the runs. By default the benchmark's main score.",
    "state": "Only runs in this state.",
    "table": "Only this table, by its name.",
    "title": "What people call it.",
    "wait": "Seconds to wait for the result if the dialogue is queued.",
}
"""Parameter -> its description on every route that does not describe it itself."""


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


def build_document(app: FastAPI, routers: Iterable[APIRouter]) -> dict[str, Any]:
    """The OpenAPI document of an application, built once.

    The dependencies of the routers' routes name the scopes. If the server has no tokens, one may be
    sent and is ignored.
    """
    if app.openapi_schema is None:
        about = {"title": app.title, "version": app.version, "description": app.description}
        document = app.openapi_schema = describe(about, app.routes)
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        needed: list[dict[str, list[str]]] = (
            [{"token": []}] if app.state.service.settings.tokens else [{"token": []}, {}]
        )
        document["security"] = needed
        for route in (route for router in routers for route in router.routes):
            if isinstance(route, APIRoute) and route.path_format in document["paths"]:
                for method in route.methods or ():
                    _add_scopes(document["paths"][route.path_format][method.lower()], route)
    return app.openapi_schema


def describe(info: Mapping[str, Any], routes: list[Any]) -> dict[str, Any]:
    """FastAPI's document with examples and descriptions, without FastAPI's own errors."""
    document = get_openapi(**info, routes=routes)
    for path, operations in document["paths"].items():
        places = {step: place for place, step in enumerate(path.split("/"))}
        for method, operation in operations.items():
            # Invalid requests are answered with 400, in the shape of all errors.
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
            parameters = operation.get("parameters", [])
            # In the path's order: FastAPI puts those of dependencies last.
            parameters.sort(
                key=lambda parameter: places.get(f"{{{parameter['name']}}}", len(places))
            )
            for parameter in parameters:
                if parameter["name"] in PARAMETERS:
                    parameter.setdefault("description", PARAMETERS[parameter["name"]])
            if bodies := EXAMPLES.get(f"{method.upper()} {path}"):
                operation["requestBody"]["content"]["application/json"]["examples"] = {
                    title: {"summary": title, "value": body} for title, body in bodies.items()
                }
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    if "RunInfo" in schemas:
        # The client reads it as any mapping, so a newer server may add fields.
        request = {"$ref": "#/components/schemas/RunRequest"}
        schemas["RunInfo"]["properties"]["request"] = request
    return document


def _dependencies(dependant: Dependant) -> Iterator[object]:
    """What is called for the parameters of a route, and for theirs."""
    for dependency in dependant.dependencies:
        yield dependency.call
        yield from _dependencies(dependency)


def _add_scopes(operation: dict[str, Any], route: APIRoute) -> None:
    """Add to an operation's description which scopes its token needs."""
    calls = _dependencies(route.dependant)
    scopes = next((call.scopes for call in calls if isinstance(call, Authorised)), None)
    if scopes is None:
        operation["security"] = []
        sentence = "Needs no token."
    else:
        enough = (*scopes, *(outer for scope in scopes for outer in INCLUDED_IN[scope]))
        sentence = f"Needs a token with one of the scopes {', '.join(dict.fromkeys(enough))}."
    description = operation.get("description", "").strip()
    operation["description"] = f"{description}\n\n{sentence}".strip()
