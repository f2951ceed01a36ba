"""The files of a finished run as the API serves them: pages of scores, samples, tables.

Files are read in pieces. What a failure's message says of this machine is removed. These functions
block, and raise what `mmconv.run_folder.saved_run` does. Routes call them through `read_in_thread`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby, islice
from pathlib import Path
from typing import IO, Any, Literal, ParamSpec, TypeVar

from mmconv.core.errors import DataError
from mmconv.core.plans import Finished, Plan
from mmconv.core.types import Failure, Reply
from mmconv.engine import Runner
from mmconv.engine.run import Evaluation
from mmconv.report.tables.formats import FORMATS
from mmconv.report.writing import write_parquet
from mmconv.run_folder.layout import SCORES, TABLES, TRANSCRIPTS
from mmconv.run_folder.saved_run import read_lines, read_manifest, read_tables
from mmconv.run_folder.transcripts import (
    ScoreRecord,
    call_records,
    columns_of,
    message_record,
    score_record,
)
from mmconv.service.errors import Problem, presentable, without_places
from mmconv.service.models import words_of_failure
from mmconv.service.requests import part_of, unknown_page
from mmconv.service.run_requests import reading_data
from mmconv.service.state import Readable

log = logging.getLogger(__name__)

Args = ParamSpec("Args")
Result = TypeVar("Result")

PIECE_BYTES = 1 << 18

INDEXES = 8
"""How many files' indexes are kept in memory: about 200 bytes for each sample."""


@dataclass(slots=True, kw_only=True)
class Span:
    """The lines of one sample in a file, which are adjacent: where they begin, and what they hold.

    `replies` and `failures` count calls; both are 0 in a file of scores.
    """

    begin: int
    lines: int = 0
    conditions: dict[str, None] = field(default_factory=dict)
    replies: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The samples of a file of scores or transcripts, and the conditions and metrics, in order."""

    spans: dict[str, Span] = field(default_factory=dict)
    conditions: dict[str, None] = field(default_factory=dict)
    metrics: dict[str, None] = field(default_factory=dict)


async def read_in_thread(
    read: Callable[Args, Result], *args: Args.args, **named: Args.kwargs
) -> Result:
    """Call a function that reads a run's folder in a thread.

    Raises `Problem` 409 if a file of the run is truncated, of another version, or missing.
    """
    try:
        return await asyncio.to_thread(read, *args, **named)
    except DataError as error:
        log.warning("a run's files cannot be read: %s", error)
        advice = (
            "`mmconv score` of its folder writes it again; or remove it (DELETE with purge) and "
            "post it again, its replies are kept"
        )
        message = f"what the run has left cannot be read: {describe_damage(error)}; {advice}"
        raise Problem(409, message, code="files_spoilt") from error


def describe_damage(error: DataError) -> str:
    """The file and what is wrong with it, without paths of this machine."""
    problem = f"{Path(error.where).name}: {error.problems[0]}"
    return presentable(problem, "its files are spoilt")


def file_status(path: Path) -> os.stat_result:
    """The status of a run's file. Raises `DataError` if it does not exist."""
    with _needed():
        return path.stat()


@contextmanager
def _needed() -> Iterator[None]:
    """Raise `DataError` if a run's file that is read within does not exist."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(error.filename, ["file does not exist"]) from error


def score_page(
    folder: Path, chosen: Mapping[str, Any], after: int, limit: int
) -> tuple[list[Any], int | None]:
    """At most `limit` scores with the fields of `chosen`, from the byte `after` on.

    Returns them and where the next page begins, None at the end. Raises `Problem` 400 if no line
    begins at `after`.
    """
    page: list[Any] = []
    path = folder / SCORES
    if after:
        with _needed(), path.open("rb") as file:
            file.seek(min(after - 1, path.stat().st_size))
            if file.read(1) != b"\n":
                raise unknown_page()
    for line in read_lines(path, after):
        if len(page) == limit:
            return page, line.begin
        if _is_chosen(line.record, chosen):
            page.append(line.record)
    return page, None


def _is_chosen(score: Mapping[str, Any], chosen: Mapping[str, Any]) -> bool:
    return all(score[name] == value for name, value in chosen.items())


def check_chosen(folder: Path, chosen: Mapping[str, str]) -> None:
    """Raise `Problem` 400 for a value that no score of the run has."""
    index = _index_of(folder / SCORES)
    known: Mapping[str, Collection[str]] = {
        "sample": index.spans,
        "condition": index.conditions,
        "metric": index.metrics,
    }
    for name, value in chosen.items():
        if value not in known[name]:
            there = ", ".join(known[name]) or "none"
            message = f"{name}: no score has {value!r}; there are: {there}"
            raise Problem(400, message, param=name)


def chosen_file(
    folder: Path, chosen: Mapping[str, str], form: Literal["jsonl", "parquet"]
) -> IO[bytes]:
    """The scores with the fields of `chosen`, as a file opened at its beginning."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / SCORES
        lines = (line for line in read_lines(folder / SCORES) if _is_chosen(line.record, chosen))
        with path.open("wb") as file:
            file.writelines(line.text for line in lines)
        if form == "parquet":
            write_parquet(path, path.with_suffix(".parquet"), columns_of(ScoreRecord))
        return path.with_suffix(f".{form}").open("rb")


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    """The rest of the file in pieces. It is closed afterwards."""
    with file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def sample_page(
    folder: Path, after: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """At most `limit` samples after `after` in the run's order, and the last one if more follow.

    Raises `Problem` 400 for an unknown `after`.
    """
    spans = _index_of(folder / TRANSCRIPTS).spans
    names = [*spans]
    part, following = part_of(names, after, limit)
    samples = [
        {
            "sample": name,
            "conditions": [*spans[name].conditions],
            "calls": spans[name].lines,
            "replies": spans[name].replies,
            "failures": spans[name].failures,
        }
        for name in names[part]
    ]
    return samples, following


def no_sample() -> Problem:
    """404 for a sample that the run does not have."""
    return Problem(404, "no such sample in this run", param="sample")


def sample_records(folder: Path, sample: str) -> dict[str, Any]:
    """One sample's calls and scores as they were recorded. Raises `Problem` 404."""
    if not (calls := _lines(folder / TRANSCRIPTS, sample)):
        raise no_sample()
    return {
        "sample": sample,
        "calls": [clean_call(call) for call in calls],
        "scores": _lines(folder / SCORES, sample),
    }


def clean_call(call: dict[str, Any]) -> dict[str, Any]:
    """A call's record, its failure's message cleaned for clients."""
    if call["state"] != "failure":
        return call
    kind = call["problem"].split(" ", 1)[0]
    words = words_of_failure(kind, call["problem"])
    return call | {"problem": words if words.startswith(f"{kind} ") else f"{kind}: {words}"}


def clean_manifest(folder: Path) -> dict[str, Any]:
    """A run's manifest without paths and URLs of this machine."""
    manifest = read_manifest(folder).model_dump(mode="json")
    return manifest | {name: _clean(manifest[name]) for name in ("provenance", "about_models")}


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        # Files of one name are distinguished by their paths.
        return {
            without_places(name, f"file {number}"): _clean(inner)
            for number, (name, inner) in enumerate(value.items(), start=1)
        }
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    return without_places(value, "not shown") if isinstance(value, str) else value


def render_tables(folder: Path, name: str | None, form: str) -> str:
    """The tables of a run, or the one of this name, as `json`, `csv`, `md` or `tex`.

    Several are a JSON array. As CSV each has its name in a line before it, and a blank line after.
    Raises `Problem` 404.
    """
    with _needed():
        tables = read_tables(folder / TABLES)
    if name is not None:
        table = next((table for table in tables if table.name == name), None)
        if table is None:
            known = ", ".join(table.name for table in tables)
            raise Problem(404, f"no such table; there are: {known}", param="table")
        return FORMATS[form](table)
    texts = [FORMATS[form](table) for table in tables]
    if form == "json":
        return f"[{','.join(texts)}]"
    if form == "csv":
        texts = [f"{table.name}\n{text}" for table, text in zip(tables, texts, strict=True)]
    return "\n".join(texts)


def _lines(path: Path, sample: str) -> list[dict[str, Any]]:
    span = _index_of(path).spans.get(sample)
    if span is None:
        return []
    return [line.record for line in islice(read_lines(path, span.begin), span.lines)]


def _index_of(path: Path) -> Index:
    status = file_status(path)
    return _read_index(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=INDEXES)
def _read_index(path: Path, _changed: int, _size: int) -> Index:
    index = Index()
    for line in read_lines(path):
        record = line.record
        span = index.spans.setdefault(record["sample"], Span(begin=line.begin))
        span.lines += 1
        span.conditions[record["condition"]] = None
        state = record.get("state")
        span.replies += state == "reply"
        span.failures += state == "failure"
        index.conditions[record["condition"]] = None
        if "metric" in record:
            index.metrics[record["metric"]] = None
    return index


OPEN_PLANS = 8
"""How many plans are read at once. Few share queries, since the server's loop answers them and has
other work between."""

Planned = list[tuple[Plan, Any]]
"""The plans of one sample, each with the benchmark's own record of it."""

Page = tuple[list[dict[str, Any]], str | None]
"""Samples, and the last one if more follow."""


async def live_page(
    shared: Readable, evaluation: Evaluation, after: str | None, limit: int
) -> Page:
    """At most `limit` samples after `after`. Raises `Problem` 400 for an unknown `after`."""
    async with shared.viewing:
        with reading_data(evaluation.spec.options):
            groups = await asyncio.to_thread(_groups_after, evaluation, after, limit + 1)
        plans = [plan for group in groups[:limit] for plan, _ in group]
        finished = await _finish(evaluation, plans)
    page = [_sample_info([finished[plan.order] for plan, _ in group]) for group in groups[:limit]]
    return page, page[-1]["sample"] if len(groups) > limit else None


async def live_records(shared: Readable, evaluation: Evaluation, sample: str) -> dict[str, Any]:
    """One sample's calls, with judges' prompts, and its scores. Raises `Problem` 404."""

    def plan() -> Planned:
        conditions = len(evaluation.benchmark.conditions)
        return list(islice(evaluation.plans(lambda name: name == sample), conditions))

    def read(group: Planned, finished: Mapping[int, Finished]) -> dict[str, Any]:
        return {
            "sample": sample,
            "calls": [call for plan, _ in group for call in _calls(finished[plan.order])],
            "scores": [
                score_record(score)
                for plan, record in group
                for score in evaluation.benchmark.score_finished(record, finished[plan.order])
            ],
        }

    async with shared.viewing:
        with reading_data(evaluation.spec.options):
            group = await asyncio.to_thread(plan)
            if not group:
                raise no_sample()
            finished = await _finish(evaluation, [plan for plan, _ in group])
            return await asyncio.to_thread(read, group, finished)


def _groups_after(evaluation: Evaluation, after: str | None, count: int) -> list[Planned]:
    """The plans of `count` samples. Those before them are not planned."""
    passed = after is None

    def is_behind(sample: str) -> bool:
        nonlocal passed
        before, passed = passed, passed or sample == after
        return before

    plans = groupby(evaluation.plans(is_behind), lambda planned: planned[0].sample)
    groups = [list(group) for _, group in islice(plans, count)]
    if not passed:
        raise unknown_page()
    return groups


async def _finish(evaluation: Evaluation, plans: list[Plan]) -> Mapping[int, Finished]:
    """The plans by their order, with the outcomes that are cached."""
    finished: list[Finished] = []
    store = evaluation.resources.store
    runner = Runner(evaluation.models, store, window=OPEN_PLANS, offline=True)
    await runner.run(plans, finished.append)
    return {result.plan.order: result for result in finished}


def _sample_info(finished: list[Finished]) -> dict[str, Any]:
    outcomes = [outcome for result in finished for outcome in result.outcomes.values()]
    return {
        "sample": finished[0].plan.sample,
        "conditions": tuple(result.plan.condition for result in finished),
        "calls": len(outcomes),
        "replies": sum(isinstance(outcome, Reply) for outcome in outcomes),
        "failures": sum(isinstance(outcome, Failure) for outcome in outcomes),
    }


def _calls(finished: Finished) -> Iterator[dict[str, Any]]:
    for record in call_records(finished):
        call = finished.resolved.get(record["call"])
        messages = call and [message_record(message) for message in call.messages]
        yield clean_call(record | {"messages": messages})
