"""What a leaderboard shows of a benchmark, and where the tables of its runs have it.

A board is what is ranked by one headline: a grading, a subset, a condition. No number is read or
computed here, nor where a benchmark describes its boards (`leaderboard:boards` of its package);
`mmconv.report.comparison.leaderboard` fills them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from mmconv.benchmarks.layouts import Layout
from mmconv.benchmarks.metrics import Delta, Metric
from mmconv.benchmarks.registry import find_class
from mmconv.core.config import RunSpec
from mmconv.core.types import Cell, Table

Tables: TypeAlias = Mapping[str, Table]
"""A run's tables by name, in their order."""

CANDIDATE_LABEL = "{candidate}"
"""Stands in a place for the run's candidate, as the run's own tables call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPlace:
    """Where a run's tables have a number, and the (name, group) by which runs are compared in it.

    `quantity` is None where runs are not compared in it.
    """

    table: str
    row: str
    column: str
    quantity: tuple[str, str] | None = None

    def find(self, tables: Tables, candidate: str) -> Cell | None:
        """The run's cell; None if its tables have no number there, nor count what is missing."""
        if self.table not in tables:
            return None
        row, column = (each.replace(CANDIDATE_LABEL, candidate) for each in (self.row, self.column))
        cell = tables[self.table].rows.get(row, {}).get(column)
        return None if cell is None or isinstance(cell.value, str) else cell


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardPart:
    """One table of a board: its title, and a place for each column; the first has no `name`.

    `notes` are what must be known of its numbers beside what the runs' own tables say.
    """

    title: str
    columns: Mapping[str, CellPlace]
    name: str = ""
    signed: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Tables whose rows stand in the order of the headline, a column of the first of them.

    Where no run has the headline, it is the first column that any has. `least` names columns of
    which the least is best.
    """

    parts: Sequence[BoardPart]
    headline: str
    name: str = ""
    least: Collection[str] = ()


def find_boards(
    spec: RunSpec, runs: Sequence[Tables], least: Collection[str] = ()
) -> tuple[Board, ...]:
    """The boards of a benchmark, as the first run's options say; runs may lack numbers of some.

    One that declares none has the first table of the first run, a column for each number; of its
    rows `least` the least is best.
    """
    with suppress(ImportError):
        described = find_class(spec.benchmark)(spec)
        if boards := tuple(described.boards(runs)):
            return boards
    return tuple(_plain(spec.benchmark, runs[0], least))


def derive_boards(layouts: Sequence[Layout], metrics: Sequence[Metric]) -> Iterator[Board]:
    """A board for each headline and group; layouts with the same ones are parts of it."""
    for (rank, _), parts in groupby(layouts, lambda each: (each.rank, each.name.partition("_")[0])):
        yield Board(headline=rank, parts=[_part(layout, metrics) for layout in parts])


def _part(layout: Layout, metrics: Sequence[Metric]) -> BoardPart:
    """A column for each metric; if the run's table has a row per candidate, for each group."""
    is_by_group = layout.rows == "candidate"
    label = layout.row_label or (CANDIDATE_LABEL if is_by_group else "{name}")
    chosen = [
        metric
        for name in layout.names
        for metric in metrics
        if metric.name == name and metric.group.title in layout.groups and metric.table == layout.of
    ]
    labels = layout.names if isinstance(layout.names, Mapping) else {}

    def title_of(metric: Metric) -> str:
        return metric.group.title if is_by_group else labels.get(metric.name, metric.name)

    return BoardPart(
        name=layout.name.removeprefix("_"),
        title=layout.title,
        columns={
            title_of(metric): CellPlace(
                table=metric.table,
                row=label.replace("{name}", metric.name),
                column=metric.group.title,
                quantity=(metric.name, metric.group.label),
            )
            for metric in chosen
        },
        signed=all(isinstance(metric, Delta) for metric in chosen),
        notes=tuple(layout.notes),
    )


def _plain(benchmark: str, tables: Tables, least: Collection[str]) -> Iterator[Board]:
    for table in tuple(tables.values())[:1]:
        columns = {
            row if len(table.columns) == 1 else f"{row} ({column})": CellPlace(
                table=table.name, row=row, column=column, quantity=(row, column)
            )
            for row in table.rows
            for column in table.columns
        }
        yield Board(
            headline="",
            parts=[BoardPart(title=benchmark, columns=columns)],
            least=[name for name, place in columns.items() if place.row in least],
        )
