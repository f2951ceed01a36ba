"""Findings: at most three short sentences about a run or a comparison, each with one number.

A benchmark declares its own (`Table.findings`). Otherwise they are the headline number and the
largest change of a run; those of a comparison are its significant differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from mmconv.benchmarks.layouts import write_estimate
from mmconv.benchmarks.shared.options import Display
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import (
    DIFFERENCES,
    DIFFERS,
    SCORE_DIFFERENCES,
    Comparison,
)

MOST = 3
"""How many findings there are at most."""


def run_findings(tables: Sequence[Table]) -> tuple[str, ...]:
    """The findings of a run: those that its tables declare, or else the generic ones."""
    shown = [table for table in tables if not table.detail]
    declared = [finding for table in shown for finding in table.findings]
    return tuple(declared[:MOST]) or (*_headline(shown), *_largest_change(shown))


def comparison_findings(comparison: Comparison, display: Display) -> tuple[str, ...]:
    """Up to three significant differences, or the first difference if none is significant."""
    significant = (
        _difference(comparison, table, row, column, display)
        for table in comparison.tables
        if table.name in DIFFERENCES
        for row in table.rows
        for column in table.columns
        if (row, column) in comparison.significant and column in table.rows[row]
    )
    return tuple(islice(significant, MOST)) or tuple(_none_significant(comparison, display))


def has_interval(cell: Cell | None) -> bool:
    """Whether a cell holds a number with an interval."""
    return cell is not None and isinstance(cell.value, float) and cell.low is not None


def is_signed(table: Table) -> bool:
    """Whether all estimates of a table are changes."""
    cells = [cell for row in table.rows.values() for cell in row.values() if has_interval(cell)]
    return table.signed or (bool(cells) and all(cell.signed for cell in cells))


def is_estimate(cell: Cell | None) -> bool:
    """Whether a cell holds a number over counted values."""
    return cell is not None and isinstance(cell.value, float) and cell.n is not None


def _headline(tables: Sequence[Table]) -> Iterator[str]:
    """The first number with an interval, or else the first one that has an n."""
    plain = [table for table in tables if not is_signed(table)]
    found = next(_estimates(plain), None) or next(_estimates(plain, is_estimate), None)
    if found:
        row, column, cell, table = found
        size = f" (n = {cell.n:,})" if cell.n is not None else ""
        yield f"{row}, {column}: {write_estimate(cell, most=table.digits)}{size}."


def _largest_change(tables: Sequence[Table]) -> Iterator[str]:
    """The largest change of which the interval does not hold 0."""
    sure = [
        found
        for found in _estimates([table for table in tables if is_signed(table)])
        if (found[2].low or 0.0) > 0 or (found[2].high or 0.0) < 0
    ]
    if sure:
        row, column, cell, table = max(sure, key=lambda found: abs(_value(found[2])))
        change = write_estimate(cell, signed=True, most=table.digits)
        yield f"Largest change: {row}, {column}: {change}."


def _estimates(
    tables: Sequence[Table], is_one: Callable[[Cell | None], bool] = has_interval
) -> Iterator[tuple[str, str, Cell, Table]]:
    """All numbers of a kind with their rows, columns and tables."""
    for table in tables:
        for row, cells in table.rows.items():
            for column in table.columns:
                if is_one(cells.get(column)):
                    yield row, column, cells[column], table


def _difference(
    comparison: Comparison, table: Table, row: str, column: str, display: Display
) -> str:
    quantity, label = split_row(comparison, row)
    name = display.name_row(quantity)
    cell = table.rows[row][column]
    baseline = comparison.runs[0].label
    change = write_estimate(cell, signed=True, most=table.digits)
    way = "better" if _value(cell) > 0 else "worse"
    if table.name != SCORE_DIFFERENCES:
        return f"{label} minus {baseline} in {name}, {column}: {change}."
    several = len([each for each in table.columns if each != DIFFERS]) > 1
    what = f"{name}, {column}" if several else name
    return f"{label} is {way} than {baseline} in {what}: {change}."


def split_row(comparison: Comparison, row: str) -> tuple[str, str]:
    """The quantity and the run that a row of differences is about."""
    others = [run.label for run in comparison.runs[1:]]
    if len(others) == 1:
        return row, others[0]
    label = max((each for each in others if row.endswith(f", {each}")), key=len, default="")
    return row.removesuffix(f", {label}"), label


def _none_significant(comparison: Comparison, display: Display) -> Iterator[str]:
    tables = [table for table in comparison.tables if table.name == SCORE_DIFFERENCES]
    for row, column, cell, table in _estimates(tables):
        quantity, label = split_row(comparison, row)
        name = display.name_row(quantity)
        change = write_estimate(cell, signed=True, most=table.digits)
        baseline = comparison.runs[0].label
        yield (
            f"No difference is significant. {label} minus {baseline} in {name}, {column}: {change}."
        )
        return


def _value(cell: Cell) -> float:
    return cell.value if isinstance(cell.value, float) else 0.0
