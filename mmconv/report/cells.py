"""What the renderings of a table share: checks, rounding, the parts of a cell, the notes below.

How a format puts them down is told in `mmconv.report.tables` and `mmconv.report.latex`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal

from mmconv.values import Cell, Table

NONE = "–"
"""What stands for a value that is not there."""

# the longest float has 309 digits before the point
_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)


def check_table(table: Table) -> None:
    """Refuse what only a bug can bring: a bad name, an unknown column, a number that is none."""
    if not re.fullmatch(r"[\w-][\w.-]*", table.name):
        raise ValueError(f"a table's name is a plain file name, not {table.name!r}")
    for name, row in table.rows.items():
        if unknown := row.keys() - set(table.columns):
            raise ValueError(f"table {table.name}: row {name!r} has columns {sorted(unknown)}")
        for column, cell in row.items():
            for number in (cell.value, cell.low, cell.high):
                if not isinstance(number, str | None) and not math.isfinite(number):
                    raise ValueError(f"table {table.name}: {name!r}, {column!r} is {number}")


def cell_parts(cell: Cell | None, table: Table) -> tuple[str, str, str]:
    """What a reader sees of a cell: value, interval, counts; each may be empty."""
    if cell is None:
        return "", "", ""
    interval = ""
    if cell.low is not None and cell.high is not None:
        low, high = round_number(cell.low, table), round_number(cell.high, table)
        interval = f"[{low}, {high}]"
    counts = [] if cell.n is None else [f"n={cell.n}"]
    if missing := sum(cell.missing.values()):
        counts.append(f"{missing} missing")
    return _value(cell.value, table), interval, ", ".join(counts)


def stack_parts(table: Table, row: Mapping[str, Cell]) -> Iterator[tuple[str, ...]]:
    """The lines of a row, one text per column: the values, then intervals and counts if any."""
    parts = [cell_parts(row.get(column), table) for column in table.columns]
    yield tuple(value for value, _, _ in parts)
    for below in (tuple(part[1] for part in parts), tuple(part[2] for part in parts)):
        if any(below):
            yield below


def notes_below(table: Table, shape: Callable[[str], str] = str) -> list[str]:
    """The notes, then what is missing and why: rows and columns that lack the same together.

    An empty line goes before them.
    """
    lacking: dict[str, list[str]] = {}
    for name, row in table.rows.items():
        if told := _lacking(row):
            lacking.setdefault(told, []).append(name)
    notes = [*table.notes]
    notes += [f"missing in {'; '.join(names)}: {told}" for told, names in lacking.items()]
    return ["", *map(shape, notes)] if notes else []


def tell_missing(cell: Cell) -> str:
    """How many are missing for which reason; empty if none is."""
    return ", ".join(f"{count} {reason}" for reason, count in cell.missing.items() if count)


def round_number(number: float, table: Table) -> str:
    """A number with the table's digits, and its sign where the table says so."""
    exact = Decimal(repr(float(number)))
    rounded = exact.quantize(Decimal(1).scaleb(-table.digits), context=_EXACT)
    # what rounds to zero has no sign
    text = f"{rounded if rounded else abs(rounded):f}"
    return f"+{text}" if table.signed and rounded > 0 else text


def one_line(text: str) -> str:
    """The text without line ends and stray blanks."""
    return " ".join(text.split())


def is_text(table: Table, column: str) -> bool:
    """Whether all cells of the column are text, as they are where there is none."""
    cells = [row[column].value for row in table.rows.values() if column in row]
    return all(isinstance(value, str) for value in cells)


def _lacking(row: Mapping[str, Cell]) -> str:
    """What a row lacks: columns with the same reasons together."""
    reasons: dict[str, list[str]] = {}
    for column, cell in row.items():
        if any(cell.missing.values()):
            reasons.setdefault(tell_missing(cell), []).append(column)
    counting = sum(cell.n is not None for cell in row.values())
    told = []
    for why, columns in reasons.items():
        everywhere = len(columns) == counting > 2
        told.append(f"{'every column' if everywhere else ' and '.join(columns)}: {why}")
    return "; ".join(told)


def _value(value: float | str | None, table: Table) -> str:
    if value is None:
        return NONE
    return one_line(value) if isinstance(value, str) else round_number(value, table)
