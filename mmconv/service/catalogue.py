"""`/v1/data` and `/v1/prompts`: the datasets of runs, and what judgements may be made of.

They describe what `POST /v1/runs` and `POST /v1/judgements` accept. `/v1/models` lists the models.
Clients may send datasets, which only they and admins see.
"""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import replace
from functools import cache, partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, TypeAdapter
from starlette.responses import Response

from judges import PromptSet
from mmconv.api import BenchmarkName, DataSet, JudgingInfo, OptionInfo
from mmconv.benchmarks.base import Options
from mmconv.benchmarks.options import file_options
from mmconv.benchmarks.registry import CLASSES, TITLES, find_class
from mmconv.service.access import Asker, Caller, Reader, RunStarter, Shared
from mmconv.service.datasets import NewDataset, OwnDataset
from mmconv.service.errors import Problem, json_response
from mmconv.service.jobs import require_unused
from mmconv.service.openapi import documented
from mmconv.service.requests import Word
from mmconv.service.run_requests import description, open_options
from mmconv.service.settings import NAME, DataSpec
from mmconv.service.state import Readable
from mmconv.store.jobs import Filter

router = APIRouter(prefix="/v1", tags=["catalogue"])


class DataList(BaseModel):
    """All datasets, in the operator's order."""

    data: tuple[DataSet, ...]


class PromptList(BaseModel):
    """All benchmarks whose judges can be called."""

    data: tuple[JudgingInfo, ...]


DataName = Annotated[str, Path(pattern=NAME)]
"""The name of a dataset, in a path."""

_FILE = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("/data", response_model=DataList)
async def list_data(shared: Shared, caller: Reader) -> Response:
    """List the datasets that runs may name, with conditions and options.

    These are the operator's, then those that the token sent, for an admin all.
    """
    return json_response({"data": await data_sets(shared, caller)})


@router.post(
    "/data",
    status_code=201,
    response_model=DataSet,
    responses=documented(415),
    openapi_extra=_FILE,
)
async def add_data(
    request: Request,
    shared: Shared,
    caller: RunStarter,
    benchmark: str,
    title: Annotated[Word | None, Query()] = None,
    generate_only: bool = False,
) -> Response:
    """Send a dataset, checked as `mmconv check` does; runs name it by its `name`.

    The body is a .jsonl, .json, .xlsx or .parquet file of records, or a .zip. The files in a .zip
    are named after the benchmark's options: `data.jsonl`, a folder `images`, `annotations.jsonl`.
    With `generate_only` the data need nothing that only a judge reads. An equal file is the same
    dataset. Only its token and admins see it and the runs of it.
    """
    if benchmark not in _with_data():
        message = f"benchmark: there are {', '.join(_with_data())}"
        raise Problem(400, message, param="benchmark")
    if request.headers.get("content-type", "").startswith("multipart/"):
        raise Problem(415, "send the file as the body, not as a form (curl --data-binary @FILE)")
    room = partial(shared.room, caller.name, caller.limits.stored_bytes)
    new = NewDataset(benchmark=benchmark, title=title, generate_only=generate_only)
    own = await shared.datasets.add(caller.name, new, request.stream(), room)
    return json_response(_own_info(own), 201)


@router.get("/data/{data}", response_model=DataSet, responses=documented(404))
async def get_data(data: DataName, shared: Shared, caller: Reader) -> Response:
    """Get one dataset."""
    if (own := shared.datasets.find(data, caller.as_owner)) is not None:
        return json_response(_own_info(own))
    if (spec := shared.settings.data.get(data)) is not None:
        return json_response(_info(data, spec))
    raise _no_data()


@router.delete("/data/{data}", status_code=204, responses=documented(404, 409))
async def remove_data(data: DataName, shared: Shared, caller: RunStarter) -> Response:
    """Remove a dataset that the token sent. Runs of it keep their results, without images.

    It is refused with 409 while a run of it is active.
    """
    if shared.datasets.find(data, caller.as_owner) is None:
        raise _no_data()
    await require_unused(shared, "data", f'"data":"{data}"', Filter(kind="run"))
    try:
        await asyncio.to_thread(shared.datasets.remove, data)
    except FileNotFoundError:
        raise _no_data() from None
    shared.forget_data(data)
    return Response(status_code=204)


@cache
def _with_data() -> tuple[str, ...]:
    """The benchmarks that read data; others make their own."""
    return tuple(name for name in CLASSES if "data" in file_options(description(name).options))


def _no_data() -> Problem:
    message = "no dataset of this name is here; GET /v1/data lists them"
    return Problem(404, message, param="data", code="data_not_found")


@router.get("/prompts", response_model=PromptList)
async def list_prompts(_caller: Asker) -> Response:
    """List what can be judged: the benchmarks with the fields of samples, options and prompts."""
    return json_response({"data": judged_benchmarks()})


async def data_sets(shared: Readable, caller: Caller) -> list[DataSet]:
    """The datasets that the caller's runs may name, as clients may see them."""
    own = await asyncio.to_thread(shared.own_data, caller.as_owner)
    configured = [_info(name, data) for name, data in shared.settings.data.items()]
    return [*configured, *map(_own_info, own)]


def _own_info(own: OwnDataset) -> DataSet:
    about = own.model_dump(include={"title", "owner", "samples", "bytes", "sent"})
    return replace(_info(own.id, own.spec), **about)


def _info(name: str, data: DataSpec) -> DataSet:
    known = description(data.benchmark)
    return DataSet(
        name=name,
        benchmark=_benchmark_name(data.benchmark),
        conditions=known.conditions,
        roles=known.roles,
        options=tuple(
            option for option in _options(data.benchmark) if option.name not in data.options
        ),
        about=_about(known.options),
    )


@cache
def judged_benchmarks() -> tuple[JudgingInfo, ...]:
    """What `/v1/judgements` accepts, benchmark by benchmark; those without a judge are left out."""
    kinds = {name: find_class(name) for name in CLASSES}
    return tuple(
        JudgingInfo(
            benchmark=_benchmark_name(name),
            conditions=description(name).conditions,
            sample=kind.sample_type.model_json_schema(),
            options=tuple(
                option for option in _options(name) if option.name not in Options.model_fields
            ),
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
