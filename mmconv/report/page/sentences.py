"""What the deltas of ConvBench mean, in plain sentences for the page and for a terminal.

A sentence says no more than its interval allows. The numbers come from the tables `deltas` and
`attribution_net`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import itemgetter

from mmconv.benchmarks.convbench.quantities import DIRECT, PAIRWISE, Grading
from mmconv.report.page.display import number
from mmconv.values import Cell, Table

CLAIMS = {
    "S2_hat - S2": ("With perfect perception, reasoning", "reasoning comes from perception"),
    "S3_hat - S3": ("With perfect perception, creation", "creation comes from perception"),
    "S3_tilde - S3_hat": (
        "With perfect reasoning on top, creation",
        "creation comes from reasoning",
    ),
}
"""Delta -> how its sentence starts, and what a gain says of the errors without the given turn."""


def delta_sentences(tables: Iterable[Table]) -> tuple[str, ...]:
    """One sentence for each delta of a turn, by the first grading that has a value for it."""
    deltas = next((table for table in tables if table.name == "deltas"), None)
    return () if deltas is None else tuple(_sentences(deltas))


def _sentences(deltas: Table) -> Iterator[str]:
    for name, (start, meaning) in CLAIMS.items():
        row = deltas.rows.get(name, {})
        for grading in (DIRECT, PAIRWISE):
            cell = row.get(grading.title)
            if cell is not None and isinstance(cell.value, float):
                yield f"{start} {_told(cell, cell.value, grading, deltas, meaning)}"
                break


def _told(cell: Cell, value: float, grading: Grading, table: Table, meaning: str) -> str:
    unsigned = replace(table, signed=False)
    verb = "gains" if value > 0 else "loses"
    size = f"{number(abs(value), unsigned)} {_UNITS[grading.name]}"
    if cell.low is None or cell.high is None:
        if value == 0:
            return f"stays as it is in all {cell.n} samples."
        return f"{verb} {size} (no interval: too few samples, or all alike)."
    interval = f"95 % interval {number(cell.low, table)} to {number(cell.high, table)}"
    if cell.low <= 0 <= cell.high:
        return (
            f"{verb} {size} ({interval}): with {cell.n} samples, this cannot be told from chance."
        )
    if value > 0:
        return f"{verb} {size} ({interval}): part of what is wrong in {meaning}."
    return f"{verb} {size} ({interval}): what is given does not help this model."


_UNITS = {DIRECT.name: "points of 10", PAIRWISE.name: "percentage points of wins"}


def attribution_sentences(table: Table, column: str) -> tuple[str, ...]:
    """Which level most failures of each level are due to, from the table `attribution_net`."""
    found: dict[str, list[tuple[str, Cell]]] = {}
    for name, row in table.rows.items():
        level, due, blamed = name.partition(DUE)
        if due and column in row:
            found.setdefault(level, []).append((blamed, row[column]))
    return tuple(filter(None, (_blamed(level, cells, table) for level, cells in found.items())))


DUE = " failed: due to "
"""What stands in a row's name between the level that failed and the level that is blamed."""


def _blamed(level: str, cells: Iterable[tuple[str, Cell]], table: Table) -> str:
    shares = [(cell.value, blamed, cell) for blamed, cell in cells if isinstance(cell.value, float)]
    if not shares:
        return ""
    share, blamed, cell = max(shares, key=itemgetter(0))
    whole = replace(table, digits=0)
    source = f"{level} itself" if blamed == level else blamed
    told = f"Most failures in {level} come from {source}: {number(share, whole)} % net"
    if cell.low is None or cell.high is None:
        return f"{told} (no interval: too few failures)."
    interval = f"{number(cell.low, whole)} to {number(cell.high, whole)} %"
    return f"{told} (95 % interval {interval})."
