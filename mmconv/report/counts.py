"""Counts that stand in every column of a table, told once: for tables that people read.

Files for programs keep all counts, see `mmconv.report.tables`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mmconv.values import Cell, Table


def tell_counts_once(table: Table) -> Table:
    """The table with n, and what is missing, in the first column that counts.

    A column keeps its own where they differ from these in any row. A note tells it.
    """
    counting = [
        column
        for column in table.columns
        if any(row[column].n is not None for row in table.rows.values() if column in row)
    ]
    like_first = [
        column
        for column in counting[1:]
        if all(_counts_alike(row, counting[0], column) for row in table.rows.values())
    ]
    if not like_first:
        return table
    rows = {
        name: {
            column: replace(cell, n=None, missing={}) if column in like_first else cell
            for column, cell in row.items()
        }
        for name, row in table.rows.items()
    }
    note = f"Columns without n have that of {counting[0]}, and lack what it lacks."
    return replace(table, rows=rows, notes=(note, *table.notes))


def _counts_alike(row: Mapping[str, Cell], first: str, column: str) -> bool:
    if column not in row:
        return True
    known = row.get(first)
    return known is not None and (known.n, known.missing) == (row[column].n, row[column].missing)
