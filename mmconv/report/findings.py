"""Findings: at most three short sentences about a run or a comparison, each with one number.

A benchmark declares its own (`Table.findings`). Otherwise they are the headline number and the
largest change of a run; those of a comparison are its significant differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from mmconv.benchmarks.base.layouts import write_estimate
from mmconv.benchmarks.options import Display
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import (
    DIFFERENCES,
    DIFFERS,
    SCORE_DIFFERENCES,
    Comparison,
)

MOST = 3

WARNING = "WARNING: "
"""The begin of a note that is printed next to the findings."""


class _Estimate(NamedTuple):
    row: str
    column: str
    cell: Cell
    table: Table

    @property
    def value(self) -> float:
        return self.cell.value if isinstance(self.cell.value, float) else 0.0

    def write(self, *, signed: bool = True) -> str:
        return write_estimate(self.cell, signed=signed, most=self.table.digits)


def run_findings(tables: Sequence[Table]) -> tuple[str, ...]:
    """The findings of a run: those that its tables declare, or else the generic ones."""
    printed = [table for table in tables if not table.detail]
    declared = [finding for table in printed for finding in table.findings]
    return tuple(declared[:MOST]) or tuple(_generic_findings(printed))


def run_warnings(tables: Sequence[Table]) -> tuple[str, ...]:
    """The notes of a run's tables that warn of its numbers."""
    notes = (note for table in tables for note in table.notes)
    return tuple(dict.fromkeys(note for note in notes if note.startswith(WARNING)))


def comparison_findings(comparison: Comparison, display: Display) -> tuple[str, ...]:
    """Up to three significant differences, or the first difference if none is significant."""
    tables = [table for table in comparison.tables if table.name in DIFFERENCES]
    significant = (
        _difference(comparison, estimate, display)
        for estimate in _estimates(tables, lambda cell: cell is not None)
        if (estimate.row, estimate.column) in comparison.significant
    )
    if findings := tuple(islice(significant, MOST)):
        return findings
    scores = [table for table in tables if table.name == SCORE_DIFFERENCES]
    first = next(_estimates(scores), None)
    if first is None:
        return ()
    power = ""
    if (size := comparison.detectable.get((first.row, first.column))) is not None:
        power = f" A true difference of {size:.2g} is found with 80 % power."
    return (f"No difference is significant. {_minus(comparison, first, display)}{power}",)


def has_interval(cell: Cell | None) -> bool:
    """Whether a cell has a number with an interval."""
    return cell is not None and isinstance(cell.value, float) and cell.low is not None


def is_signed(table: Table) -> bool:
    """Whether all estimates of a table are changes."""
    cells = [cell for row in table.rows.values() for cell in row.values() if has_interval(cell)]
    return table.signed or (bool(cells) and all(cell.signed for cell in cells))


def is_estimate(cell: Cell | None) -> bool:
    """Whether a cell has a number over counted values."""
    return cell is not None and isinstance(cell.value, float) and cell.n is not None


def split_row(comparison: Comparison, row: str) -> tuple[str, str]:
    """The quantity and the run that a row of differences is about."""
    others = [run.label for run in comparison.runs[1:]]
    if len(others) == 1:
        return row, others[0]
    label = max((other for other in others if row.endswith(f", {other}")), key=len, default="")
    return row.removesuffix(f", {label}"), label


def _generic_findings(tables: Sequence[Table]) -> Iterator[str]:
    """The first number, and the largest change that is sure."""
    plain = [table for table in tables if not is_signed(table)]
    if first := next(_estimates(plain, is_estimate), None):
        size = f" (n = {first.cell.n:,})" if first.cell.n is not None else ""
        yield f"{first.row}, {first.column}: {first.write(signed=False)}{size}."
    changes = [
        estimate
        for estimate in _estimates([table for table in tables if is_signed(table)])
        if (estimate.cell.low or 0.0) > 0 or (estimate.cell.high or 0.0) < 0
    ]
    if changes:
        largest = max(changes, key=lambda estimate: abs(estimate.value))
        yield f"Largest change: {largest.row}, {largest.column}: {largest.write()}."


def _estimates(
    tables: Sequence[Table], is_one: Callable[[Cell | None], bool] = has_interval
) -> Iterator[_Estimate]:
    for table in tables:
        for row, cells in table.rows.items():
            for column in table.columns:
                if column in cells and is_one(cells[column]):
                    yield _Estimate(row, column, cells[column], table)


def _difference(comparison: Comparison, estimate: _Estimate, display: Display) -> str:
    if estimate.table.name != SCORE_DIFFERENCES:
        return _minus(comparison, estimate, display)
    quantity, label = split_row(comparison, estimate.row)
    name = display.name_row(quantity)
    if len([column for column in estimate.table.columns if column != DIFFERS]) > 1:
        name = f"{name}, {estimate.column}"
    way = "better" if estimate.value > 0 else "worse"
    return f"{label} is {way} than {comparison.runs[0].label} in {name}: {estimate.write()}."


def _minus(comparison: Comparison, estimate: _Estimate, display: Display) -> str:
    quantity, label = split_row(comparison, estimate.row)
    if estimate.table.name == SCORE_DIFFERENCES:
        # a change keeps its own name: readers would take the other one for a score
        quantity = display.name_row(quantity)
    change = f"{quantity}, {estimate.column}: {estimate.write()}"
    return f"{label} minus {comparison.runs[0].label} in {change}."
