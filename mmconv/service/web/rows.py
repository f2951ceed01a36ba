"""Rows of the list of runs: their state, and the headline numbers that a leaderboard would show.

Numbers are those of a run's own tables. They are read when a run is first listed, and again when
its tables have changed; single scores are not read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from mmconv.benchmarks.base.compare import BoardPart, find_boards
from mmconv.benchmarks.registry import TITLES
from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.types import Cell, Table
from mmconv.report.page.grids import shown
from mmconv.run_folder.layout import SPEC, TABLES
from mmconv.run_folder.saved_run import INDEX, read_names, read_spec, read_table
from mmconv.service.results.run_files import describe_damage
from mmconv.service.runs.execution import result_folder, run_info
from mmconv.service.state import Readable
from mmconv.store.jobs import Job

log = logging.getLogger(__name__)

LISTED = 2000
"""How many runs are listed at most, the newest."""

CACHED = 4 * LISTED
"""How many runs' numbers are cached, each some kilobytes of JSON."""


def run_rows(shared: Readable, jobs: list[Job]) -> list[dict[str, Any]]:
    """A row for each run. Blocks: it reads the tables of runs whose numbers are not cached."""
    return [_row(shared, job) for job in jobs]


def _row(shared: Readable, job: Job) -> dict[str, Any]:
    row = run_info(job) | {"title": TITLES.get(job.benchmark or "", job.benchmark), "numbers": []}
    folder = result_folder(shared, job)
    if folder is None:
        return row
    # a run that is resumed has no tables, and one may be deleted at any time
    with suppress(OSError, ConfigError):
        times = [(folder / name).stat().st_mtime_ns for name in (SPEC, f"{TABLES}/{INDEX}")]
        row |= _numbers_or_damage(folder, *times)
    return row


def _numbers_or_damage(folder: Path, specified: int, tabulated: int) -> dict[str, Any]:
    try:
        return {"numbers": orjson.Fragment(_numbers(folder, specified, tabulated))}
    except DataError as error:
        log.warning("a run's numbers cannot be read: %s", error)
        return {"error": describe_damage(error)}


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
        if cell is not None:
            yield name, _texts(cell, tables[place.table])


def _texts(cell: Cell, table: Table) -> list[Any]:
    texts = shown(cell, table)
    assert texts is not None
    return [cell.value, texts.value, texts.interval, texts.counts, texts.why]


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
