"""What runs of a benchmark are compared in, and what its leaderboard shows.

A board is what is ranked by one headline: a grading, a subset, a condition. Nothing is computed
here; `mmconv.report.comparison` reads the numbers from the runs' own tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from mmconv.benchmarks.base.corrections import CORRECTED
from mmconv.benchmarks.base.layouts import Layout
from mmconv.benchmarks.base.metrics import Delta, Metric, default_metrics, quantities
from mmconv.benchmarks.base.results import Scale
from mmconv.benchmarks.registry import find_class
from mmconv.core.config import RunSpec
from mmconv.core.types import Cell, Table
from mmconv.stats import Quantity, ScoreFrame


def find_quantities(frame: ScoreFrame, spec: RunSpec, scale: Scale = None) -> Iterator[Quantity]:
    """The quantities of a run with these scores, by the metrics of its benchmark.

    If the code of a user's benchmark cannot be imported here, by the default metrics on its scale.
    """
    try:
        yield from find_class(spec.benchmark)(spec).quantities(frame)
    except ImportError:
        metrics = default_metrics(frame, frame.distinct("condition"), scale, table="")
        yield from quantities(metrics, frame)


Tables: TypeAlias = Mapping[str, Table]
"""A run's tables by name, in their order."""

CANDIDATE_LABEL = "{candidate}"
"""In a place: the run's candidate, as the run's own tables name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPlace:
    """Where a run's tables have a number, and the (name, group) of its comparison, if any."""

    table: str
    row: str
    column: str
    quantity: tuple[str, str] | None = None

    def find(self, tables: Tables, candidate: str) -> Cell | None:
        """The run's cell; None if its tables have neither a number nor missing samples there."""
        if self.table not in tables:
            return None
        row, column = (each.replace(CANDIDATE_LABEL, candidate) for each in (self.row, self.column))
        cell = tables[self.table].rows.get(row, {}).get(column)
        return None if cell is None or isinstance(cell.value, str) else cell


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardPart:
    """One table of a board: its title, and a place for each column; the first has no `name`.

    `notes` come before those of the runs' own tables.
    """

    title: str
    columns: Mapping[str, CellPlace]
    name: str = ""
    signed: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Tables whose rows are sorted by the headline, a column of the first table.

    If no run has the headline, it is the first column that any run has. `least` names columns in
    which a low value is good.
    """

    parts: Sequence[BoardPart]
    headline: str
    name: str = ""
    least: Collection[str] = ()


def find_boards(
    spec: RunSpec, runs: Sequence[Tables], least: Collection[str] = ()
) -> tuple[Board, ...]:
    """The boards of a benchmark with the first run's options.

    By default the first table of the first run, a column for each number. In its rows `least` a low
    value is good.
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
            f"{title_of(metric)}{end}": CellPlace(
                table=metric.table,
                row=label.replace("{name}", metric.name),
                column=f"{metric.group.title}{end}",
                quantity=None if end else (metric.name, metric.group.label),
            )
            for metric in chosen
            for end in ("", CORRECTED)
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
