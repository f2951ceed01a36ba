"""Charts: numbers of a table as a picture (SVG) and as a compact table.

A chart arranges cells by place (a metric, a turn) and series (a condition, a run), and is drawn as
dots with intervals. Nothing is estimated here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from itertools import cycle
from typing import NamedTuple, TypeAlias, TypeVar

from rich.cells import cell_len

from mmconv.benchmarks.base.layouts import CONTROL
from mmconv.benchmarks.options import Display
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import SCORE_DIFFERENCES, Comparison, rename_candidate
from mmconv.report.findings import has_interval, is_estimate, is_signed
from mmconv.report.page.grids import Grid, column_digits, grid
from mmconv.report.tables.cells import round_number
from mmconv.report.tables.text import fold_anywhere
from mmconv.run_folder.saved_run import FinishedRun

COLOURS = ("series-1", "series-2", "series-3", "series-4", "series-5")

MOST_PLACES = 26
"""A longer picture cannot be read; its table can."""

MOST_LINES = 12

MOST_CHARTS = 4

WIDTH = 360.0
"""Units of a plot's width; the page scales it."""

LETTER = 5.7
"""Units that a letter of a label is wide, at most."""

LINE = 12.0
"""Units from one line of a label to the next."""

LABEL = 26
"""Columns of a label in one line; a Chinese character takes two."""

HOLLOW = "hollow: no interval"

Place: TypeAlias = tuple[str, str]
Item = TypeVar("Item")


class Point(NamedTuple):
    """A number with its interval, if it has one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """SVG, its title, and its content in words for screen readers; `note` explains a sign."""

    title: str
    svg: str
    words: str
    note: str = ""
    legend: tuple[tuple[str, str], ...] = ()


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """A colour for each series of a page, which it has in all pictures."""
    return dict(zip(names, cycle(COLOURS), strict=False))


@dataclass(slots=True)
class Chart:
    """Cells of a table by place and series; `starred` are places of significant differences."""

    title: str
    table: Table
    colours: Mapping[str, str]
    cells: dict[Place, Cell] = field(default_factory=dict)
    starred: set[Place] = field(default_factory=set)

    @property
    def places(self) -> list[str]:
        """The places in their order."""
        return list(dict.fromkeys(place for place, _ in self.cells))

    @property
    def series(self) -> list[str]:
        """The series in their order."""
        return list(dict.fromkeys(name for _, name in self.cells))

    @property
    def points(self) -> dict[Place, Point]:
        """The cells that can be drawn, in the order of series."""
        return {
            (place, name): Point(cell.value, cell.low, cell.high)
            for name in self.series
            for place in self.places
            if (cell := self.cells.get((place, name))) and isinstance(cell.value, float)
        }

    @property
    def is_drawn(self) -> bool:
        """Whether a picture of it can be read."""
        is_readable = len(self.places) <= MOST_PLACES and len(self.colours) <= len(COLOURS)
        return is_readable and bool(self.points)

    def grid(self) -> Grid:
        """The compact table: a row for each place, a column for each series."""
        rows = {
            place: {name: cell for (other, name), cell in self.cells.items() if other == place}
            for place in self.places
        }
        table = replace(
            self.table,
            title=self.title,
            columns=tuple(self.series),
            rows=rows,
            digits=column_digits(self.cells.values(), self.table.digits),
        )
        return grid(table, notes=(), most=MOST_LINES, is_rounded=True, starred=self.starred)

    def dots(self) -> Plot:
        """Each number as a dot with its interval, a row for each place."""
        points, zero = self.points, is_signed(self.table)
        series = dict.fromkeys(name for _, name in points)
        ends = [end for point in points.values() for end in point if end is not None]
        ends += [0.0] if zero else []
        margin = 0.03 * ((max(ends) - min(ends)) or 1.0)
        low, high = min(ends) - margin, max(ends) + margin
        labels = [fold_anywhere(place, LABEL) for place in self.places]
        left = 10 + LETTER * max(cell_len(line) for lines in labels for line in lines)
        step = 9.0 if len(series) > 1 else 0.0
        heights = [max(LINE * len(lines) + 6, step * len(series) + 8, 20) for lines in labels]
        bottom = sum(heights)

        def x(value: float) -> float:
            return left + (WIDTH - left - 8) * (value - low) / (high - low)

        drawn = []
        for tick, text in number_ticks(low, high):
            at = f'x1="{x(tick):.1f}" x2="{x(tick):.1f}" y2="{bottom}"'
            drawn.append(f'<line class="{"zero" if zero and tick == 0 else "grid"}" {at}/>')
            drawn.append(draw_text(x(tick), bottom + 13, text, "middle"))
        top = 0.0
        for place, lines, height in zip(self.places, labels, heights, strict=True):
            for y, line in _spread(lines, top + height / 2, LINE):
                drawn.append(draw_text(left - 8, y + 3.5, line, "end"))
            names = [name for name in series if (place, name) in points]
            for y, name in _spread(names, top + height / 2, step):
                drawn.append(_dot(points[place, name], x, y, self.colours[name]))
            top += height
        write = partial(round_number, table=replace(self.table, signed=False))
        return Plot(
            title=self.title,
            svg=frame(drawn, bottom + 18),
            words="; ".join(
                f"{name}, {place}: {write(value)}"
                + ("" if low is None or high is None else f" ({write(low)} to {write(high)})")
                for (place, name), (value, low, high) in points.items()
            ),
            note=HOLLOW if any(point.low is None for point in points.values()) else "",
            legend=tuple((name, self.colours[name]) for name in series),
        )


def _spread(items: Sequence[Item], middle: float, step: float) -> Iterator[tuple[float, Item]]:
    for number, item in enumerate(items):
        yield middle + (number - (len(items) - 1) / 2) * step, item


def _dot(point: Point, x: Callable[[float], float], y: float, colour: str) -> str:
    paint = f"var(--{colour})"
    centre = f'cx="{x(point.value):.1f}" cy="{y:.1f}" r="3.2"'
    if point.low is None or point.high is None:
        return f'<circle {centre} style="fill:none;stroke:{paint};stroke-width:1.4"/>'
    ends = f'x1="{x(point.low):.1f}" x2="{x(point.high):.1f}" y1="{y:.1f}" y2="{y:.1f}"'
    return (
        f'<line class="interval-line" {ends} style="stroke:{paint}"/>'
        f'<circle {centre} style="fill:{paint}"/>'
    )


def number_ticks(low: float, high: float) -> Iterator[tuple[float, str]]:
    """Round numbers in a range, at most six, with their texts."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough)
    digits = max(0, -math.floor(math.log10(step)) + (step / power == 2.5))
    for number in range(math.ceil(low / step), math.floor(high / step) + 1):
        yield number * step, f"{number * step:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def frame(drawn: Iterable[str], height: float) -> str:
    """A picture of the full width from its parts."""
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH:.0f} {height:.0f}" '
        f'aria-hidden="true" focusable="false">{"".join(drawn)}</svg>'
    )


def draw_text(x: float, y: float, text: str, anchor: str) -> str:
    """A text of a picture; `anchor` says which part of it is at x."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def run_charts(tables: Sequence[Table], display: Display, candidate: str) -> list[Chart]:
    """The headline numbers of a run, then what conditions change."""
    charts = []
    for signed in (False, True):
        if table := _first(tables, signed=signed):
            charts += _table_charts(table, display, candidate)[:MOST_CHARTS]
    return charts


def comparison_charts(comparison: Comparison, display: Display) -> list[Chart]:
    """The headline numbers of all runs, then their differences from the baseline."""
    return [*_scores_of_runs(comparison, display), *_differences(comparison, display)]


def _first(tables: Sequence[Table], *, signed: bool) -> Table | None:
    of_kind = (table for table in tables if is_signed(table) == signed and not table.detail)
    return next((table for table in of_kind if _columns(table)), None)


def _columns(table: Table) -> list[str]:
    for is_one in (has_interval, is_estimate):
        columns = [
            column
            for column in table.columns
            if not column.startswith(CONTROL)
            and any(is_one(row.get(column)) for row in table.rows.values())
        ]
        if columns:
            return columns
    return []


def _table_charts(table: Table, display: Display, candidate: str) -> list[Chart]:
    columns = _columns(table)
    if len(table.rows) == 1:
        [row] = table.rows.values()
        cells = {(column, candidate): row[column] for column in columns}
        return [Chart(table.title, table, colours_of([candidate]), cells)]
    charts: dict[str, Chart] = {}
    by_condition = any(row in display.rows for row in table.rows)
    conditions = list(dict.fromkeys(display.place_of(row)[1] for row in display.rows))
    for column in columns:
        key = column if by_condition else _unit(column)
        title = (
            column + ": change from the condition before" * is_signed(table)
            if by_condition
            else table.title
        )
        alike = [name for name in columns if _unit(name) == key]
        colours = colours_of(conditions if by_condition else alike)
        chart = charts.setdefault(key, Chart(title, table, colours))
        for row_name, row in table.rows.items():
            if column in row:
                place, condition = display.place_of(row_name)
                # all rows of one candidate share its name
                place = place or row_name.removeprefix(f"{candidate}, ")
                chart.cells[place, condition if by_condition else column] = row[column]
    return list(charts.values())


def _unit(column: str) -> str:
    """The text in brackets at the end of a column's title, as in `direct (1-10)`."""
    return column.rpartition("(")[2] if column.endswith(")") else ""


def rows_of_runs(
    runs: Iterable[FinishedRun], name: str, display: Display
) -> Iterator[tuple[str, str, Mapping[str, Cell]]]:
    """The rows of the runs' tables of a name: the run's label, and what the row is in all runs."""
    for run in runs:
        for table in run.tables:
            for row, cells in table.rows.items() if table.name == name else ():
                bare = rename_candidate(row, run.candidate, "")
                place = row if bare is None else bare.strip(", ")
                yield run.label, display.name_row(place), cells


def _scores_of_runs(comparison: Comparison, display: Display) -> list[Chart]:
    """A chart for each column; with more runs than colours they are the places of its first row."""
    table = _first(comparison.runs[0].tables, signed=False)
    if table is None:
        return []
    charts: dict[str, Chart] = {}
    firsts: dict[str, str] = {}
    columns, labels = _columns(table), [run.label for run in comparison.runs]
    for label, row, cells in rows_of_runs(comparison.runs, table.name, display):
        for column in (column for column in columns if column in cells):
            title, place = (column, row) if row else (table.title, column)
            if len(labels) <= len(COLOURS):
                new = Chart(title, table, colours_of(labels))
                charts.setdefault(title, new).cells[place, label] = cells[column]
            elif place == firsts.setdefault(title, place):
                new = Chart(f"{title}, {place}", table, colours_of([place]))
                charts.setdefault(title, new).cells[label, place] = cells[column]
    return [*charts.values()][:MOST_CHARTS]


def _differences(comparison: Comparison, display: Display) -> list[Chart]:
    tables = {table.name: table for table in comparison.tables}
    charts: dict[str, Chart] = {}
    colours = colours_of([run.label for run in comparison.runs])
    for each in comparison.differences:
        for column, cell in each.cells.items() if each.quantity.kind == "score" else ():
            title = f"{column}: difference from {comparison.runs[0].label}"
            new = Chart(title, tables[SCORE_DIFFERENCES], colours)
            chart = charts.setdefault(column, new)
            place = display.name_row(each.quantity.name), each.run
            chart.cells[place] = cell
            if each.is_significant and column == each.column:
                chart.starred.add(place)
    return [*charts.values()][:MOST_CHARTS]
