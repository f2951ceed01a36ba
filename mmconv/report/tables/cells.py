"""What the renderings of a table share: rounding, cell parts, notes, reasons in words.

`scores.jsonl` and tables as CSV and JSON keep the reasons of missing values as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TypeAlias

from mmconv.core.types import SAME_TEXT, UNASKED, UNPAIRED, UNPARSED, Cell, Table

RunAndWords: TypeAlias = tuple[str, str]

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
"""Patterns of reasons, and their words after a count."""

_OF_A_RUN = re.compile(rf"(.+): ((?:{'|'.join(pattern for pattern, _ in _WORDS)}))")

NONE = "–"

LONG = 300
"""Characters of notes on missing values; longer ones are shortened."""

MOST_REASONS = 4

# the longest float has 309 digits before the point
_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)


def in_words(reason: str) -> RunAndWords:
    """The run that a reason is of ("" outside comparisons), and the reason in words."""
    bare = reason.removeprefix(UNPAIRED)
    if words := _known_words(bare):
        return "", words
    if match := _OF_A_RUN.fullmatch(bare):
        return match[1], _known_words(match[2]) or match[2]
    return "", bare


def _known_words(reason: str) -> str | None:
    for pattern, words in _WORDS:
        if match := re.fullmatch(pattern, reason):
            return match.expand(words)
    return None


def _count_words(missing: Mapping[str, int]) -> Counter[RunAndWords]:
    counts: Counter[RunAndWords] = Counter()
    for reason, count in missing.items():
        counts[in_words(reason)] += count
    return +counts


def _list_counts(counts: Iterable[tuple[RunAndWords, int]]) -> str:
    by_run: dict[str, list[str]] = {}
    for (run, words), count in counts:
        by_run.setdefault(run, []).append(f"{count} {words}")
    return "; ".join(
        f"in {run}: {', '.join(counted)}" if run else ", ".join(counted)
        for run, counted in by_run.items()
    )


def word_reasons(missing: Mapping[str, int]) -> str:
    """How many are missing for which reason, the most frequent first; "" if none is."""
    return _list_counts(_count_words(missing).most_common())


def missing_notes(table: Table) -> list[str]:
    """What is missing and why: a note for the rows and columns that miss the same.

    Long notes are replaced by the most frequent reasons. Counts are the largest of one cell then:
    several cells may miss the same samples.
    """
    groups: dict[str, list[str]] = {}
    for name, row in table.rows.items():
        columns: dict[str, list[str]] = {}
        for column, cell in row.items():
            if words := word_reasons(cell.missing):
                columns.setdefault(words, []).append(column)
        counting = sum(cell.n is not None for cell in row.values())
        parts = (
            f"{'every column' if len(names) == counting > 2 else ' and '.join(names)}: {words}"
            for words, names in columns.items()
        )
        if columns:
            groups.setdefault("; ".join(parts), []).append(name)
    notes = [f"missing in {'; '.join(names)}: {reasons}" for reasons, names in groups.items()]
    if sum(map(len, notes)) <= LONG:
        return notes
    largest: Counter[RunAndWords] = Counter()
    for cell in (cell for row in table.rows.values() for cell in row.values() if cell.missing):
        largest |= _count_words(cell.missing)
    text = _list_counts(largest.most_common(MOST_REASONS))
    if (others := len(largest) - MOST_REASONS) > 0:
        text += f"; fewer for {others} other reason{'s' if others > 1 else ''}"
    return [f"missing, at most in one cell: {text} (CSV and JSON have all of them)"]


def notes_below(table: Table) -> list[str]:
    """The notes of a table and those on what is missing, after an empty line if there are any."""
    notes = [*table.notes, *missing_notes(table)]
    return ["", *notes] if notes else []


def shared_notes(tables: Sequence[Table]) -> list[str]:
    """The notes of more than one of the tables, which are printed once for all of them."""
    count = Counter(note for table in tables for note in table.notes)
    return [note for note, tables_with_it in count.items() if tables_with_it > 1]


def without_notes(table: Table, known: Collection[str]) -> Table:
    """The table without the notes that its reader has from another place."""
    return replace(table, notes=tuple(note for note in table.notes if note not in known))


def cell_parts(
    cell: Cell | None, table: Table, *, interval: str = "[{}, {}]", size: str = "n={}"
) -> tuple[str, str, str]:
    """The printed value, interval and counts of a cell; each may be empty."""
    if cell is None:
        return "", "", ""
    digits = table.digits if cell.digits is None else min(cell.digits, table.digits)
    table = replace(table, signed=table.signed or cell.signed, digits=digits)

    def write(number: float) -> str:
        return cell.outside(number) or round_number(number, table, grouped=True)

    if cell.value is None:
        value = NONE
    elif isinstance(cell.value, str):
        value = one_line(cell.value)
    else:
        value = write(cell.value)
        to = value if cell.to is None else write(cell.to)
        value += f" to {to}" if to != value else ""
    brackets = ""
    if cell.low is not None and cell.high is not None:
        brackets = interval.format(write(cell.low), write(cell.high))
    counts = [] if cell.n is None else [size.format(cell.n)]
    if missing := sum(cell.missing.values()):
        counts.append(f"{missing} missing")
    return value, brackets, ", ".join(counts)


def show_counts_once(table: Table) -> Table:
    """The table with counts in the first column only if others have the same, and a note."""
    counting = [
        column
        for column in table.columns
        if any(row[column].n is not None for row in table.rows.values() if column in row)
    ]

    def counts(row: Mapping[str, Cell], column: str) -> object:
        return (row[column].n, row[column].missing) if column in row else None

    alike = [
        column
        for column in counting[1:]
        if all(
            counts(row, column) in (None, counts(row, counting[0])) for row in table.rows.values()
        )
    ]
    if not alike:
        return table
    rows = {
        name: {
            column: replace(cell, n=None, missing={}) if column in alike else cell
            for column, cell in row.items()
        }
        for name, row in table.rows.items()
    }
    note = f"Columns without n have the n and the missing values of {counting[0]}."
    return replace(table, rows=rows, notes=(note, *table.notes))


def round_number(number: float, table: Table, *, grouped: bool = False) -> str:
    """A number with the table's digits, and a plus sign in a signed table.

    With `grouped`, for readers, it has a comma before every three digits.
    """
    exact = Decimal(repr(float(number)))
    rounded = exact.quantize(Decimal(1).scaleb(-table.digits), context=_EXACT)
    # what rounds to zero has no sign
    text = f"{rounded if rounded else abs(rounded):{',' if grouped else ''}f}"
    return f"+{text}" if table.signed and rounded > 0 else text


def two_digits(number: float) -> str:
    """A number with its first two digits and no exponent, as in `120`."""
    return f"{Decimal(f'{number:.2g}'):f}"


def one_line(text: str) -> str:
    """The text without line ends and stray blanks."""
    return " ".join(text.split())


def is_text(table: Table, column: str) -> bool:
    """Whether all cells of the column are text; true of a column without cells."""
    cells = [row[column].value for row in table.rows.values() if column in row]
    return all(isinstance(value, str) for value in cells)
