"""`/v1/runs/{id}/...`: scores, tables, samples and images of a run.

Scores and tables are there when the run is done; samples at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import FileResponse, Response, StreamingResponse

from mmconv.answers import SampleTranscript
from mmconv.errors import InputError
from mmconv.evaluation import Evaluation
from mmconv.report.page.content import About
from mmconv.run_folder.layout import SCORES
from mmconv.service.access import Reader, Shared
from mmconv.service.desk import Desk, Runs
from mmconv.service.docs_answers import documented, kept
from mmconv.service.images import get_image, get_thumbnail
from mmconv.service.planned import planned_page, planned_sample
from mmconv.service.problems import Problem, json_response
from mmconv.service.run_faults import not_here, reading_data
from mmconv.service.run_files import (
    check_chosen,
    chosen_file,
    file_status,
    pieces,
    read_aside,
    render_tables,
    sample_page,
    sample_records,
    score_page,
)
from mmconv.service.run_requests import RunRequest
from mmconv.service.run_shapes import SampleList, ScoreList
from mmconv.service.run_work import open_run
from mmconv.service.runs import RunId, Word, find_run
from mmconv.service.state import Service
from mmconv.store.jobs import Job

router = APIRouter(prefix="/v1", tags=["runs"])

TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "tex": "text/x-tex; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
"""Format -> media type."""

Sample = Annotated[str, InPath(min_length=1, max_length=1000)]
"""A sample's name, in a path; it may hold slashes."""

ImageId = Annotated[str, InPath(pattern=r"^[0-9a-f]{64}$")]
"""The SHA-256 of an image's file, in a path."""


class ScoreQuery(BaseModel):
    """Which scores, in which format; JSON comes in pages, a file holds all that are chosen."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["json", "jsonl", "parquet"] = "json"
    sample: Word | None = None
    condition: Word | None = None
    metric: Word | None = None
    after: int = Field(default=0, ge=0, lt=2**62)
    limit: int = Field(default=1000, ge=1, le=10_000)

    @property
    def chosen(self) -> dict[str, str]:
        """The fields that a score must have."""
        given = {"sample": self.sample, "condition": self.condition, "metric": self.metric}
        return {name: value for name, value in given.items() if value is not None}


class TableQuery(BaseModel):
    """Which table, or all, in which format."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["json", "csv", "md", "tex"] = "json"
    table: Word | None = None


class SampleQuery(BaseModel):
    """Which samples: at most `limit`, behind the one named `after`."""

    model_config = ConfigDict(extra="forbid")

    after: Word | None = None
    limit: int = Field(default=100, ge=1, le=500)


def _given_as(*formats: str) -> dict[str, Any]:
    content: dict[str, Any] = {TYPES[name].split(";")[0]: {} for name in formats}
    return {"content": content, "description": "As asked."}


@router.get(
    "/runs/{run}/scores",
    response_model=ScoreList,
    responses=documented(404, 409) | kept(**_given_as("json", "jsonl", "parquet")),
)
async def run_scores(
    run: RunId, shared: Shared, _caller: Reader, asked: Annotated[ScoreQuery, Query()]
) -> Response:
    """Give out scores: in pages or as a file, all or chosen by sample, condition and metric."""
    if asked.format != "json" and (paged := asked.model_fields_set & {"after", "limit"}):
        name = min(paged)
        raise Problem(400, f"{name}: a file holds all that are chosen; leave it out", param=name)
    folder = finished_folder(shared, await find_run(shared, run))
    if asked.chosen:
        await read_aside(check_chosen, folder, asked.chosen)
    if asked.format != "json":
        return await _score_file(folder, run, asked.format, asked.chosen)
    found, following = await read_aside(score_page, folder, asked.chosen, asked.after, asked.limit)
    return json_response({"data": found, "next": following})


async def _score_file(
    folder: Path, run: str, form: Literal["jsonl", "parquet"], chosen: Mapping[str, str]
) -> Response:
    """The run's own file, or one of the chosen scores."""
    name = f"{run}-scores.{form}"
    if not chosen:
        whole = (folder / SCORES).with_suffix(f".{form}")
        status = await read_aside(file_status, whole)
        return FileResponse(whole, media_type=TYPES[form], filename=name, stat_result=status)
    file = await read_aside(chosen_file, folder, chosen, form)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(pieces(file), media_type=TYPES[form], headers=headers)


@router.get(
    "/runs/{run}/tables",
    response_class=Response,
    responses=documented(404, 409) | {200: _given_as("json", "csv", "md", "tex")},
)
async def run_tables(
    run: RunId, shared: Shared, _caller: Reader, asked: Annotated[TableQuery, Query()]
) -> Response:
    """Give out the run's tables, or one of them."""
    folder = finished_folder(shared, await find_run(shared, run))
    text = await read_aside(render_tables, folder, asked.table, asked.format)
    return Response(text, media_type=TYPES[asked.format])


@router.get("/runs/{run}/samples", response_model=SampleList, responses=documented(404, 409))
async def run_samples(
    run: RunId,
    shared: Shared,
    desk: Runs,
    _caller: Reader,
    asked: Annotated[SampleQuery, Query()],
) -> Response:
    """List samples and how far their calls are."""
    job = await find_run(shared, run)
    if job.state == "done":
        folder = finished_folder(shared, job)
        found = await read_aside(sample_page, folder, asked.after, asked.limit)
    else:
        evaluation = await readable_run(shared, desk, job)
        found = await planned_page(desk, evaluation, asked.after, asked.limit)
    return json_response({"data": found[0], "next": found[1]})


@router.get(
    "/runs/{run}/samples/{sample:path}",
    response_model=SampleTranscript,
    responses=documented(404, 409),
)
async def run_sample(
    run: RunId, sample: Sample, shared: Shared, desk: Runs, _caller: Reader, prompts: bool = False
) -> Response:
    """Tell what the models were sent and said; `prompts` adds judges' prompts, filled in."""
    job = await find_run(shared, run)
    if job.state == "done" and not prompts:
        folder = finished_folder(shared, job)
        found = await read_aside(sample_records, folder, sample)
    else:
        found = await planned_sample(desk, await readable_run(shared, desk, job), sample)
    if found is None:
        raise Problem(404, "no such sample in this run", param="sample")
    return json_response(found)


@router.get(
    "/runs/{run}/images/{image}",
    response_class=Response,
    responses={**documented(404, 409), 200: {"content": {"image/*": {}}, "description": "It."}},
)
async def run_image(
    run: RunId, image: ImageId, shared: Shared, desk: Runs, caller: Reader, small: bool = False
) -> Response:
    """Give out an image of the run's data by its SHA-256, or a small WebP of it."""
    # The library knows the images of data sets that were read since the server started.
    await readable_run(shared, desk, await find_run(shared, run))
    return await (get_thumbnail if small else get_image)(image, shared, caller)


async def about_run(shared: Service, desk: Desk, job: Job) -> About:
    """What a run's data say of its samples; nothing where they are there no more."""
    try:
        evaluation = await readable_run(shared, desk, job)
        return await asyncio.to_thread(evaluation.about)
    except (InputError, Problem):
        return {}


def finished_folder(shared: Service, job: Job) -> Path:
    """The folder of a run that was finished at least once; raises `Problem` 409."""
    if job.result is None:
        next_step = "wait for its end" if job.is_active else "post it again to have it finished"
        raise Problem(
            409,
            f"the run {job.id} is not done (it is {job.state}): {next_step}",
            param="run",
            code="not_finished",
        )
    folder = shared.settings.out / str(orjson.loads(job.result)["folder"])
    if not folder.is_dir():
        raise not_here(
            job, folder, "whoever runs them can give all servers one `out`, or put it back"
        )
    return folder


async def readable_run(shared: Service, desk: Desk, job: Job) -> Evaluation:
    """The run, ready to be read; raises `Problem` where what it names is there no more."""
    data = shared.settings.data.get(RunRequest.model_validate_json(job.spec).data)
    with reading_data(data.options if data else {}):
        return await open_run(shared.settings, desk.benchmarks, job)
