"""Compares the tables that are derived from metrics with those that a benchmark makes by hand."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from mmconv.benchmarks.metrics import Metric, quantities
from mmconv.core.types import Cell, Table
from mmconv.stats import Column, Quantity, ScoreFrame

TOLERANCE = 1e-11


def different_cells(old: Iterable[Table], new: Iterable[Table]) -> dict[tuple[str, str, str], str]:
    """(table, row, column) -> both cells, for each old cell that the new tables lack or change.

    A cell of the old tables without a number, n and missing samples says nothing and may go.
    """
    by_name = {table.name: table for table in new}
    found = {}
    for table in old:
        rows = by_name[table.name].rows if table.name in by_name else {}
        for row, cells in table.rows.items():
            for column, cell in cells.items():
                other = rows.get(row, {}).get(column)
                if not _is_same(cell, other):
                    found[table.name, row, column] = f"{cell} became {other}"
    return found


def different_quantities(
    frame: ScoreFrame, old: Iterable[Quantity], new: Iterable[Metric]
) -> list[tuple[str, str]]:
    """(name, group) of each old quantity that no metric yields with equal columns."""
    made = [*quantities(new, frame)]
    return [
        (quantity.name, quantity.group)
        for quantity in old
        if not any(_is_equal(quantity, each) for each in made)
    ]


def _is_same(cell: Cell, other: Cell | None) -> bool:
    if other is None:
        return cell.value is None and not cell.n and not cell.missing
    numbers = zip(
        (cell.value, cell.low, cell.high), (other.value, other.low, other.high), strict=True
    )
    same = all(_is_close(mine, theirs) for mine, theirs in numbers)
    return same and cell.n == other.n and dict(cell.missing) == dict(other.missing)


def _is_close(one: float | str | None, two: float | str | None) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return math.isclose(one, two, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return one == two


def _is_equal(old: Quantity, new: Quantity) -> bool:
    facts = ("name", "group", "scale", "reach")
    return all(getattr(old, name) == getattr(new, name) for name in facts) and _are_equal(
        old.columns, new.columns
    )


def _are_equal(old: Mapping[str, Column], new: Mapping[str, Column]) -> bool:
    return [*map(_rows, old.values())] == [*map(_rows, new.values())]


def _rows(column: Column) -> Collection[object]:
    return [*zip(column.samples, column.clusters, column.values, column.reasons, strict=True)]
