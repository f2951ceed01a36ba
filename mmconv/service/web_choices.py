"""`/web/choices`: what the form of a new run offers: models, data sets, conditions, options.

It says what `POST /v1/runs` takes, and checks nothing itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from mmconv.report.page.views import NAMES
from mmconv.service.access import Reader, Shared
from mmconv.service.problems import json_response
from mmconv.service.run_requests import open_options, options_model
from mmconv.service.settings import DataSpec

router = APIRouter(prefix="/web", include_in_schema=False)


@router.get("/choices")
async def list_choices(shared: Shared, caller: Reader) -> Response:
    """List what a run may be made of, and what the caller may do."""
    settings = shared.settings
    return json_response(
        {
            "models": list(settings.models),
            "data": [_data_set(name, each) for name, each in settings.data.items()],
            "caller": caller.name,
            "scopes": sorted(caller.scopes),
        }
    )


def _data_set(name: str, data: DataSpec) -> dict[str, Any]:
    """A data set with its benchmark's conditions (none where it has only one) and options."""
    model = options_model(data.benchmark)
    conditions: tuple[str, ...] = ()
    if model is not None:
        module = import_module(f"mmconv.benchmarks.{data.benchmark}.options")
        conditions = getattr(module, "CONDITIONS", ())
    return {
        "name": name,
        "benchmark": {"id": data.benchmark, "name": NAMES.get(data.benchmark, data.benchmark)},
        "conditions": conditions,
        "options": list(_options(data)),
        "about": "" if model is None else _words(model),
    }


def _words(model: type[BaseModel]) -> str:
    """What the model's own documentation says of its options, and that of those it builds on."""
    kinds = [
        each for each in model.__mro__ if issubclass(each, BaseModel) and each is not BaseModel
    ]
    texts = (inspect.cleandoc(each.__doc__ or "").partition("\n\n")[2] for each in kinds)
    return "\n\n".join(" ".join(text.split()) for text in texts if text)


def _options(data: DataSpec) -> Iterator[dict[str, Any]]:
    """The options that a form can show, in their model's order."""
    model = options_model(data.benchmark)
    if model is None:
        return
    offered = open_options(data.benchmark) - data.options.keys()
    schema = model.model_json_schema()
    for name, told in schema["properties"].items():
        field = _field(told)
        if name in offered and field is not None:
            yield {"name": name, "default": told.get("default"), **field}


def _field(told: Mapping[str, Any]) -> dict[str, Any] | None:
    """What kind of field an option needs; None for one that is made of several values."""
    kinds = [each for each in told.get("anyOf", [told]) if each.get("type") != "null"]
    found: dict[str, Any] | None = None
    match kinds:
        case [{"enum": values}]:
            found = {"kind": "choice", "values": values}
        case [{"type": "array", "items": {"enum": values}}, *_]:
            found = {"kind": "choices", "values": values}
        case [{"type": "boolean"}]:
            found = {"kind": "flag"}
        case [{"type": "integer" | "number" as kind}]:
            found = {"kind": "number", "step": 1 if kind == "integer" else "any"}
        case [{"type": "string"}]:
            found = {"kind": "text"}
    return found
