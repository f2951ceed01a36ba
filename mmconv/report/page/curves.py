"""Curves: rows of a table with an axis as pictures, and where each falls below the table's line.

A picture has a series for each condition or run. Below its frame is a row for each series with the
mark of the table: where the curve falls below the line, with the interval. Nothing is estimated
here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from mmconv.benchmarks.base.layouts import write_estimate
from mmconv.benchmarks.options import Display
from mmconv.core.types import Axis, Cell, Table
from mmconv.report.page.charts import (
    COLOURS,
    HOLLOW,
    LINE,
    WIDTH,
    Plot,
    Point,
    colours_of,
    draw_text,
    frame,
    number_ticks,
    rows_of_runs,
)
from mmconv.run_folder.saved_run import FinishedRun

MOST = 6
"""The most pictures of a table in an overview; more are among the details."""

MARK = "\N{BLACK DIAMOND}"

HEIGHT = 140.0
LEFT = 38.0
RIGHT = WIDTH - 10.0
"""Units of the frame that curves are drawn in."""

STEP = 11.0

MOST_LABELS = 12

_NUMBER = re.compile(r"\d+(?:\.\d+)?$")

Scale = Callable[[float], float]


@dataclass(slots=True, kw_only=True)
class Curves:
    """The curves of one picture: series -> the row of a table; `table` is that of the first run.

    `reach` is from the least to the largest number of all pictures of the table.
    """

    title: str
    table: Table
    axis: Axis
    colours: dict[str, str]
    rows: dict[str, Mapping[str, Cell]] = field(default_factory=dict)
    reach: tuple[float, float] = (0.0, 1.0)

    @property
    def is_drawn(self) -> bool:
        """Whether a picture of it can be read."""
        is_curve = any(len(self.points(series)) > 1 for series in self.rows)
        return is_curve and len(self.rows) <= len(COLOURS)

    @property
    def places(self) -> dict[str, float]:
        """Column -> its place on the axis."""
        return {
            column: float(number[0])
            for column in self.table.columns
            if column != self.axis.mark and (number := _NUMBER.search(column))
        }

    def points(self, series: str) -> dict[float, Point]:
        """Place -> its number."""
        row = self.rows[series]
        cells = {place: row.get(column) for column, place in self.places.items()}
        return {
            place: Point(cell.value, cell.low, cell.high)
            for place, cell in cells.items()
            if cell is not None and isinstance(cell.value, float)
        }

    def plot(self) -> Plot:
        """Each curve with a band of its intervals, the line, and the marks below."""
        places, (low, high) = [*self.places.values()], self.reach
        first, last = places[0], places[-1]

        def x(place: float) -> float:
            part = (min(max(place, first), last) - first) / ((last - first) or 1.0)
            return LEFT + 8 + (RIGHT - LEFT - 8) * part

        def y(value: float) -> float:
            return 4 + (HEIGHT - 4) * (high - value) / ((high - low) or 1.0)

        marks = {
            name: row[self.axis.mark] for name, row in self.rows.items() if self.axis.mark in row
        }
        bottom = HEIGHT + STEP * len(marks) + 4
        drawn = [*self._frame(y)]
        for place in places[:: 1 + len(places) // (MOST_LABELS + 1)]:
            drawn.append(draw_text(x(place), bottom + 14, f"{place:g}", "middle"))
        for name in self.rows:
            drawn += _draw_curve(self.points(name), x, y, f"var(--{self.colours[name]})")
        for number, (name, cell) in enumerate(marks.items()):
            start = y(self.axis.line) if self.axis.line is not None else HEIGHT
            ends = start, HEIGHT + 4 + STEP * (number + 0.5)
            drawn += _draw_mark(cell, x, ends, f"var(--{self.colours[name]})")
        drawn.append(draw_text((LEFT + RIGHT) / 2, bottom + 27, self.axis.title, "middle"))
        texts = {name: f": {write_estimate(cell, most=1)}" for name, cell in marks.items()}
        only = texts.get(next(iter(self.rows)), "") if len(self.rows) == 1 else ""
        hollow = {p.low is None for name in self.rows for p in self.points(name).values()}
        notes = [f"{MARK}\N{NO-BREAK SPACE}{self.axis.mark}{only}"] if marks else []
        return Plot(
            title=self.title,
            svg=frame(drawn, bottom + 30),
            words="; ".join(self._words(name) for name in self.rows),
            note="; ".join([*notes, *([HOLLOW] if len(hollow) > 1 else [])]),
            legend=tuple((name + texts.get(name, ""), self.colours[name]) for name in self.rows),
        )

    def _frame(self, y: Scale) -> Iterator[str]:
        line, ticks = self.axis.line, dict(number_ticks(*self.reach))
        if line is not None:
            ticks = {at: text for at, text in ticks.items() if abs(y(at) - y(line)) > 1.5 * LINE}
            ticks[line] = f"{line:g}"
        for tick, text in ticks.items():
            at = f'x1="{LEFT}" x2="{RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"'
            yield f'<line class="{"zero" if tick == line else "grid"}" {at}/>'
            yield draw_text(LEFT - 5, y(tick) + 3.5, text, "end")

    def _words(self, series: str) -> str:
        mark = self.rows[series].get(self.axis.mark)
        points = self.points(series).items()
        numbers = [f"{place:g}: {value:.3g}" for place, (value, _, _) in points]
        broken = f"{self.axis.mark} {write_estimate(mark, most=1)}; " if mark else ""
        return f"{series}: {broken}{self.axis.title} {', '.join(numbers)}"


def _draw_curve(points: Mapping[float, Point], x: Scale, y: Scale, paint: str) -> Iterator[str]:
    """The curve over its band, which has gaps where points are hollow: without an interval."""
    for _, part in groupby(points.items(), key=lambda item: item[1].low is None):
        ends = [(x(at), point[1:]) for at, point in part]
        upper = [f"{at:.1f},{y(high):.1f}" for at, (_, high) in ends if high is not None]
        lower = [f"{at:.1f},{y(low):.1f}" for at, (low, _) in ends if low is not None]
        band = " ".join([*upper, *lower[::-1]])
        if band:
            yield f'<polygon class="band" points="{band}" style="fill:{paint};stroke:{paint}"/>'
    middle = " ".join(f"{x(at):.1f},{y(point.value):.1f}" for at, point in points.items())
    yield f'<polyline points="{middle}" style="stroke:{paint}"/>'
    for at, point in points.items():
        fill = "var(--paper)" if point.low is None else paint
        place = f'cx="{x(at):.1f}" cy="{y(point.value):.1f}"'
        yield f'<circle {place} r="2.2" style="fill:{fill};stroke:{paint}"/>'


def _draw_mark(cell: Cell, x: Scale, ends: tuple[float, float], paint: str) -> Iterator[str]:
    if not isinstance(cell.value, float):
        return
    start, row = ends
    if cell.low is not None and cell.high is not None:
        across = f'x1="{x(cell.low):.1f}" x2="{x(cell.high):.1f}" y1="{row:.1f}" y2="{row:.1f}"'
        yield f'<line class="interval-line" {across} style="stroke:{paint}"/>'
    middle = x(cell.value)
    if outside := cell.outside(cell.value):
        before = (middle if cell.low is None else x(cell.low)) - 5
        yield f'<g style="fill:{paint}">{draw_text(before, row + 3.5, outside, "end")}</g>'
        return
    down = f'x1="{middle:.1f}" x2="{middle:.1f}" y1="{start:.1f}" y2="{row:.1f}"'
    yield f'<line class="drop" {down} style="stroke:{paint}"/>'
    shape = f"M{middle:.1f},{row - 4.5:.1f}l4.5,4.5l-4.5,4.5l-4.5,-4.5z"
    yield f'<path d="{shape}" style="fill:{paint}"/>'


def run_curves(tables: Iterable[Table], display: Display) -> list[Curves]:
    """A picture for each turn with a curve per condition; of other rows, one for each."""
    conditions = dict.fromkeys(display.place_of(row)[1] for row in display.rows)
    pictures = []
    for table in tables:
        rows = []
        for row, cells in table.rows.items():
            turn, condition = display.place_of(row) if row in display.rows else (row, row)
            rows.append((condition, turn, cells))
        pictures += _pictures(table, rows, [*conditions])
    return pictures


def curves_of_runs(runs: Sequence[FinishedRun], display: Display) -> list[Curves]:
    """A picture for each row of the runs' tables, with a curve per run."""
    names = [run.label for run in runs]
    pictures = []
    for table in runs[0].tables:
        pictures += _pictures(table, rows_of_runs(runs, table.name, display), names)
    return pictures


def _pictures(
    table: Table, rows: Iterable[tuple[str, str, Mapping[str, Cell]]], names: Sequence[str]
) -> list[Curves]:
    if table.axis is None:
        return []
    colours = colours_of(names)
    pictures: dict[str, Curves] = {}
    for series, place, cells in rows:
        if place not in pictures:
            pictures[place] = Curves(
                title=f"{table.title}: {place}" if place else table.title,
                table=table,
                axis=table.axis,
                colours=colours if series in colours else colours_of([series]),
            )
        pictures[place].rows[series] = cells
    drawn = [curves for curves in pictures.values() if curves.is_drawn]
    share_scale(drawn)
    return drawn


def share_scale(pictures: Sequence[Curves]) -> None:
    """Let all these pictures of one table reach from the least to the largest of their numbers."""
    numbers = [
        number
        for curves in pictures
        for name in curves.rows
        for point in curves.points(name).values()
        for number in (*point, curves.axis.line)
        if number is not None
    ]
    for curves in pictures:
        low, high = min(numbers), max(numbers)
        curves.reach = (low, high) if low < high else (low - 1, high + 1)
