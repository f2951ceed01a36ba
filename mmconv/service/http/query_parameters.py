"""What a request's query may hold: the parameters that its route knows, each once.

Without this, a misspelt parameter would be passed over, and of a repeated one the last would count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_origin

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field

from mmconv.service.errors.problems import Problem

Word = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f]*$")]
"""A name to choose by."""


class QueryParameters(BaseModel):
    """The parameters of a route that has several; no others are taken."""

    model_config = ConfigDict(extra="forbid")


async def check_query(request: Request) -> None:
    """A dependency of all routes of the API; raises `Problem` 400."""
    if not request.url.query:
        return
    known = dict(_parameters(request.scope["route"]))
    for name in (given := request.query_params):
        if name not in known:
            message = f"{name}: no such field"
            raise Problem(400, message, param=name, code="unknown_parameter")
        if (times := len(given.getlist(name))) > 1 and not known[name]:
            raise Problem(400, f"{name}: given {times} times; give it once", param=name)


def _parameters(route: APIRoute) -> Iterator[tuple[str, bool]]:
    """The names of a route's own query parameters, and whether each may be repeated."""
    for each in route.dependant.query_params:
        kind: Any = each.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            for name, field in kind.model_fields.items():
                yield name, get_origin(field.annotation) is list
        else:
            yield each.alias, get_origin(kind) is list
