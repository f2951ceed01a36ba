"""Which token each route needs, told in the API's own document from what the routes check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi.routing import APIRoute

from mmconv.service.access import INCLUDED_IN, Authorised


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
