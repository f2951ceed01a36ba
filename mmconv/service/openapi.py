"""The OpenAPI document: FastAPI's, with examples, scopes and the meaning of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from mmconv.service.access import INCLUDED_IN, Authorised

EXAMPLES: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("examples.yaml").read_text(encoding="utf-8")
)
"""Operation -> title -> body."""

PARAMETERS: Mapping[str, str] = {
    "after": "The `next` of the previous page. Without it: the first page.",
    "benchmark": "Only runs of this benchmark, by its id.",
    "block": "The block's number and `.js`.",
    "condition": "Only this condition.",
    "despite": "What may differ besides the candidates. May be repeated.",
    "dialogue": "The dialogue's id, from the response that queued it.",
    "everybody": "Remove the image for everyone who uploaded it. Needs the scope admin.",
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
    "state": "Only runs in this state.",
    "table": "Only this table, by its name.",
    "wait": "Seconds to wait for the result if the dialogue is queued.",
}
"""Parameter -> its description on every route that does not describe it itself."""


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
        for method, operation in operations.items():
            # Invalid requests are answered with 400, in the shape of all errors.
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
            for parameter in operation.get("parameters", ()):
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


def _add_scopes(operation: dict[str, Any], route: APIRoute) -> None:
    """Add to an operation's description which scopes its token needs."""
    calls = (dependency.call for dependency in route.dependant.dependencies)
    scopes = next((call.scopes for call in calls if isinstance(call, Authorised)), None)
    if scopes is None:
        operation["security"] = []
        sentence = "Needs no token."
    else:
        enough = (*scopes, *(outer for scope in scopes for outer in INCLUDED_IN[scope]))
        sentence = f"Needs a token with one of the scopes {', '.join(dict.fromkeys(enough))}."
    description = operation.get("description", "").strip()
    operation["description"] = f"{description}\n\n{sentence}".strip()
