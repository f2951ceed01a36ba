"""What the page prints of a table: texts for its cells, with the digits their intervals support."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mmconv.benchmarks.layouts import supported_digits
from mmconv.core.types import Cell, Table
from mmconv.report.tables.cells import cell_parts, missing_notes, tell_reasons
from mmconv.run_folder.layout import TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One cell as texts; `shade` (0 to 1) says how strongly it is coloured, None: not at all.

    `why` says what is missing; a cell of `words` is a text, any other a number. A cell of a
    heat map has its `size`, how many values it is over, of all where some are missing, and a mark
    if these are `few`.
    """

    value: str
    interval: str = ""
    counts: str = ""
    why: str = ""
    words: bool = False
    shade: float | None = None
    size: str = ""
    few: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row: its name, its cells, and a link within the page."""

    name: str
    cells: tuple[Shown | None, ...]
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table as it is printed; `groups` are titles over so many columns each."""

    id: str
    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    groups: tuple[tuple[str, int], ...] = ()
    more: int = 0

    def is_words(self, column: int) -> bool:
        """Whether the cells of a column are texts."""
        cells = [cell for line in self.lines if (cell := line.cells[column])]
        return bool(cells) and all(cell.words for cell in cells)


def grid(table: Table, *, notes: Iterable[str] | None = None, most: int = 300) -> Grid:
    """A table as it stands, of which at most so many rows; `more` counts those left out.

    `notes` take the place of its own. Below them stands what is missing, and why: hints beside the
    cells are for those who have a pointer.
    """
    rounded = {
        column: replace(table, digits=column_digits(cells, table.digits))
        for column in table.columns
        for cells in [[row[column] for row in table.rows.values() if column in row]]
    }
    lines = [
        Line(
            name=name,
            cells=tuple(shown(row.get(column), rounded[column]) for column in table.columns),
        )
        for name, row in table.rows.items()
    ]
    size, lines = same_size(lines)
    own = table.notes if notes is None else tuple(notes)
    return Grid(
        id=table.name,
        title=table.title,
        columns=table.columns,
        lines=tuple(lines[:most]),
        notes=(*([size] if size else []), *own, *why_missing(table)),
        more=max(0, len(lines) - most),
    )


def column_digits(cells: Iterable[Cell], most: int) -> int:
    """The decimals for cells that stand together: those that half of their intervals support.

    Only the page rounds like this; printed tables and files keep their digits.
    """
    digits = sorted(
        supported_digits(cell.low, cell.high, most)
        for cell in cells
        if cell.low is not None and cell.high is not None and cell.high > cell.low
    )
    return digits[len(digits) // 2] if digits else most


def why_missing(table: Table) -> list[str]:
    """What a table lacks, and why: the most frequent reasons where there are many."""
    return missing_notes(table, f"{TABLES}/{table.name}.txt")


def shown(cell: Cell | None, table: Table) -> Shown | None:
    """A cell as texts, rounded like its table."""
    if cell is None:
        return None
    value, interval, counts = cell_parts(cell, table, interval="{} to {}", size="n = {}")
    if isinstance(cell.value, str):
        return Shown(value=value, words=True)
    why = tell_reasons(cell.missing)
    return Shown(value=_typeset(value), interval=_typeset(interval), counts=counts, why=why)


def _typeset(numbers: str) -> str:
    return numbers.replace("-", "\N{MINUS SIGN}")


def same_size(lines: list[Line]) -> tuple[str, list[Line]]:
    """If all numbers stand on as many samples: that as one sentence, and the rows without it."""
    counts = {cell.counts for line in lines for cell in line.cells if cell and cell.counts}
    counted = sum(bool(cell and cell.counts) for line in lines for cell in line.cells)
    if len(counts) != 1 or counted < 2 or "missing" in (only := counts.pop()):
        return "", lines
    bare = [
        replace(line, cells=tuple(cell and replace(cell, counts="") for cell in line.cells))
        for line in lines
    ]
    return f"{only} throughout.", bare
