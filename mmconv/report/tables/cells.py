"""What the renderings of a table share: checks, rounding, cell parts, notes, reasons in words.

The data (`scores.jsonl`, tables as CSV and JSON) keep the reasons of missing values as they are.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TypeAlias

from mmconv.core.types import SAME_TEXT, UNASKED, UNPAIRED, UNPARSED, Cell, Table

_RunAndWords: TypeAlias = tuple[str, str]

_WORDS: tuple[tuple[str, str], ...] = (
    (UNPARSED, "with an unreadable verdict"),
    ("failed: filter", "held back by a content filter"),
    (r"failed: (.+)", r"failed (\1)"),
    (f"skipped: {UNASKED}", UNASKED),
    (f"skipped: {SAME_TEXT}", "of the same text"),
    (r"skipped: turn_(\d+)", r"without an answer in turn \1"),
    (r"skipped: \w+/turn_(\d+)", r"without a verdict on turn \1"),
    (r"skipped: (.+)", r"without \1"),
    (r"no answer: (.+)", r"without an answer (\1)"),
    (r"no score (.+)", r"without a score \1"),
    (r"only on the (?:left|right)", "in one of the two only"),
)
"""What a reason is like, and its words after a count."""

_OF_A_RUN = re.compile(rf"(.+): ((?:{'|'.join(pattern for pattern, _ in _WORDS)}))")


def in_words(reason: str) -> _RunAndWords:
    """Whose reason it is, in a comparison of runs, else an empty text; and the reason in words."""
    bare = reason.removeprefix(UNPAIRED)
    words = _known_words(bare)
    if words is None and (of_a_run := _OF_A_RUN.fullmatch(bare)):
        return of_a_run[1], _known_words(of_a_run[2]) or of_a_run[2]
    return "", words or bare


def tell_reasons(missing: Mapping[str, int]) -> str:
    """How many are missing for which reason, the most frequent first; empty if none is.

    Reasons with the same words are added up.
    """
    return _listed(_worded(missing).most_common()) if missing else ""


def tell_largest(cells: Iterable[Mapping[str, int]], most: int) -> str:
    """The most frequent reasons of many cells, each with how many it takes from one cell at most.

    What several cells lack may be the same samples, so that their counts have no sum.
    """
    largest: Counter[_RunAndWords] = Counter()
    for cell in filter(None, cells):
        largest |= _worded(cell)
    listed = _listed(largest.most_common(most))
    others = len(largest) - most
    if others <= 0:
        return listed
    return f"{listed}; fewer for {others} other reason{'s' if others > 1 else ''}"


def _worded(missing: Mapping[str, int]) -> Counter[_RunAndWords]:
    counts: Counter[_RunAndWords] = Counter()
    for reason, count in missing.items():
        counts[in_words(reason)] += count
    return +counts


def _listed(counts: Sequence[tuple[_RunAndWords, int]]) -> str:
    """Counts with their words; those of one run stand together behind its label."""
    by_run: dict[str, list[str]] = {}
    for (run, words), count in counts:
        by_run.setdefault(run, []).append(f"{count} {words}")
    return "; ".join(
        f"in {run}: {', '.join(counted)}" if run else ", ".join(counted)
        for run, counted in by_run.items()
    )


def _known_words(reason: str) -> str | None:
    """One of the reasons that `mmconv.core.types` gives, in words; None for any other."""
    for pattern, words in _WORDS:
        if match := re.fullmatch(pattern, reason):
            return match.expand(words)
    return None


NONE = "–"
"""What stands for a value that is not there."""

LONG = 300
"""Signs below a table on what is missing; beyond these they are shortened where they can be."""

MOST_REASONS = 4
"""How many reasons a short list has."""

# the longest float has 309 digits before the point
_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)


def check_table(table: Table) -> None:
    """Refuse what only a bug can bring: a bad name, an unknown column, a number that is none."""
    if not re.fullmatch(r"[\w-][\w.-]*", table.name):
        raise ValueError(f"a table's name is a plain file name, not {table.name!r}")
    known = set(table.columns)
    for name, row in table.rows.items():
        if unknown := row.keys() - known:
            raise ValueError(f"table {table.name}: row {name!r} has columns {sorted(unknown)}")
        for column, cell in row.items():
            for number in (cell.value, cell.low, cell.high):
                if not isinstance(number, str | None) and not math.isfinite(number):
                    raise ValueError(f"table {table.name}: {name!r}, {column!r} is {number}")


def cell_parts(
    cell: Cell | None, table: Table, *, interval: str = "[{}, {}]", size: str = "n={}"
) -> tuple[str, str, str]:
    """What a reader sees of a cell: value, interval, counts; each may be empty.

    `interval` has places for its two ends, `size` one for how many values the cell is over.
    """
    if cell is None:
        return "", "", ""
    if cell.signed:
        table = replace(table, signed=True)
    ends_shown = ""
    if cell.low is not None and cell.high is not None:
        ends = (round_number(end, table, grouped=True) for end in (cell.low, cell.high))
        ends_shown = interval.format(*ends)
    counts = [] if cell.n is None else [size.format(cell.n)]
    if missing := sum(cell.missing.values()):
        counts.append(f"{missing} missing")
    return _value(cell.value, table), ends_shown, ", ".join(counts)


def stack_parts(table: Table, row: Mapping[str, Cell]) -> Iterator[tuple[str, ...]]:
    """The lines of a row, one text per column: the values, then intervals and counts if any."""
    parts = [cell_parts(row.get(column), table) for column in table.columns]
    yield tuple(value for value, _, _ in parts)
    for below in (tuple(part[1] for part in parts), tuple(part[2] for part in parts)):
        if any(below):
            yield below


def notes_below(
    table: Table, shape: Callable[[str], str] = str, elsewhere: str | None = None
) -> list[str]:
    """The notes, then what is missing and why; an empty line goes before them."""
    notes = [*table.notes, *missing_notes(table, elsewhere)]
    return ["", *map(shape, notes)] if notes else []


def missing_notes(table: Table, elsewhere: str | None) -> list[str]:
    """What is missing and why: rows and columns that lack the same together.

    With `elsewhere`, the place where all reasons stand, a long list of them gives way to the most
    frequent ones.
    """
    lacking: dict[str, list[str]] = {}
    for name, row in table.rows.items():
        if reasons := _lacking(row):
            lacking.setdefault(reasons, []).append(name)
    missing = [f"missing in {'; '.join(names)}: {reasons}" for reasons, names in lacking.items()]
    if elsewhere is not None and sum(map(len, missing)) > LONG:
        return [_in_short(table, elsewhere)]
    return missing


def shared_notes(tables: Sequence[Table]) -> list[str]:
    """The notes that more than one of the tables has, which are printed once for all of them."""
    count = Counter(note for table in tables for note in table.notes)
    return [note for note, tables_with_it in count.items() if tables_with_it > 1]


def tell_counts_once(table: Table) -> Table:
    """The table for readers, with n, and what is missing, in the first column that counts.

    A column keeps its own where they differ from these in any row. A note says so.
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


def tell_missing(cell: Cell) -> str:
    """How many are missing for which reason, as the data have it; empty if none is."""
    return ", ".join(f"{count} {reason}" for reason, count in cell.missing.items() if count)


def round_number(number: float, table: Table, *, grouped: bool = False) -> str:
    """A number with the table's digits, and its sign where the table says so.

    With `grouped`, for readers, it has a comma before every three digits.
    """
    exact = Decimal(repr(float(number)))
    rounded = exact.quantize(Decimal(1).scaleb(-table.digits), context=_EXACT)
    # what rounds to zero has no sign
    text = f"{rounded if rounded else abs(rounded):{',' if grouped else ''}f}"
    return f"+{text}" if table.signed and rounded > 0 else text


def one_line(text: str) -> str:
    """The text without line ends and stray blanks."""
    return " ".join(text.split())


def is_text(table: Table, column: str) -> bool:
    """Whether all cells of the column are text, as they are where there is none."""
    cells = [row[column].value for row in table.rows.values() if column in row]
    return all(isinstance(value, str) for value in cells)


def _counts_alike(row: Mapping[str, Cell], first: str, column: str) -> bool:
    if column not in row:
        return True
    known = row.get(first)
    return known is not None and (known.n, known.missing) == (row[column].n, row[column].missing)


def _lacking(row: Mapping[str, Cell]) -> str:
    """What a row lacks: columns with the same reasons together."""
    reasons: dict[str, list[str]] = {}
    for column, cell in row.items():
        if words := tell_reasons(cell.missing):
            reasons.setdefault(words, []).append(column)
    counting = sum(cell.n is not None for cell in row.values())
    lacking = []
    for why, columns in reasons.items():
        everywhere = len(columns) == counting > 2
        lacking.append(f"{'every column' if everywhere else ' and '.join(columns)}: {why}")
    return "; ".join(lacking)


def _in_short(table: Table, elsewhere: str) -> str:
    cells = (cell.missing for row in table.rows.values() for cell in row.values())
    largest = tell_largest(cells, MOST_REASONS)
    return f"missing, at most in one cell: {largest} (all of them: {elsewhere})"


def _value(value: float | str | None, table: Table) -> str:
    if value is None:
        return NONE
    return one_line(value) if isinstance(value, str) else round_number(value, table, grouped=True)
