"""`/v1/runs/{id}/...`: scores, tables, transcripts, manifest, samples and images of a run.

Samples and images are there at any time, the others when the run is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import FileResponse, Response, StreamingResponse

from mmconv.answers import SampleInfo, SampleTranscript
from mmconv.report.page.content import About
from mmconv.report.writing import columns_of, write_parquet
from mmconv.run_folder.layout import SCORES, TRANSCRIPTS, Manifest
from mmconv.run_folder.transcripts import CallRecord
from mmconv.service.access import Reader, Shared
from mmconv.service.docs.responses import documented, with_etag
from mmconv.service.errors.problems import Problem, json_response
from mmconv.service.http.query_parameters import QueryParameters, Word
from mmconv.service.images.routes import ImageId, get_image, get_thumbnail
from mmconv.service.results.derived_files import derived_file
from mmconv.service.results.live_samples import live_page, live_records
from mmconv.service.results.public_folder import PARQUET
from mmconv.service.results.run_files import (
    check_chosen,
    chosen_file,
    clean_manifest,
    file_status,
    pieces,
    read_in_thread,
    render_tables,
    sample_page,
    sample_records,
    score_page,
)
from mmconv.service.runs.lookup import (
    RunId,
    Sample,
    SampleQuery,
    find_run,
    finished_folder,
    readable_run,
)
from mmconv.service.runs.resources import Resources

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


class ScoreList(BaseModel):
    """Scores in the run's order; `next` is the `after` of the following page, or null."""

    data: list[dict[str, Any]]
    next: int | None


class SampleList(BaseModel):
    """Samples in the run's order; `next` is the `after` of the following page, or null."""

    data: list[SampleInfo]
    next: str | None


class ScoreQuery(QueryParameters):
    """Which scores, in which format; JSON comes in pages, a file holds all that are chosen."""

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


class TranscriptQuery(QueryParameters):
    """In which format to give out transcripts."""

    format: Literal["jsonl", "parquet"] = "jsonl"


class TableQuery(QueryParameters):
    """Which table, or all, in which format."""

    format: Literal["json", "csv", "md", "tex"] = "json"
    table: Word | None = None


def _given_as(*formats: str) -> dict[str, Any]:
    content: dict[str, Any] = {TYPES[name].split(";")[0]: {} for name in formats}
    return {"content": content, "description": "As asked."}


@router.get(
    "/runs/{run}/scores",
    response_model=ScoreList,
    responses=documented(404, 409) | with_etag(**_given_as("json", "jsonl", "parquet")),
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
        await read_in_thread(check_chosen, folder, asked.chosen)
    if asked.format != "json":
        return await _score_file(folder, run, asked.format, asked.chosen)
    found, following = await read_in_thread(
        score_page, folder, asked.chosen, asked.after, asked.limit
    )
    return json_response({"data": found, "next": following})


async def _score_file(
    folder: Path, run: str, form: Literal["jsonl", "parquet"], chosen: Mapping[str, str]
) -> Response:
    """The run's own file, or one of the chosen scores."""
    name = f"{run}-scores.{form}"
    if not chosen:
        whole = (folder / SCORES).with_suffix(f".{form}")
        status = await read_in_thread(file_status, whole)
        return FileResponse(whole, media_type=TYPES[form], filename=name, stat_result=status)
    file = await read_in_thread(chosen_file, folder, chosen, form)
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
    text = await read_in_thread(render_tables, folder, asked.table, asked.format)
    return Response(text, media_type=TYPES[asked.format])


@router.get(
    "/runs/{run}/transcripts",
    response_class=Response,
    responses=documented(404, 409) | with_etag(**_given_as("jsonl", "parquet")),
)
async def run_transcripts(
    run: RunId, resources: Resources, _caller: Reader, asked: Annotated[TranscriptQuery, Query()]
) -> Response:
    """Give out every call of the run as it was sent and came back, in one file."""

    def write(target: Path, _about: About) -> None:
        write_parquet(target.with_name(TRANSCRIPTS), target, columns_of(CallRecord))

    name = TRANSCRIPTS if asked.format == "jsonl" else PARQUET
    path = await derived_file(resources, run, name, write)
    status = await read_in_thread(file_status, path)
    return FileResponse(
        path, media_type=TYPES[asked.format], filename=f"{run}-{name}", stat_result=status
    )


@router.get("/runs/{run}/manifest", response_model=Manifest, responses=documented(404, 409))
async def run_manifest(run: RunId, shared: Shared, _caller: Reader) -> Response:
    """Tell with what the run was made: models, data and prompts by their hashes, versions."""
    folder = finished_folder(shared, await find_run(shared, run))
    return json_response(await read_in_thread(clean_manifest, folder))


@router.get("/runs/{run}/samples", response_model=SampleList, responses=documented(404, 409))
async def run_samples(
    run: RunId,
    shared: Shared,
    resources: Resources,
    _caller: Reader,
    asked: Annotated[SampleQuery, Query()],
) -> Response:
    """List samples and how far their calls are."""
    job = await find_run(shared, run)
    if job.state == "done":
        folder = finished_folder(shared, job)
        found = await read_in_thread(sample_page, folder, asked.after, asked.limit)
    else:
        evaluation = await readable_run(resources, job)
        found = await live_page(resources, evaluation, asked.after, asked.limit)
    return json_response({"data": found[0], "next": found[1]})


@router.get(
    "/runs/{run}/samples/{sample:path}",
    response_model=SampleTranscript,
    responses=documented(404, 409),
)
async def run_sample(
    run: RunId,
    sample: Sample,
    shared: Shared,
    resources: Resources,
    _caller: Reader,
    prompts: bool = False,
) -> Response:
    """Tell what the models were sent and said; `prompts` adds judges' prompts, filled in."""
    job = await find_run(shared, run)
    if job.state == "done" and not prompts:
        folder = finished_folder(shared, job)
        found = await read_in_thread(sample_records, folder, sample)
    else:
        found = await live_records(resources, await readable_run(resources, job), sample)
    if found is None:
        raise Problem(404, "no such sample in this run", param="sample")
    return json_response(found)


@router.get(
    "/runs/{run}/images/{image}",
    response_class=Response,
    responses={**documented(404, 409), 200: {"content": {"image/*": {}}, "description": "It."}},
)
async def run_image(
    run: RunId,
    image: ImageId,
    shared: Shared,
    resources: Resources,
    caller: Reader,
    small: bool = False,
) -> Response:
    """Give out an image of the run's data by its SHA-256, or a small WebP of it."""
    # The library knows the images of data sets that were read since the server started.
    await readable_run(resources, await find_run(shared, run), other_models=True)
    return await (get_thumbnail if small else get_image)(image, shared, caller)
