"""`/v1/runs/{id}/...`: scores, tables, transcripts, samples, images, reports.

Samples and images are available at any time, the rest when the run is done.
"""

from __future__ import annotations

import asyncio
import zipfile
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi import Path as InPath
from pydantic import BaseModel, Field
from starlette.responses import FileResponse, Response, StreamingResponse

from mmconv.api import (
    SampleInfo,
    SampleTranscript,
)
from mmconv.core.atomic_writes import atomic_write
from mmconv.report.page import write_page
from mmconv.report.page.content import About
from mmconv.report.writing import write_parquet
from mmconv.run_folder.layout import PAGE, SCORES, TRANSCRIPTS, Manifest
from mmconv.run_folder.transcripts import CallRecord, columns_of
from mmconv.service.access import Reader, SharedRuns
from mmconv.service.errors import Problem, json_response
from mmconv.service.images import ImageId, get_image, get_thumbnail
from mmconv.service.openapi import documented, with_etag
from mmconv.service.published import PARQUET, derived_file
from mmconv.service.requests import JsonRoute, Page, Word
from mmconv.service.run_files import (
    check_chosen,
    chosen_file,
    clean_manifest,
    file_status,
    live_page,
    live_records,
    pieces,
    read_in_thread,
    render_tables,
    sample_page,
    sample_records,
    score_page,
)
from mmconv.service.runs import (
    FoundRun,
    Sample,
    finished_folder,
    readable_data,
    readable_run,
)
from mmconv.service.state import Readable
from mmconv.store.jobs import Job

router = APIRouter(
    prefix="/v1", tags=["runs"], responses=documented(404, 409), route_class=JsonRoute
)

TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "tex": "text/x-tex; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
"""Format -> media type."""

PAGE_BYTES = 64_000_000
"""Bytes of texts and small images inside a report. Further samples are files beside it."""

BESIDE = Path(PAGE).with_suffix(".samples").name
"""The folder of those files, as the page names it."""

ARCHIVE = Path(PAGE).with_suffix(".zip").name


class ScoreQuery(BaseModel):
    """Which scores, in which format. JSON has pages, a file holds all that are chosen."""

    format: Literal["json", "jsonl", "parquet"] = "json"
    sample: Word | None = None
    condition: Word | None = None
    metric: Word | None = None
    after: int = Field(default=0, ge=0, lt=2**62)
    limit: int = Field(default=1000, ge=1, le=10_000)


def _formats(*names: str) -> dict[str, Any]:
    content: dict[str, Any] = {TYPES[name].split(";")[0]: {} for name in names}
    return {"content": content, "description": "In the requested format."}


@router.get(
    "/runs/{run}/scores",
    response_model=Page[dict[str, Any], int],
    responses=with_etag(**_formats("json", "jsonl", "parquet")),
)
async def run_scores(
    job: FoundRun, shared: SharedRuns, query: Annotated[ScoreQuery, Query()]
) -> Response:
    """Get scores in pages or as a file, optionally of one sample, condition or metric."""
    if query.format != "json" and (paged := query.model_fields_set & {"after", "limit"}):
        name = min(paged)
        raise Problem(400, f"{name}: a file holds all that are chosen; leave it out", param=name)
    folder = finished_folder(shared, job)
    chosen = query.model_dump(include={"sample", "condition", "metric"}, exclude_none=True)
    if chosen:
        await read_in_thread(check_chosen, folder, chosen)
    if query.format == "json":
        page = await read_in_thread(score_page, folder, chosen, query.after, query.limit)
        return json_response({"data": page[0], "next": page[1]})
    name = f"{job.id}-scores.{query.format}"
    if not chosen:
        return await _file((folder / SCORES).with_suffix(f".{query.format}"), query.format, name)
    file = await read_in_thread(chosen_file, folder, chosen, query.format)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(pieces(file), media_type=TYPES[query.format], headers=headers)


async def _file(path: Path, form: str, name: str) -> Response:
    status = await read_in_thread(file_status, path)
    return FileResponse(path, media_type=TYPES[form], filename=name, stat_result=status)


@router.get(
    "/runs/{run}/tables",
    response_class=Response,
    responses={200: _formats("json", "csv", "md", "tex")},
)
async def run_tables(
    job: FoundRun,
    shared: SharedRuns,
    form: Annotated[Literal["json", "csv", "md", "tex"], Query(alias="format")] = "json",
    table: Annotated[Word | None, Query()] = None,
) -> Response:
    """Get the run's tables, or one of them."""
    folder = finished_folder(shared, job)
    text = await read_in_thread(render_tables, folder, table, form)
    return Response(text, media_type=TYPES[form])


@router.get(
    "/runs/{run}/transcripts",
    response_class=Response,
    responses=with_etag(**_formats("jsonl", "parquet")),
)
async def run_transcripts(
    job: FoundRun,
    shared: SharedRuns,
    form: Annotated[Literal["jsonl", "parquet"], Query(alias="format")] = "jsonl",
) -> Response:
    """Get every call of the run with its messages and reply, in one file."""

    def write(target: Path, _about: About) -> None:
        write_parquet(target.with_name(TRANSCRIPTS), target, columns_of(CallRecord))

    name = TRANSCRIPTS if form == "jsonl" else PARQUET
    path = await derived_file(shared, job, name, write)
    return await _file(path, form, f"{job.id}-{name}")


@router.get("/runs/{run}/manifest", response_model=Manifest)
async def run_manifest(job: FoundRun, shared: SharedRuns) -> Response:
    """Get the run's provenance: models, data and prompts by their hashes, versions."""
    folder = finished_folder(shared, job)
    return json_response(await read_in_thread(clean_manifest, folder))


class SampleQuery(BaseModel):
    """Which samples: at most `limit`, after the one named `after`."""

    after: Word | None = None
    limit: int = Field(default=100, ge=1, le=500)


@router.get("/runs/{run}/samples", response_model=Page[SampleInfo, str])
async def run_samples(
    job: FoundRun, shared: SharedRuns, query: Annotated[SampleQuery, Query()]
) -> Response:
    """List samples with the numbers of their calls, replies and failures."""
    samples, following = await list_samples(shared, job, query)
    return json_response({"data": samples, "next": following})


async def list_samples(
    shared: Readable, job: Job, query: SampleQuery
) -> tuple[list[dict[str, Any]], str | None]:
    """Samples of a run, finished or not, and the last one if more follow. Raises `Problem`."""
    if job.state == "done":
        folder = finished_folder(shared, job)
        return await read_in_thread(sample_page, folder, query.after, query.limit)
    return await live_page(shared, await readable_run(shared, job), query.after, query.limit)


@router.get(
    "/runs/{run}/samples/{sample:path}",
    response_model=SampleTranscript,
)
async def run_sample(
    job: FoundRun, sample: Sample, shared: SharedRuns, prompts: bool = False
) -> Response:
    """Get the messages and replies of a sample; `prompts` adds judges' prompts, filled in."""
    return json_response(await read_sample(shared, job, sample, prompts))


async def read_sample(
    shared: Readable, job: Job, sample: str, prompts: bool = False
) -> dict[str, Any]:
    """One sample of a run, finished or not, with its calls and scores. Raises `Problem`."""
    if job.state == "done" and not prompts:
        folder = finished_folder(shared, job)
        return await read_in_thread(sample_records, folder, sample)
    return await live_records(shared, await readable_run(shared, job), sample)


@router.get(
    "/runs/{run}/images/{image}",
    response_class=Response,
    responses={200: {"content": {"image/*": {}}, "description": "It."}},
)
async def run_image(
    job: FoundRun,
    image: ImageId,
    shared: SharedRuns,
    caller: Reader,
    small: bool = False,
) -> Response:
    """Get an image of the run's data by its SHA-256, or a small WebP of it."""
    # The library knows the images of datasets that were read since the server started.
    await readable_data(shared, job)
    return await (get_thumbnail if small else get_image)(image, shared, caller)


@router.get(
    "/runs/{run}/report",
    response_class=FileResponse,
    responses=with_etag(content={"text/html": {}, "application/zip": {}}, description="It."),
)
async def run_report(
    job: FoundRun,
    shared: SharedRuns,
    form: Annotated[Literal["html", "zip"], Query(alias="format")] = "html",
) -> FileResponse:
    """Get the run's report as one HTML page.

    The page loads what exceeds it from `report.samples` beside it: samples beyond 64 MB of texts
    and small images, and larger images beyond 2 MB. Only an archive (`zip`) holds all of it, to be
    read without the server.
    """
    folder = await _report_folder(shared, job)
    if form == "html":
        return FileResponse(folder / PAGE, media_type="text/html; charset=utf-8")
    if not (folder / ARCHIVE).exists():
        async with shared.reporting:
            if not (folder / ARCHIVE).exists():
                await asyncio.to_thread(_write_archive, folder)
    name = f"{job.id}-report.zip"
    return FileResponse(folder / ARCHIVE, media_type="application/zip", filename=name)


@router.get(
    f"/runs/{{run}}/{BESIDE}/{{block}}",
    response_class=FileResponse,
    responses=with_etag(content={"text/javascript": {}}, description="It."),
)
async def run_report_block(
    job: FoundRun,
    block: Annotated[str, InPath(pattern=r"^[0-9]{1,9}\.js$")],
    shared: SharedRuns,
) -> FileResponse:
    """Get some of the samples beside a report, as its page loads them."""
    path = await _report_folder(shared, job) / BESIDE / block
    if not path.exists():
        raise Problem(404, "no such samples beside this report", param="block")
    return FileResponse(path, media_type="text/javascript; charset=utf-8")


async def _report_folder(shared: Readable, job: Job) -> Path:
    """The folder of a run's report, which is written if it does not exist."""

    def write(page: Path, about: About) -> None:
        # If the run's data is gone, the report has no images.
        write_page(page.parent, shared.images, about, block_bytes=PAGE_BYTES)

    return (await derived_file(shared, job, PAGE, write)).parent


def _write_archive(folder: Path) -> None:
    """Put the page and the files beside it into one file. All of it is compressed already."""
    beside = sorted((folder / BESIDE).glob("*.js"))
    with atomic_write(folder / ARCHIVE) as part, zipfile.ZipFile(part, "w") as archive:
        for path in (folder / PAGE, *beside):
            archive.write(path, path.relative_to(folder))
