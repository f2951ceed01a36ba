"""`/web/...`: what the web page asks for beside the API: reports in parts, and samples one by one.

A finished run's parts, and those of a comparison, are made when they are asked for the first time
and kept as files. Of an unfinished run there is one sample at a time. None of it is promised to
other clients, so it stands in no public document; the fuzzing test adds it.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi import Path as InPath
from starlette.responses import FileResponse, Response

from mmconv import __version__
from mmconv.benchmarks.shared.options import display_of
from mmconv.core.keys import hash_json
from mmconv.core.plans import read_trial
from mmconv.engine.run import Evaluation
from mmconv.report.page.build import HEAD, block_name, write_parts
from mmconv.report.page.content import NOTHING, About, comparison_content, run_content
from mmconv.report.page.samples import reading_settings, shown_sample
from mmconv.service.access import Reader, Shared
from mmconv.service.docs.responses import documented
from mmconv.service.errors.problems import Problem, json_response
from mmconv.service.results.comparison import CompareQuery, compare_finished
from mmconv.service.results.derived_files import derived_file
from mmconv.service.results.live_samples import live_page, live_records
from mmconv.service.results.public_folder import result_times
from mmconv.service.results.run_files import read_in_thread
from mmconv.service.runs.lookup import (
    RunId,
    Sample,
    SampleQuery,
    about_run,
    find_run,
    finished_folder,
    readable_run,
)
from mmconv.service.runs.resources import Resources, RunResources
from mmconv.store.jobs import Job

router = APIRouter(prefix="/web", include_in_schema=False)

COMPARISONS_KEPT = 16
"""How many comparisons' parts are kept; making one anew takes seconds."""

Number = Annotated[int, InPath(ge=0, lt=2**31)]
"""The number of a block."""


@router.get("/runs/{run}", responses=documented(404, 409))
async def run_parts(run: RunId, resources: Resources, _caller: Reader) -> Response:
    """Give out a finished run's findings and the index of its samples."""
    return _part(await _run_folder(resources, run), HEAD)


@router.get("/runs/{run}/blocks/{number}", responses=documented(404, 409))
async def run_block(run: RunId, number: Number, resources: Resources, _caller: Reader) -> Response:
    """Give out some of a finished run's samples."""
    return _part(await _run_folder(resources, run), block_name(number))


@router.get("/runs/{run}/live", responses=documented(404, 409))
async def live_index(
    run: RunId,
    shared: Shared,
    resources: Resources,
    _caller: Reader,
    asked: Annotated[SampleQuery, Query()],
) -> Response:
    """List samples of an unfinished run as an index without scores, and the last if more follow."""
    job = await find_run(shared, run)
    evaluation = await readable_run(resources, job)
    found, following = await live_page(resources, evaluation, asked.after, asked.limit)
    settings = reading_settings(
        display_of(job.benchmark or ""), [job.model or ""], evaluation.benchmark.conditions
    )
    index = {"columns": [], "facets": [], "marks": [], "samples": [_listed(each) for each in found]}
    return json_response({"index": index | settings, "next": following})


@router.get("/runs/{run}/live/{sample:path}", responses=documented(404, 409))
async def live_sample(
    run: RunId, sample: Sample, shared: Shared, resources: Resources, _caller: Reader
) -> Response:
    """Give out one sample with what is answered by now."""
    job = await find_run(shared, run)
    evaluation = await readable_run(resources, job)
    found = await live_records(resources, evaluation, sample)
    if found is None:
        raise Problem(404, "no such sample in this run", param="sample")
    about = await asyncio.to_thread(_about, evaluation, sample)
    words = display_of(job.benchmark or "").verdict
    # What waits for an answer that is not there yet has nothing to show.
    calls = [call for call in found["calls"] if call["state"] != "skipped" or call["messages"]]
    return json_response(shown_sample(sample, [calls], words, about))


@router.get("/compare", responses=documented(404, 409))
async def comparison_parts(
    resources: Resources, _caller: Reader, asked: Annotated[CompareQuery, Query()]
) -> Response:
    """Give out what a comparison finds, and the index of all samples."""
    return _part(await _comparison_folder(resources, asked), HEAD)


@router.get("/compare/blocks/{number}", responses=documented(404, 409))
async def comparison_block(
    number: Number, resources: Resources, _caller: Reader, asked: Annotated[CompareQuery, Query()]
) -> Response:
    """Give out some samples, with every run's conversations."""
    return _part(await _comparison_folder(resources, asked), block_name(number))


async def _run_folder(resources: RunResources, run: str) -> Path:
    def write(parts: Path, about: About) -> None:
        write_parts(parts, run_content(parts.parent, about))

    return await derived_file(resources, run, f"parts-{__version__}", write)


async def _comparison_folder(resources: RunResources, asked: CompareQuery) -> Path:
    shared = resources.service
    jobs = [await find_run(shared, name) for name in asked.runs.split(",")]
    made_of = [[job.id, *result_times(finished_folder(shared, job))] for job in jobs]
    name = hash_json([__version__, made_of, sorted(asked.despite)])[:24]
    parts = shared.settings.out / "compared" / name
    if not parts.exists():
        async with resources.reporting:
            if not parts.exists():
                await _write_comparison(resources, asked, jobs, parts)
    return parts


async def _write_comparison(
    resources: RunResources, asked: CompareQuery, jobs: list[Job], parts: Path
) -> None:
    compared = await compare_finished(resources.service, asked)
    about = await about_run(resources, jobs[0]) or NOTHING

    def write() -> None:
        write_parts(parts, comparison_content(compared, about))
        _keep_newest(parts.parent)

    await read_in_thread(write)


def _keep_newest(folder: Path) -> None:
    """Remove the parts of all comparisons but the last few."""
    made = [path for path in folder.iterdir() if not path.name.startswith(".")]
    made.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in made[COMPARISONS_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)


def _part(folder: Path, name: str) -> Response:
    """A part, which lies there gzipped; every browser unpacks it."""
    path = folder / name
    if not path.exists():
        raise Problem(404, "no such part", param="number")
    headers = {"Content-Encoding": "gzip", "Cache-Control": "private, no-cache"}
    return FileResponse(path, media_type="application/json", headers=headers)


def _listed(told: dict[str, Any]) -> dict[str, Any]:
    """A sample of an unfinished run as its list shows it."""
    text = f"{told['replies']} of {told['calls']} calls answered"
    if told["failures"]:
        text += f", {told['failures']} failed"
    return {"i": told["sample"], "t": text, "s": [], "f": []}


def _about(evaluation: Evaluation, sample: str) -> About:
    """What the data say of one sample; all its trials are told the same."""
    benchmark, key = evaluation.benchmark, read_trial(sample).key
    for each in benchmark.load():
        if benchmark.key(each) == key:
            return {key: benchmark.about(each)}
    return {}
