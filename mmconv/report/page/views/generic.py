"""How a run is shown whose benchmark has no view of its own: its tables, in their order.

Of the first table that has intervals, the columns are plotted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mmconv.core.types import Table
from mmconv.report.page.content import Section, View
from mmconv.report.page.grids import grid
from mmconv.report.page.plots import Plot, Series, point_of, sideways, span

MOST_PLOTS = 4
MOST_PLACES = 26
"""A plot of more rows is not read but searched; the table does that better."""


def view(tables: Sequence[Table]) -> View:
    """The first table as the headline; tables of detail are folded."""
    return View(lead=(), sections=tuple(sections(tables)), words=verdict_words)


def sections(tables: Sequence[Table]) -> Iterator[Section]:
    """One section for each table to read; plots stand in the first that has something for them."""
    shown = [table for table in tables if not table.detail and table.rows]
    plotted = next((table for table in shown if any(_columns(table))), None)
    for place, table in enumerate(shown):
        yield Section(
            id=table.name,
            title=table.title,
            short="Scores" if place == 0 else "",
            plots=tuple(_plots(table)) if table is plotted else (),
            grids=(grid(table),),
        )


def verdict_words(call: str, label: str | None, scores: Mapping[str, float]) -> str:
    """The label and the scores by name."""
    told = [f"{name} {value:g}" for name, value in scores.items()]
    if len(told) == 1 and label is None:
        return f"{next(iter(scores.values())):g}"
    return ", ".join([*([label] if label else []), *told])


def _plots(table: Table) -> Iterator[Plot]:
    """Plots of columns; those of one unit have one axis, so that positions can be compared."""
    points = {
        column: tuple(point_of(row.get(column)) for row in table.rows.values())
        for column in _columns(table)[:MOST_PLOTS]
    }
    for column, drawn in points.items():
        alike = [
            each for other in points if _unit(other) == _unit(column) for each in points[other]
        ]
        series = Series(name=column, colour="series-1", points=drawn)
        yield sideways(column, list(table.rows), series, span(alike), zero=table.signed)


def _unit(column: str) -> str:
    """What stands in brackets at the end of a column's title, as in `direct (1-10)`."""
    return column.rpartition("(")[2] if column.endswith(")") else ""


def _columns(table: Table) -> list[str]:
    """The columns that can be plotted: at least two intervals, and not too many rows."""
    if len(table.rows) > MOST_PLACES:
        return []
    ends = {
        column: [row[column].low for row in table.rows.values() if column in row]
        for column in table.columns
    }
    return [column for column, lows in ends.items() if len(lows) - lows.count(None) >= 2]
