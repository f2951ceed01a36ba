"""What rescoring hands back: the tables that published judgements lead to.

Each text benchmark reads its authors' layout by itself, and puts what is in it through the parsers,
scores and tables of a live run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mmconv.values import Cell, Table

_NOISE = 10
"""Decimals beyond which a mean's digits are those of its summation, not of the scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescored:
    """The tables of rescored judgements; what the files hide is among them, or in their notes."""

    tables: tuple[Table, ...]


def as_published(tables: Iterable[Table]) -> tuple[Table, ...]:
    """The tables with their numbers rounded as the authors' code does: by Python's `round`.

    It differs from rounding half up at exact ties only. CMT-Eval's files show it: a dialogue whose
    turns average 3.125 is stored as 3.12.
    """
    return tuple(map(_rounded, tables))


def _rounded(table: Table) -> Table:
    rows = {
        name: {column: _rounded_cell(cell, table.digits) for column, cell in row.items()}
        for name, row in table.rows.items()
    }
    return replace(table, rows=rows)


def _rounded_cell(cell: Cell, digits: int) -> Cell:
    if not isinstance(cell.value, float):
        return cell
    return replace(cell, value=round(round(cell.value, _NOISE), digits))
