"""Charts: the headline numbers of a run or a comparison, as pictures and as compact tables.

A chart arranges cells of one table by place (a metric, a turn) and series (a condition, a run). All
of it comes from the tables of run folders; nothing is estimated here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mmconv.benchmarks.shared.options import Display
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import DIFFERS, SCORE_DIFFERENCES, Comparison, Named
from mmconv.report.findings import has_interval, is_estimate, is_signed, split_row
from mmconv.report.page.grids import Grid, Line, Shown, column_digits, same_size, shown
from mmconv.report.page.plots import COLOURS, Plot, Series, dots, point_of, span

MOST_PLACES = 26
"""A longer picture is searched and not read; a table is better for that."""

MOST_LINES = 12
"""A compact table has so many rows; the rest is in the whole table."""

MOST_CHARTS = 4
STAR = "*"
"""The mark of a significant difference."""

_Place = tuple[str, str]


@dataclass(slots=True)
class Chart:
    """Cells by place and series; `starred` are places of significant differences.

    A series has the same colour in all pictures of a page: its place in `palette`.
    """

    title: str
    table: Table
    palette: tuple[str, ...]
    cells: dict[_Place, Cell] = field(default_factory=dict)
    starred: set[_Place] = field(default_factory=set)

    @property
    def places(self) -> list[str]:
        """The places in their order."""
        return list(dict.fromkeys(place for place, _ in self.cells))

    @property
    def series(self) -> list[str]:
        """The series in their order."""
        return list(dict.fromkeys(name for _, name in self.cells))

    @property
    def is_drawn(self) -> bool:
        """Whether a picture of it can be read."""
        there = any(map(point_of, self.cells.values()))
        return there and len(self.places) <= MOST_PLACES and len(self.palette) <= len(COLOURS)

    def plot(self) -> Plot:
        """The picture; a dot for each number."""
        series = [
            Series(
                name=name,
                colour=COLOURS[self.palette.index(name)],
                points=tuple(point_of(self.cells.get((place, name))) for place in self.places),
            )
            for name in self.series
        ]
        ends = span(point for each in series for point in each.points)
        return dots(self.title, self.places, series, ends, zero=is_signed(self.table))

    def grid(self) -> Grid:
        """The compact table: a row for each place, a column for each series."""
        digits = column_digits(self.cells.values(), self.table.digits)
        rounded = replace(self.table, digits=digits)
        lines = [
            Line(name=place, cells=tuple(self._shown(place, name, rounded) for name in self.series))
            for place in self.places
        ]
        size, lines = same_size(lines)
        star = [f"{STAR} significant at the 5 % level (Holm's correction)"] if self.starred else []
        return Grid(
            id=self.table.name,
            title=self.title,
            columns=tuple(self.series),
            lines=tuple(lines[:MOST_LINES]),
            more=max(0, len(lines) - MOST_LINES),
            notes=(*([size] if size else []), *star),
        )

    def _shown(self, place: str, name: str, table: Table) -> Shown | None:
        cell = shown(self.cells.get((place, name)), table)
        if cell is not None and (place, name) in self.starred:
            return replace(cell, value=f"{cell.value} {STAR}")
        return cell


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
    """The first table to read that has intervals."""
    of_kind = (table for table in tables if is_signed(table) == signed and not table.detail)
    return next((table for table in of_kind if _columns(table)), None)


def _columns(table: Table) -> list[str]:
    """The columns of estimates: those with intervals, or else those of numbers that have an n."""
    for is_one in (has_interval, is_estimate):
        columns = (
            column
            for column in table.columns
            if any(is_one(row.get(column)) for row in table.rows.values())
        )
        if found := [*columns]:
            return found
    return []


def _table_charts(table: Table, display: Display, candidate: str) -> list[Chart]:
    columns = _columns(table)
    if len(table.rows) == 1:
        [only] = table.rows.values()
        drawn = {(column, candidate): only[column] for column in columns}
        return [Chart(table.title, table, (candidate,), drawn)]
    charts: dict[str, Chart] = {}
    by_condition = any(row in display.rows for row in table.rows)
    conditions = tuple(dict.fromkeys(display.place_of(row)[1] for row in display.rows))
    for column in columns:
        key = column if by_condition else _unit(column)
        title = column + ": change" * is_signed(table) if by_condition else table.title
        palette = tuple(name for name in columns if _unit(name) == key)
        chart = Chart(title, table, conditions if by_condition else palette)
        chart = charts.setdefault(key, chart)
        for row, cells in table.rows.items():
            if column in cells:
                place, condition = display.place_of(row)
                name = condition if by_condition else column
                # all rows of one candidate share its name
                place = place or row.removeprefix(f"{candidate}, ")
                chart.cells[place, name] = cells[column]
    return list(charts.values())


def _unit(column: str) -> str:
    """What is in brackets at the end of a column's title, as in `direct (1-10)`."""
    return column.rpartition("(")[2] if column.endswith(")") else ""


def _scores_of_runs(comparison: Comparison, display: Display) -> list[Chart]:
    """A chart per column, with a series for each run; with many runs, a place for each."""
    first = _first(comparison.runs[0].tables, signed=False)
    if first is None:
        return []
    columns = _columns(first)
    charts: dict[str, Chart] = {}
    palette = tuple(run.label for run in comparison.runs)
    for run in comparison.runs:
        table = next((each for each in run.tables if each.name == first.name), None)
        named = Named(label=run.label, candidate=run.candidate, tables=())
        for row, cells in table.rows.items() if table else ():
            place = display.name_row(named.renamed(row, "").strip(", "))
            for column in columns:
                if column in cells:
                    key = column if place else ""
                    chart = charts.setdefault(key, Chart(key or first.title, first, palette))
                    chart.cells[place or column, run.label] = cells[column]
    made = list(charts.values())[:MOST_CHARTS]
    return made if len(comparison.runs) <= len(COLOURS) else [_by_run(chart) for chart in made]


def _by_run(chart: Chart) -> Chart:
    """The first place of a chart, with a row for each run."""
    first = chart.places[0]
    cells = {(name, first): cell for (place, name), cell in chart.cells.items() if place == first}
    return Chart(f"{chart.title}, {first}", chart.table, (first,), cells)


def _differences(comparison: Comparison, display: Display) -> list[Chart]:
    table = next((each for each in comparison.tables if each.name == SCORE_DIFFERENCES), None)
    if table is None:
        return []
    columns = [column for column in table.columns if column != DIFFERS]
    charts = []
    palette = tuple(run.label for run in comparison.runs)
    for column in columns[:MOST_CHARTS]:
        chart = Chart(f"{column}: difference from {comparison.runs[0].label}", table, palette)
        for row, cells in table.rows.items():
            name, label = split_row(comparison, row)
            if column in cells:
                place = display.name_row(name), label
                chart.cells[place] = cells[column]
                if (row, column) in comparison.significant:
                    chart.starred.add(place)
        charts.append(chart)
    return charts
