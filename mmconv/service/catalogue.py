"""`/v1/data` and `/v1/prompts`: the data sets of runs, and the prompts of judgements.

They describe what `POST /v1/runs` and `POST /v1/judgements` accept. `/v1/models` lists the models.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, get_args

from fastapi import APIRouter
from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo
from starlette.responses import Response

from mmconv.api.schemas import BenchmarkName, DataSet, OptionInfo, PromptInfo
from mmconv.benchmarks.registry import TITLES
from mmconv.benchmarks.shared.judgements import JudgementRequest
from mmconv.service.access import Asker, Reader, Shared
from mmconv.service.errors import json_response
from mmconv.service.http.responses import documented
from mmconv.service.judgements import AnyJudgement
from mmconv.service.runs.requests import description, open_options
from mmconv.service.settings import DataSpec, Settings

router = APIRouter(prefix="/v1", tags=["catalogue"])

EVERYWHERE = frozenset({"judge", "benchmark", "prompt"})
"""The fields of every request."""


class DataList(BaseModel):
    """All data sets, in the operator's order."""

    data: tuple[DataSet, ...]


class PromptList(BaseModel):
    """All prompts, by benchmark."""

    data: tuple[PromptInfo, ...]


@router.get("/data", response_model=DataList, responses=documented())
async def list_data(shared: Shared, _caller: Reader) -> Response:
    """List the data sets that runs may name, with conditions and options."""
    return json_response({"data": data_sets(shared.settings)})


@router.get("/prompts", response_model=PromptList, responses=documented())
async def list_prompts(_caller: Asker) -> Response:
    """List the judges' prompts, and the fields that each needs."""
    return json_response({"data": prompts()})


def data_sets(settings: Settings) -> list[DataSet]:
    """The configured data sets, as clients may see them."""
    return [_data_set(name, data) for name, data in settings.data.items()]


@cache
def prompts() -> tuple[PromptInfo, ...]:
    """What `/v1/judgements` accepts, prompt by prompt."""
    union, *_ = get_args(AnyJudgement)
    return tuple(
        _prompt(shape, prompt)
        for shape in get_args(union)
        for prompt in get_args(shape.model_fields["prompt"].annotation)
    )


def _prompt(shape: type[JudgementRequest], prompt: str) -> PromptInfo:
    [benchmark] = get_args(shape.model_fields["benchmark"].annotation)
    needed, optional = [], []
    for name, field in shape.model_fields.items():
        if name in EVERYWHERE:
            continue
        if field.is_required() or prompt in shape.needing.get(name, ()):
            needed.append(name)
        elif name not in shape.needing and prompt in shape.reading.get(name, (prompt,)):
            optional.append(name)
    return PromptInfo(
        benchmark=benchmark,
        prompt=prompt,
        needed=tuple(needed),
        optional=tuple(optional),
        shape=shape.__name__,
    )


def _data_set(name: str, data: DataSpec) -> DataSet:
    known = description(data.benchmark)
    return DataSet(
        name=name,
        benchmark=BenchmarkName(id=data.benchmark, name=TITLES.get(data.benchmark, data.benchmark)),
        conditions={} if known is None else known.conditions,
        seats={} if known is None else known.seats,
        options=tuple(
            option for option in _options(data.benchmark) if option.name not in data.options
        ),
        about="" if known is None else _about(known.options),
    )


@cache
def _options(benchmark: str) -> tuple[OptionInfo, ...]:
    """The options that clients may set, in their model's order."""
    known, offered = description(benchmark), open_options(benchmark)
    fields = {} if known is None else known.options.model_fields
    return tuple(_option(name, field) for name, field in fields.items() if name in offered)


def _option(name: str, field: FieldInfo) -> OptionInfo:
    kind: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
    default = kind.dump_python(field.get_default(call_default_factory=True), mode="json")
    about = " ".join((field.description or "").split())
    return OptionInfo(name=name, about=about, takes=kind.json_schema(), default=default)


@cache
def _about(model: type[BaseModel]) -> str:
    """The docstrings of the options and of their base classes, after the first paragraph."""
    kinds = [
        kind for kind in model.__mro__ if issubclass(kind, BaseModel) and kind is not BaseModel
    ]
    texts = (inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[2] for kind in kinds)
    return "\n\n".join(" ".join(text.split()) for text in texts if text)
