"""Findings: at most three short sentences about a run or a comparison, each with one number.

A benchmark declares its own (`Table.findings`). Otherwise they are the headline number and the
largest change of a run; those of a comparison are its significant differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from mmconv.benchmarks.base.layouts import write_estimate
from mmconv.benchmarks.options import Display
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import Comparison, Difference
from mmconv.report.tables.cells import two_digits

MOST = 3

WARNING = "WARNING: "
"""The begin of a note that is printed next to the findings."""


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
    significant = [each for each in comparison.differences if each.is_significant]
    if significant:
        return tuple(_difference(comparison, each, display) for each in significant[:MOST])
    for each in comparison.differences:
        if each.quantity.kind == "score" and has_interval(each.cells[each.column]):
            finding = f"No difference is significant. {_minus(comparison, each, display)}"
            if each.detectable is not None:
                finding += (
                    f" A true difference of {two_digits(each.detectable)} is found with 80 % power."
                )
            return (finding,)
    return ()


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


def _generic_findings(tables: Sequence[Table]) -> Iterator[str]:
    """The first number, and the largest change that is sure."""
    first = ""
    sure: dict[float, str] = {}
    for table in tables:
        signed = is_signed(table)
        for row, column in product(table.rows, table.columns):
            cell = table.rows[row].get(column)
            if cell is None or not isinstance(cell.value, float):
                continue
            text = f"{row}, {column}: {write_estimate(cell, signed=signed, most=table.digits)}"
            if not first and not signed and cell.n is not None:
                first = f"{text} (n = {cell.n:,})."
            if signed and has_interval(cell) and ((cell.low or 0.0) > 0 or (cell.high or 0.0) < 0):
                sure.setdefault(abs(cell.value), f"Largest change: {text}.")
    if first:
        yield first
    if sure:
        yield sure[max(sure)]


def _difference(comparison: Comparison, difference: Difference, display: Display) -> str:
    if difference.quantity.kind != "score":
        return _minus(comparison, difference, display)
    name = display.name_row(difference.quantity.name)
    scores = (each for each in comparison.differences if each.quantity.kind == "score")
    if len({each.column for each in scores}) > 1:
        name = f"{name}, {difference.column}"
    way = "better" if (difference.test.summary.mean or 0.0) > 0 else "worse"
    baseline = comparison.runs[0].label
    return f"{difference.run} is {way} than {baseline} in {name}: {_size(difference)}."


def _minus(comparison: Comparison, difference: Difference, display: Display) -> str:
    name = difference.quantity.name
    if difference.quantity.kind == "score":
        # a change keeps its own name: readers would take the other one for a score
        name = display.name_row(name)
    change = f"{name}, {difference.column}: {_size(difference)}"
    return f"{difference.run} minus {comparison.runs[0].label} in {change}."


def _size(difference: Difference) -> str:
    return write_estimate(difference.cells[difference.column], signed=True)
