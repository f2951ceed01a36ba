"""`/v1/data` and `/v1/prompts`: the datasets of runs, and what judgements may be made of.

They describe what `POST /v1/runs` and `POST /v1/judgements` accept. `/v1/models` lists the models.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, TypeAdapter
from starlette.responses import Response

from judges import PromptSet
from mmconv.api import BenchmarkName, DataSet, JudgingInfo, OptionInfo
from mmconv.benchmarks.base import Options
from mmconv.benchmarks.registry import CLASSES, TITLES, find_class
from mmconv.service.access import Asker, Reader, Shared
from mmconv.service.errors import json_response
from mmconv.service.run_requests import description, open_options
from mmconv.service.settings import Settings

router = APIRouter(prefix="/v1", tags=["catalogue"])


class DataList(BaseModel):
    """All datasets, in the operator's order."""

    data: tuple[DataSet, ...]


class PromptList(BaseModel):
    """All benchmarks whose judges can be called."""

    data: tuple[JudgingInfo, ...]


@router.get("/data", response_model=DataList)
async def list_data(shared: Shared, _caller: Reader) -> Response:
    """List the datasets that runs may name, with conditions and options."""
    return json_response({"data": data_sets(shared.settings)})


@router.get("/prompts", response_model=PromptList)
async def list_prompts(_caller: Asker) -> Response:
    """List what can be judged: the benchmarks with the fields of samples, options and prompts."""
    return json_response({"data": judged_benchmarks()})


def data_sets(settings: Settings) -> list[DataSet]:
    """The configured datasets, as clients may see them."""
    return [
        DataSet(
            name=name,
            benchmark=_benchmark_name(data.benchmark),
            conditions=(known := description(data.benchmark)).conditions,
            roles=known.roles,
            options=tuple(
                each for each in _options(data.benchmark) if each.name not in data.options
            ),
            about=_about(known.options),
        )
        for name, data in settings.data.items()
    ]


@cache
def judged_benchmarks() -> tuple[JudgingInfo, ...]:
    """What `/v1/judgements` accepts, benchmark by benchmark; those without a judge are left out."""
    kinds = {name: find_class(name) for name in CLASSES}
    return tuple(
        JudgingInfo(
            benchmark=_benchmark_name(name),
            conditions=description(name).conditions,
            sample=kind.sample_type.model_json_schema(),
            options=tuple(each for each in _options(name) if each.name not in Options.model_fields),
            prompts=PromptSet(str(kind.prompts)).names,
        )
        for name, kind in kinds.items()
        if isinstance(kind.prompts, str)
    )


def _benchmark_name(benchmark: str) -> BenchmarkName:
    return BenchmarkName(id=benchmark, name=TITLES.get(benchmark, benchmark))


@cache
def _options(benchmark: str) -> tuple[OptionInfo, ...]:
    """The options that clients may set, in their model's order."""
    options = []
    for name, field in description(benchmark).options.model_fields.items():
        if name in open_options(benchmark):
            kind: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
            default = kind.dump_python(field.get_default(call_default_factory=True), mode="json")
            about = " ".join((field.description or "").split())
            options.append(
                OptionInfo(name=name, about=about, takes=kind.json_schema(), default=default)
            )
    return tuple(options)


@cache
def _about(model: type[BaseModel]) -> str:
    """The docstrings of the options and of their base classes, after the first paragraph."""
    kinds = [
        kind for kind in model.__mro__ if issubclass(kind, BaseModel) and kind is not BaseModel
    ]
    texts = (inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[2] for kind in kinds)
    return "\n\n".join(" ".join(text.split()) for text in texts if text)
