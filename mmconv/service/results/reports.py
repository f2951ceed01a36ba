"""`/v1/runs/{id}/report`: a finished run as one HTML page, and what of a large run lies beside it.

The page is made when it is asked for the first time, and kept as a file.
"""

from __future__ import annotations

import asyncio
import zipfile
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi import Path as InPath
from starlette.responses import FileResponse

from mmconv.core.atomic_writes import atomic_write
from mmconv.report.page import write_page
from mmconv.report.page.content import About
from mmconv.run_folder.layout import PAGE
from mmconv.service.access import Reader
from mmconv.service.docs.responses import documented, with_etag
from mmconv.service.errors.problems import Problem
from mmconv.service.http.query_parameters import QueryParameters
from mmconv.service.results.derived_files import derived_file
from mmconv.service.runs.lookup import RunId
from mmconv.service.runs.resources import Resources, RunResources

router = APIRouter(prefix="/v1", tags=["runs"])

PAGE_BYTES = 64_000_000
"""What texts and small pictures may take inside a report; samples beyond that lie beside it."""

BESIDE = Path(PAGE).with_suffix(".samples").name
"""The folder that they lie in, by its name in the page."""

ARCHIVE = Path(PAGE).with_suffix(".zip").name

Block = Annotated[str, InPath(pattern=r"^[0-9]{1,9}\.js$")]
"""The name of a file of samples."""


class ReportQuery(QueryParameters):
    """The page alone, or an archive of it and of what lies beside it."""

    format: Literal["html", "zip"] = "html"


@router.get(
    "/runs/{run}/report",
    response_class=FileResponse,
    responses={
        **documented(404, 409),
        **with_etag(content={"text/html": {}, "application/zip": {}}, description="It."),
    },
)
async def run_report(
    run: RunId, resources: Resources, _caller: Reader, asked: Annotated[ReportQuery, Query()]
) -> FileResponse:
    """Give out the run's report as one HTML page.

    What exceeds the page, it loads from `report.samples` beside it: samples beyond 64 MB of texts
    and small pictures, and larger pictures beyond 2 MB. Only an archive (`zip`) holds all, to be
    looked at without the server.
    """
    folder = await _report_folder(resources, run)
    if asked.format == "html":
        return FileResponse(folder / PAGE, media_type="text/html; charset=utf-8")
    if not (folder / ARCHIVE).exists():
        async with resources.reporting:
            if not (folder / ARCHIVE).exists():
                await asyncio.to_thread(_write_archive, folder)
    name = f"{run}-report.zip"
    return FileResponse(folder / ARCHIVE, media_type="application/zip", filename=name)


@router.get(
    f"/runs/{{run}}/{BESIDE}/{{block}}",
    response_class=FileResponse,
    responses={
        **documented(404, 409),
        **with_etag(content={"text/javascript": {}}, description="It."),
    },
)
async def run_report_block(
    run: RunId, block: Block, resources: Resources, _caller: Reader
) -> FileResponse:
    """Give out some of the samples that lie beside a report, as the page loads them."""
    path = await _report_folder(resources, run) / BESIDE / block
    if not path.exists():
        raise Problem(404, "no such samples lie beside this report", param="block")
    return FileResponse(path, media_type="text/javascript; charset=utf-8")


async def _report_folder(resources: RunResources, run: str) -> Path:
    """The folder of a run's report, which is made where it is not there."""

    def write(page: Path, about: About) -> None:
        # Where the run's data are there no more, it has no pictures.
        write_page(page.parent, resources.service.pictures, about, block_bytes=PAGE_BYTES)

    return (await derived_file(resources, run, PAGE, write)).parent


def _write_archive(folder: Path) -> None:
    """Put the page and what lies beside it into one file; all of it is compressed already."""
    beside = sorted((folder / BESIDE).glob("*.js"))
    with atomic_write(folder / ARCHIVE) as part, zipfile.ZipFile(part, "w") as archive:
        for path in (folder / PAGE, *beside):
            archive.write(path, path.relative_to(folder))
