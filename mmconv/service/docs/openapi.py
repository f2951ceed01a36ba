"""The OpenAPI document: FastAPI's, with words, examples, and which token each route needs.

The page of it is `mmconv.service.docs.page`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from mmconv.service.access import INCLUDED_IN, Authorised
from mmconv.service.docs.examples import EXAMPLES

PARAMETERS: Mapping[str, str] = {
    "after": "The `next` of the page before; without it, the first page.",
    "benchmark": "Only runs of this benchmark, by its id.",
    "block": "The block's number and `.js`.",
    "condition": "Only this condition.",
    "despite": "What may differ besides the candidates; may stand there several times.",
    "dialogue": "The dialogue's id, from the answer that made it a job.",
    "everybody": "Remove it for all who sent it, not for the caller alone; for admins.",
    "format": "What the answer is written as.",
    "idempotency-key": "A word of the client's own that stands for its run.",
    "image": "The SHA-256 of the image's file.",
    "limit": "At most so many.",
    "metric": "Only this metric.",
    "model": "A model's name, as `GET /v1/models` lists it.",
    "prompts": "Whether the judges' prompts are told as they were filled in.",
    "purge": "Remove it instead of stopping it.",
    "run": "The run's id, as `GET /v1/runs` lists it.",
    "runs": "The runs' ids with commas between them, the baseline first.",
    "sample": "A sample, by the name that the run's data give it.",
    "small": "A WebP of at most 192 pixels a side in place of the file.",
    "state": "Only runs in this state.",
    "table": "Only this table, by its name.",
    "wait": "Seconds to wait for the result of a dialogue that becomes a job.",
}
"""What a parameter means wherever it stands, unless its route says it."""


def describe(title: str, version: str, description: str, routes: Any) -> dict[str, Any]:
    """The OpenAPI document of these routes, without FastAPI's own errors."""
    document = get_openapi(title=title, version=version, description=description, routes=routes)
    parts = document["components"]
    for name, operation in _operations(document):
        # A request that cannot be read is answered with 400, in the shape of all errors.
        if "HTTPValidationError" in str(operation["responses"].get("422")):
            del operation["responses"]["422"]
        for parameter in operation.get("parameters", ()):
            if parameter["name"] in PARAMETERS:
                parameter.setdefault("description", PARAMETERS[parameter["name"]])
        if name in EXAMPLES:
            operation["requestBody"]["content"]["application/json"]["examples"] = {
                title: {"summary": title, "value": value} for title, value in EXAMPLES[name].items()
            }
    for name in ("HTTPValidationError", "ValidationError"):
        parts["schemas"].pop(name, None)
    if "RunInfo" in parts["schemas"]:
        # It is what was posted; a client reads it as any mapping, whatever a newer server adds.
        asked = {"$ref": "#/components/schemas/RunRequest"}
        parts["schemas"]["RunInfo"]["properties"]["request"] = asked
    return document


def tell_scopes(document: dict[str, Any], routes: Iterable[Any], *, demanded: bool) -> None:
    """Add to each operation what a token must be allowed.

    Tokens are `demanded` where some are configured; elsewhere one may be sent and is not looked at.
    """
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}] if demanded else [{"token": []}, {}]
    for route in routes:
        if not isinstance(route, APIRoute) or route.path_format not in document["paths"]:
            continue
        needed = [
            dependency.call.scopes
            for dependency in route.dependant.dependencies
            if isinstance(dependency.call, Authorised)
        ]
        words = _words(needed[0]) if needed else "Needs no token."
        for method in route.methods or ():
            operation = document["paths"][route.path_format].get(method.lower())
            if operation is not None:
                told = operation.get("description", "").strip()
                operation["description"] = f"{told}\n\n{words}".strip()
                if not needed:
                    operation["security"] = []


def _words(scopes: tuple[Any, ...]) -> str:
    enough = dict.fromkeys((*scopes, *(each for scope in scopes for each in INCLUDED_IN[scope])))
    return f"Needs a token with one of the scopes {', '.join(enough)}."


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every operation under its name, `POST /v1/runs`."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"{method.upper()} {path}", operation
