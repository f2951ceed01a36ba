"""Differences that are significant, marked where they stand.

A table's last column names them; on a telephone that is out of sight.
"""

from __future__ import annotations

from dataclasses import replace

from mmconv.core.types import Table
from mmconv.report.comparison.differences import DIFFERS, OF_COLUMNS, Comparison
from mmconv.report.page.content import Section
from mmconv.report.page.grids import Grid, Shown
from mmconv.report.page.views.convbench_sentences import Keys

MARK = "*"


def mark_significant(section: Section, comparison: Comparison) -> Section:
    """The section with marks in place of the column that names what differs."""
    tables = {table.name: table for table in comparison.tables if DIFFERS in table.columns}
    grids = tuple(
        _marked(each, tables[each.id], comparison.significant) if each.id in tables else each
        for each in section.grids
    )
    return replace(section, grids=grids)


def _marked(grid: Grid, table: Table, significant: Keys) -> Grid:
    """The table's lines, whose names may be typeset, are in the order of its rows."""
    kept = [place for place, column in enumerate(grid.columns) if column != DIFFERS]
    lines = tuple(
        replace(
            line,
            cells=tuple(
                _starred(line.cells[place], (row, grid.columns[place]) in significant)
                for place in kept
            ),
        )
        for row, line in zip(table.rows, grid.lines, strict=True)
    )
    return replace(
        grid,
        columns=tuple(grid.columns[place] for place in kept),
        lines=lines,
        notes=tuple(note.replace(OF_COLUMNS, f"{MARK}: the") for note in grid.notes),
    )


def _starred(cell: Shown | None, is_significant: bool) -> Shown | None:
    return replace(cell, value=f"{cell.value} {MARK}") if cell and is_significant else cell
