"""`/web/...`: what the pages need besides the public API.

Form choices, parts of reports, and single samples. Parts are made on first request and kept as
files. None of this is promised to other clients, so no public document lists it.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query
from fastapi import Path as InPath
from pydantic import Field
from starlette.responses import FileResponse, Response

from mmconv import __version__
from mmconv.api import DataSet
from mmconv.benchmarks.base import Benchmark
from mmconv.benchmarks.options import display_of
from mmconv.core.config import ModelSpec
from mmconv.core.keys import hash_bytes, hash_json
from mmconv.core.plans import read_trial
from mmconv.report.comparison.leaderboard import RANK, Leaderboard, make_leaderboard
from mmconv.report.page.build import HEAD, block_name, write_parts
from mmconv.report.page.content import NOTHING, About, comparison_content, run_content
from mmconv.report.page.grids import grid
from mmconv.report.page.rendering import templates
from mmconv.report.page.samples import reading_settings, shown_sample
from mmconv.report.tables.cells import is_text, shared_notes
from mmconv.service.access import Asker, Reader, SharedRuns
from mmconv.service.catalogue import data_sets
from mmconv.service.errors import Problem, json_response
from mmconv.service.http.requests import QueryParameters, Word
from mmconv.service.http.responses import documented
from mmconv.service.models import has_key, is_offline, offline_judges
from mmconv.service.results.live_samples import live_page, live_records
from mmconv.service.results.published import derived_file, result_times
from mmconv.service.results.routes import (
    MOST_RUNS,
    CompareQuery,
    compare_finished,
    comparing,
    find_runs,
    list_samples,
    public_folders,
    read_sample,
)
from mmconv.service.results.run_files import read_in_thread
from mmconv.service.runs.execution import (
    RUN,
    RunId,
    Sample,
    SampleQuery,
    about_run,
    find_run,
    finished_folder,
    readable_data,
    readable_run,
)
from mmconv.service.settings import SCOPES
from mmconv.service.state import Readable
from mmconv.service.web.pages import FOLDER as ASSETS
from mmconv.service.web.rows import LISTED, run_rows
from mmconv.store.jobs import Filter, Job

router = APIRouter(prefix="/web", include_in_schema=False, responses=documented(404, 409))

MOST_RANKED = 64
"""How many runs are ranked at once."""

COMPARISONS_KEPT = 16
"""How many comparisons' parts are kept. Making them takes seconds."""

Number = Annotated[int, InPath(ge=0, lt=2**31)]
"""The number of a block."""


@router.get("/choices")
async def list_choices(shared: SharedRuns, caller: Asker) -> Response:
    """List the choices of the forms, and the scopes of the caller.

    `convbench_judges` are the models that judge by ConvBench's prompts only, `unusable` those that
    the server has no key for.
    """
    specs = shared.settings.models
    choices = {
        "models": list(specs),
        "convbench_judges": [name for name, spec in specs.items() if is_offline(spec)],
        "unusable": [name for name, spec in specs.items() if not has_key(spec)],
        "data": [
            _data_choices(specs, data) for data in data_sets(shared.settings) if caller.may("read")
        ],
        "caller": caller.name,
        # without models there is only something to read
        "scopes": [scope for scope in SCOPES if caller.may(scope)] if specs else ["read"],
    }
    return json_response(choices)


def _data_choices(specs: Mapping[str, ModelSpec], data: DataSet) -> dict[str, Any]:
    """The dataset with the options that a form can show.

    `judges` are the models that may judge a run of it, language models first; null if it needs no
    judge.
    """
    judges = sorted(specs, key=lambda name: is_offline(specs[name]))
    offline = offline_judges(data.benchmark.id)
    judges = [n for n in judges if specs[n].provider in offline or not is_offline(specs[n])]
    options = [
        {"name": option.name, "about": option.about, "default": option.default} | field
        for option in data.options
        if (field := _field(option.takes)) is not None
    ]
    return asdict(data) | {
        "judges": judges if "judge" in data.roles else None,
        "conditions": list(data.conditions),
        "options": options,
    }


def _field(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The kind of field that an option needs; None for an option that no field can show."""
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    field: dict[str, Any] | None = None
    match kinds:
        case [{"enum": values}]:
            field = {"kind": "choice", "values": values}
        case [{"type": "array", "items": {"enum": values}}, *_]:
            field = {"kind": "choices", "values": values}
        case [{"type": "boolean"}]:
            field = {"kind": "flag"}
        case [{"type": "integer" | "number" as kind}]:
            field = {"kind": "number", "step": 1 if kind == "integer" else "any"}
        case [{"type": "string"}]:
            field = {"kind": "text"}
    return field


@router.get("/runs")
async def list_runs(shared: SharedRuns, _caller: Reader) -> Response:
    """List runs with their headline numbers, newest first."""
    jobs = await shared.queue.page(Filter(kind=RUN), limit=LISTED)
    body = orjson.dumps({"data": await asyncio.to_thread(run_rows, shared, jobs)})
    headers = {"ETag": f'"{hash_bytes(body)[:16]}"', "Cache-Control": "private, no-cache"}
    return Response(body, headers=headers, media_type="application/json")


@router.get("/runs/{run}")
async def run_parts(run: RunId, shared: SharedRuns, _caller: Reader) -> Response:
    """Get a finished run's findings and the index of its samples."""
    return _part(await _run_folder(shared, run), HEAD)


@router.get("/runs/{run}/blocks/{number}")
async def run_block(run: RunId, number: Number, shared: SharedRuns, _caller: Reader) -> Response:
    """Get some of a finished run's samples."""
    return _part(await _run_folder(shared, run), block_name(number))


@router.get("/runs/{run}/live")
async def live_index(
    run: RunId,
    shared: SharedRuns,
    _caller: Reader,
    asked: Annotated[SampleQuery, Query()],
) -> Response:
    """List samples of an unfinished run as an index without scores, and the last if more follow."""
    job = await find_run(shared, run)
    evaluation = await readable_run(shared, job)
    samples, following = await live_page(shared, evaluation, asked.after, asked.limit)
    settings = reading_settings(
        display_of(job.benchmark or ""), [job.model or ""], evaluation.benchmark.conditions
    )
    rows = [_index_row(sample) for sample in samples]
    index = {"columns": [], "facets": [], "marks": [], "samples": rows}
    return json_response({"index": index | settings, "next": following})


@router.get("/runs/{run}/live/{sample:path}")
async def live_sample(run: RunId, sample: Sample, shared: SharedRuns, _caller: Reader) -> Response:
    """Get one sample with the replies so far."""
    job = await find_run(shared, run)
    evaluation = await readable_run(shared, job)
    records = await live_records(shared, evaluation, sample)
    about = await asyncio.to_thread(_about_sample, evaluation.benchmark, sample)
    words = display_of(job.benchmark or "").verdict
    return json_response(shown_sample(sample, [_begun(records["calls"])], words, about))


def _begun(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls without those that wait for another call's reply: they have nothing to show."""
    return [call for call in calls if call["state"] != "skipped" or call["messages"]]


def _index_row(sample: Mapping[str, Any]) -> dict[str, Any]:
    text = f"{sample['replies']} of {sample['calls']} calls answered"
    if sample["failures"]:
        text += f", {sample['failures']} failed"
    return {"i": sample["sample"], "t": text, "s": [], "f": []}


def _about_sample(benchmark: Benchmark[Any, Any], name: str) -> About:
    """What the data says of one sample; the same for all its trials."""
    key = read_trial(name).key
    for sample in benchmark.load():
        if sample.id == key:
            return {key: benchmark.metadata(sample)}
    return {}


class BoardQuery(QueryParameters):
    """Ids of runs separated by commas, the column that ranks them, and what else may differ."""

    runs: Annotated[str, Field(pattern=r"^[A-Za-z0-9._,-]{1,8500}$")]
    sort: Word | None = None
    despite: list[Literal["data", "judge", "prompts"]] = Field(default_factory=list, max_length=3)


class SamplesQuery(SampleQuery):
    """Runs by their ids, separated by commas, and which of the first one's samples."""

    runs: Annotated[str, Field(pattern=r"^[A-Za-z0-9._,-]{1,2100}$")]


@router.get("/samples")
async def samples_index(
    shared: SharedRuns, _caller: Reader, asked: Annotated[SamplesQuery, Query()]
) -> Response:
    """List the first run's samples as an index without scores, to show several runs side by side.

    Unlike a comparison, this needs no finished runs, and no runs that are alike.
    """
    jobs = await find_runs(shared, asked.runs, MOST_RUNS)
    first = jobs[0]
    samples, following = await list_samples(shared, first, asked)
    names = Counter(job.model for job in jobs)
    labels = [f"{job.model} ({job.id})" if names[job.model] > 1 else str(job.model) for job in jobs]
    conditions = [name for sample in samples for name in sample["conditions"]]
    settings = reading_settings(display_of(first.benchmark or ""), labels, conditions)
    rows = [_index_row(sample) for sample in samples]
    index = {"columns": [], "facets": [], "marks": [], "samples": rows}
    return json_response({"index": index | settings, "next": following})


@router.get("/samples/{sample:path}")
async def sample_beside(
    sample: Sample, shared: SharedRuns, _caller: Reader, asked: Annotated[SamplesQuery, Query()]
) -> Response:
    """Get one sample with the conversations of all runs that have it, as far as they are."""
    jobs = await find_runs(shared, asked.runs, MOST_RUNS)
    calls = [await _calls_of(shared, job, sample) for job in jobs]
    words = display_of(jobs[0].benchmark or "").verdict
    about = NOTHING
    with suppress(Problem):  # the data may be gone
        benchmark = await readable_data(shared, jobs[0])
        about = await asyncio.to_thread(_about_sample, benchmark, sample)
    return json_response(shown_sample(sample, calls, words, about))


async def _calls_of(shared: Readable, job: Job, sample: str) -> list[dict[str, Any]]:
    """The calls of a sample; none if the run does not have it."""
    try:
        records = await read_sample(shared, job, sample)
    except Problem as problem:
        if problem.status == 404:
            return []
        raise
    return _begun(records["calls"])


@router.get("/leaderboard")
async def leaderboard(
    shared: SharedRuns, _caller: Reader, asked: Annotated[BoardQuery, Query()]
) -> Response:
    """Get the tables of a leaderboard as HTML, and the columns that may sort it."""
    folders = await public_folders(shared, asked.runs, MOST_RANKED)
    times = [result_times(folder) for folder in folders]
    key = hash_json([asked.model_dump(), times])
    if key not in shared.boards:
        async with shared.reporting:
            with comparing():
                board = await read_in_thread(
                    make_leaderboard, folders, sort=asked.sort, despite=asked.despite
                )
        shared.boards[key] = await asyncio.to_thread(_show_board, board)
        while len(shared.boards) > COMPARISONS_KEPT:
            del shared.boards[next(iter(shared.boards))]
    return Response(shared.boards[key], media_type="application/json")


def _show_board(board: Leaderboard) -> bytes:
    shared = [note for note in shared_notes(board.tables) if note not in board.warnings]
    known = {*board.warnings, *shared}
    html = (
        templates(ASSETS)
        .get_template("board.html.j2")
        .render(
            warnings=board.brief,
            grids=[
                (grid(table, notes=()), [note for note in table.notes if note not in known])
                for table in board.tables
            ],
            shared=shared,
        )
    )
    columns = {
        name: None
        for table in board.tables
        for name in table.columns
        if name != RANK and not is_text(table, name)
    }
    runs = {label: row["run"].value for label, row in board.tables[-1].rows.items() if "run" in row}
    return orjson.dumps({"html": html, "columns": [*columns], "runs": runs})


@router.get("/compare")
async def comparison_parts(
    shared: SharedRuns, _caller: Reader, asked: Annotated[CompareQuery, Query()]
) -> Response:
    """Get a comparison's findings, and the index of all samples."""
    return _part(await _comparison_folder(shared, asked), HEAD)


@router.get("/compare/blocks/{number}")
async def comparison_block(
    number: Number, shared: SharedRuns, _caller: Reader, asked: Annotated[CompareQuery, Query()]
) -> Response:
    """Get some samples, with the conversations of all runs."""
    return _part(await _comparison_folder(shared, asked), block_name(number))


async def _run_folder(shared: Readable, run: str) -> Path:
    def write(parts: Path, about: About) -> None:
        write_parts(parts, run_content(parts.parent, about))

    return await derived_file(shared, run, f"parts-{__version__}", write)


async def _comparison_folder(shared: Readable, asked: CompareQuery) -> Path:
    jobs = [await find_run(shared, name) for name in asked.runs.split(",")]
    versions = [[job.id, *result_times(finished_folder(shared, job))] for job in jobs]
    name = hash_json([__version__, versions, sorted(asked.despite)])[:24]
    parts = shared.derived / "compared" / name
    if not parts.exists():
        async with shared.reporting:
            if not parts.exists():
                await _write_comparison(shared, asked, jobs, parts)
    return parts


async def _write_comparison(
    shared: Readable, asked: CompareQuery, jobs: list[Job], parts: Path
) -> None:
    compared = await compare_finished(shared, asked)
    about = await about_run(shared, jobs[0]) or NOTHING

    def write() -> None:
        write_parts(parts, comparison_content(compared, about))
        folders = [path for path in parts.parent.iterdir() if not path.name.startswith(".")]
        folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in folders[COMPARISONS_KEPT:]:
            shutil.rmtree(path, ignore_errors=True)

    await read_in_thread(write)


def _part(folder: Path, name: str) -> Response:
    """A part of a report. It is stored gzipped, and the browser decompresses it."""
    path = folder / name
    if not path.exists():
        raise Problem(404, "no such part", param="number")
    headers = {"Content-Encoding": "gzip", "Cache-Control": "private, no-cache"}
    return FileResponse(path, media_type="application/json", headers=headers)
