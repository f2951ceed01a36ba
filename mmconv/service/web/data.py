"""`/web/...`: what the pages need besides the public API.

Form choices, parts of reports, and single samples. Parts are made on first request and kept as
files. None of this is promised to other clients, so no public document lists it.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query
from fastapi import Path as InPath
from pydantic import Field
from starlette.responses import FileResponse, Response

from mmconv import __version__
from mmconv.api import DataSet
from mmconv.benchmarks.base import Benchmark
from mmconv.benchmarks.base.compare import BoardPart, find_boards
from mmconv.benchmarks.options import display_of
from mmconv.benchmarks.registry import title_of
from mmconv.core.config import CANDIDATE, ModelSpec, RunSpec
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.keys import hash_bytes, hash_json
from mmconv.core.plans import read_trial
from mmconv.core.types import Table
from mmconv.report.comparison.differences import Comparison
from mmconv.report.comparison.leaderboard import RANK, Leaderboard
from mmconv.report.page.build import HEAD, block_name, write_parts
from mmconv.report.page.charts import COLOURS, Plot
from mmconv.report.page.content import NOTHING, About, comparison_content, run_content
from mmconv.report.page.curves import curves_of_runs
from mmconv.report.page.grids import grid, shown
from mmconv.report.page.rendering import templates
from mmconv.report.page.samples import reading_settings, shown_sample
from mmconv.report.tables.cells import is_text, shared_notes
from mmconv.run_folder.layout import SPEC, TABLES
from mmconv.run_folder.saved_run import INDEX, read_names, read_spec, read_table
from mmconv.service.access import Asker, Caller, Reader, SharedRuns
from mmconv.service.catalogue import data_sets
from mmconv.service.comparisons import (
    MOST_RUNS,
    CompareQuery,
    RankQuery,
    compare_finished,
    find_runs,
    rank_finished,
)
from mmconv.service.errors import Problem, json_response
from mmconv.service.openapi import documented
from mmconv.service.published import derived_file, result_times
from mmconv.service.results import SampleQuery, list_samples, read_sample
from mmconv.service.run_files import describe_damage, read_in_thread
from mmconv.service.run_requests import has_key, is_offline, offline_judges
from mmconv.service.runs import (
    FoundRun,
    Sample,
    about_run,
    finished_folder,
    readable_data,
    run_folder,
    run_info,
    visible_runs,
)
from mmconv.service.settings import SCOPES
from mmconv.service.state import Readable
from mmconv.service.web.pages import FOLDER as ASSETS
from mmconv.store.jobs import Job

router = APIRouter(prefix="/web", include_in_schema=False, responses=documented(404, 409))

COMPARISONS_KEPT = 16
"""How many comparisons' parts are kept. Making them takes seconds."""

Number = Annotated[int, InPath(ge=0, lt=2**31)]
"""The number of a block."""


@router.get("/choices")
async def list_choices(shared: SharedRuns, caller: Asker) -> Response:
    """List the choices of the forms, and the scopes of the caller.

    `convbench_judges` are the models that judge by ConvBench's prompts only, `unusable` those that
    the server has no key for. `annotates`: the caller may write notes on its runs.
    """
    specs = shared.settings.models
    choices = {
        "models": list(specs),
        "convbench_judges": [name for name, spec in specs.items() if is_offline(spec)],
        "unusable": [name for name, spec in specs.items() if not has_key(spec)],
        "data": [
            _data_choices(specs, data)
            for data in await data_sets(shared, caller)
            if caller.may("read")
        ],
        "caller": caller.name,
        # without models there is only something to read
        "scopes": [scope for scope in SCOPES if caller.may(scope)] if specs else ["read"],
        "annotates": caller.may("run"),
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
async def list_runs(shared: SharedRuns, caller: Reader) -> Response:
    """List runs with their headline numbers, newest first."""
    jobs = await shared.queue.page(visible_runs(caller), limit=LISTED)
    body = orjson.dumps({"data": await asyncio.to_thread(run_rows, shared, jobs)})
    headers = {"ETag": f'"{hash_bytes(body)[:16]}"', "Cache-Control": "private, no-cache"}
    return Response(body, headers=headers, media_type="application/json")


@router.get("/runs/{run}")
async def run_parts(job: FoundRun, shared: SharedRuns) -> Response:
    """Get a finished run's findings and the index of its samples."""
    return _part(await _run_folder(shared, job), HEAD)


@router.get("/runs/{run}/blocks/{number}")
async def run_block(job: FoundRun, number: Number, shared: SharedRuns) -> Response:
    """Get some of a finished run's samples."""
    return _part(await _run_folder(shared, job), block_name(number))


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


class SamplesQuery(SampleQuery):
    """Runs by their ids, separated by commas, and which of the first one's samples."""

    runs: Annotated[str, Field(pattern=r"^[A-Za-z0-9._,-]{1,2100}$")]


@router.get("/samples")
async def samples_index(
    shared: SharedRuns, caller: Reader, query: Annotated[SamplesQuery, Query()]
) -> Response:
    """List the first run's samples as an index without scores, to show runs side by side.

    Unlike a report or a comparison, this needs no finished runs, and no runs that are alike.
    """
    jobs = await find_runs(shared, caller, query.runs, MOST_RUNS, least=1)
    first = jobs[0]
    samples, following = await list_samples(shared, first, query)
    names = Counter(job.model for job in jobs)
    labels = [f"{job.model} ({job.id})" if names[job.model] > 1 else str(job.model) for job in jobs]
    conditions = [name for sample in samples for name in sample["conditions"]]
    settings = reading_settings(display_of(first.benchmark or ""), labels, conditions)
    rows = [_index_row(sample) for sample in samples]
    index = {"columns": [], "facets": [], "marks": [], "samples": rows}
    return json_response({"index": index | settings, "next": following})


@router.get("/samples/{sample:path}")
async def sample_beside(
    sample: Sample, shared: SharedRuns, caller: Reader, query: Annotated[SamplesQuery, Query()]
) -> Response:
    """Get one sample with the conversations of all runs that have it, as far as they are."""
    jobs = await find_runs(shared, caller, query.runs, MOST_RUNS, least=1)
    calls: list[list[dict[str, Any]]] = []
    for job in jobs:
        try:
            records = await read_sample(shared, job, sample)
        except Problem as problem:
            if problem.status != 404 or len(jobs) == 1:
                raise
            records = {"calls": []}
        # calls that wait for another call's reply have nothing to show
        begun = (
            call for call in records["calls"] if call["state"] != "skipped" or call["messages"]
        )
        calls.append([*begun])
    about = NOTHING
    with suppress(Problem):  # the data may be gone
        benchmark = await readable_data(shared, jobs[0])
        about = await asyncio.to_thread(_about_sample, benchmark, sample)
    return json_response(
        shown_sample(sample, calls, display_of(jobs[0].benchmark or "").verdict, about)
    )


@router.get("/leaderboard")
async def leaderboard(
    shared: SharedRuns, caller: Reader, query: Annotated[RankQuery, Query()]
) -> Response:
    """Get the tables of a leaderboard as HTML, and the columns that may sort it."""
    board = await rank_finished(shared, caller, query)
    return Response(await asyncio.to_thread(_show_board, board), media_type="application/json")


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
            plots=_curves(board),
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


def _curves(board: Leaderboard) -> list[Plot]:
    """The curves of the best runs, as many as there are colours."""
    runs = {run.label: run for run in board.runs}
    best = [runs[label] for label in board.tables[0].rows if label in runs][: len(COLOURS)]
    pictures = curves_of_runs(best, display_of(best[0].spec.benchmark)) if best else []
    return [curve.plot() for curve in pictures if curve.axis.line is not None]


@router.get("/compare")
async def comparison_parts(
    shared: SharedRuns, caller: Reader, query: Annotated[CompareQuery, Query()]
) -> Response:
    """Get a comparison's findings, and the index of all samples."""
    return _part(await _comparison_folder(shared, caller, query), HEAD)


@router.get("/compare/blocks/{number}")
async def comparison_block(
    number: Number, shared: SharedRuns, caller: Reader, query: Annotated[CompareQuery, Query()]
) -> Response:
    """Get some samples, with the conversations of all runs."""
    return _part(await _comparison_folder(shared, caller, query), block_name(number))


async def _run_folder(shared: Readable, job: Job) -> Path:
    def write(parts: Path, about: About) -> None:
        write_parts(parts, run_content(parts.parent, about))

    return await derived_file(shared, job, f"parts-{__version__}", write)


async def _comparison_folder(shared: Readable, caller: Caller, query: CompareQuery) -> Path:
    jobs = await find_runs(shared, caller, query.runs, MOST_RUNS)
    versions = [[job.id, *result_times(finished_folder(shared, job))] for job in jobs]
    name = hash_json([__version__, versions, sorted(query.despite)])[:24]
    parts = shared.derived / "compared" / name
    if not parts.exists():
        async with shared.reporting:
            if not parts.exists():
                compared = await compare_finished(shared, jobs, query.despite)
                about = await about_run(shared, jobs[0]) or NOTHING
                await read_in_thread(_write_comparison, parts, compared, about)
    return parts


def _write_comparison(parts: Path, compared: Comparison, about: About) -> None:
    """Write a comparison's parts, and remove the oldest of other comparisons."""
    write_parts(parts, comparison_content(compared, about))
    folders = [path for path in parts.parent.iterdir() if not path.name.startswith(".")]
    folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in folders[COMPARISONS_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)


def _part(folder: Path, name: str) -> Response:
    """A part of a report. It is stored gzipped, and the browser decompresses it."""
    path = folder / name
    if not path.exists():
        raise Problem(404, "no such part", param="number")
    headers = {"Content-Encoding": "gzip", "Cache-Control": "private, no-cache"}
    return FileResponse(path, media_type="application/json", headers=headers)


log = logging.getLogger(__name__)

LISTED = 2000
"""How many runs are listed at most, the newest."""

CACHED = 4 * LISTED
"""How many runs' numbers are cached, each some kilobytes of JSON."""


def run_rows(shared: Readable, jobs: list[Job]) -> list[dict[str, Any]]:
    """A row for each run. Blocks: it reads the tables of runs whose numbers are not cached."""
    return [_row(shared, job) for job in jobs]


def _row(shared: Readable, job: Job) -> dict[str, Any]:
    row = run_info(shared, job) | {"title": title_of(job.benchmark or ""), "numbers": []}
    folder = run_folder(shared, job)
    if folder is None or job.result is None:
        return row
    try:
        times = [(folder / name).stat().st_mtime_ns for name in (SPEC, f"{TABLES}/{INDEX}")]
        return row | {"numbers": orjson.Fragment(_numbers(folder, *times))}
    except DataError as error:
        log.warning("a run's numbers cannot be read: %s", error)
        return row | {"error": describe_damage(error)}
    except (OSError, ConfigError):
        # a run that is resumed has no tables, and one may be deleted at any time
        return row


@lru_cache(maxsize=CACHED)
def _numbers(folder: Path, _specified: int, _tabulated: int) -> bytes:
    """The run's boards as JSON: a list of `title` and `columns`, by name.

    A column has the value, and as texts the value, its interval, the counts and what is missing.
    """
    spec = read_spec(folder)
    tables = _Tables(folder / TABLES)
    parts = (part for board in find_boards(spec, [tables]) for part in board.parts)
    boards = ({"title": p.title, "columns": dict(_columns(p, tables, spec))} for p in parts)
    return orjson.dumps([board for board in boards if board["columns"]])


def _columns(
    part: BoardPart, tables: Mapping[str, Table], spec: RunSpec
) -> Iterator[tuple[str, list[Any]]]:
    for name, place in part.columns.items():
        cell = place.find(tables, spec.models[CANDIDATE].label)
        if cell and (texts := shown(cell, tables[place.table])):
            yield name, [cell.value, texts.value, texts.interval, texts.counts, texts.why]


class _Tables(Mapping[str, Table]):
    """A run's tables by name. A table is read when it is looked up: most are not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names = read_names(folder)
        self._read: dict[str, Table] = {}

    def __getitem__(self, name: str) -> Table:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._read:
            self._read[name] = read_table(self._folder / f"{name}.json")
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
