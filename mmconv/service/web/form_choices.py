"""`/web/choices`: what the pages' forms offer: models, data sets, conditions, options.

It says what `POST /v1/runs` and `/v1/dialogues` take, and checks nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from mmconv.answers import DataSet
from mmconv.service.access import Asker, Shared
from mmconv.service.catalogue import data_sets
from mmconv.service.docs.responses import documented
from mmconv.service.errors.problems import json_response
from mmconv.service.models.api_keys import has_key
from mmconv.service.models.judges import is_offline
from mmconv.service.settings import SCOPES
from mmconv.service.state import Service

router = APIRouter(prefix="/web", include_in_schema=False)


@router.get("/choices", responses=documented())
async def list_choices(shared: Shared, caller: Asker) -> Response:
    """List what a run or a dialogue may be made of, and what the caller may do (`scopes`).

    `convbench_judges` are the models that judge by ConvBench's prompts only, `unusable` those that
    the server has no key for.
    """
    settings = shared.settings
    return json_response(
        {
            "models": list(settings.models),
            "convbench_judges": [
                name for name, spec in shared.models.specs.items() if is_offline(spec)
            ],
            "unusable": [name for name, spec in settings.models.items() if not has_key(spec)],
            "data": [_data_set(shared, each) for each in data_sets(settings) if caller.may("read")],
            "caller": caller.name,
            "scopes": [scope for scope in SCOPES if caller.may(scope)],
        }
    )


def _data_set(shared: Service, data: DataSet) -> dict[str, Any]:
    """The data set; `judges` are the models that a run of it needs one of, null if it needs none.

    Language models come first: of the others each judges only what it knows.
    """
    specs = shared.models.specs
    judges = sorted(specs, key=lambda name: is_offline(specs[name]))
    if data.benchmark.id != "convbench":
        judges = [name for name in judges if not is_offline(specs[name])]
    return asdict(data) | {
        "judges": judges if "judge" in data.seats else None,
        "conditions": list(data.conditions),
        "options": list(_options(data)),
    }


def _options(data: DataSet) -> Iterator[dict[str, Any]]:
    """The options that a form can show."""
    for option in data.options:
        field = _field(option.takes)
        if field is not None:
            known = {"name": option.name, "about": option.about, "default": option.default}
            yield known | field


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
