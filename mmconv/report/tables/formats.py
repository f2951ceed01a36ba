"""Tables in every format, and as files.

CSV and JSON, for programs, are made here; Markdown too.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson

from mmconv.core.atomic_writes import write_file
from mmconv.core.errors import DataError
from mmconv.core.types import Cell, Table
from mmconv.report.tables.cells import (
    cell_parts,
    is_text,
    notes_below,
    one_line,
    round_number,
    shared_notes,
)
from mmconv.report.tables.latex import to_latex
from mmconv.report.tables.text import to_text
from mmconv.run_folder.saved_run import INDEX, read_names

_MARKDOWN = re.compile(r"([\\`*_|<$~]|\](?=\()|&(?=#?\w+;))")

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""Text that begins with one of these signs is a formula to spreadsheets."""


def to_markdown(table: Table) -> str:
    """A pipe table under its title, with the notes as a list."""

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    rules = ("---" if is_text(table, column) else "---:" for column in table.columns)
    lines = [
        f"**{in_markdown(table.title)}**",
        "",
        line(["", *map(in_markdown, table.columns)]),
        line(["---", *rules]),
    ]
    for name, row in table.rows.items():
        cells = (" ".join(filter(None, cell_parts(row.get(c), table))) for c in table.columns)
        lines.append(line([in_markdown(name), *map(in_markdown, cells)]))
    notes = [f"- {in_markdown(note)}" if note else "" for note in notes_below(table)]
    return "\n".join([*lines, *notes]) + "\n"


def in_markdown(text: str) -> str:
    """The text on one line, with the signs of Markdown and of GitHub's formulas escaped."""
    return _MARKDOWN.sub(r"\\\1", one_line(text))


def all_to_markdown(tables: Sequence[Table]) -> str:
    """Several tables; shared notes are numbered at the end."""
    numbers = {note: number for number, note in enumerate(shared_notes(tables), start=1)}
    texts = []
    for table in tables:
        notes = [note for note in table.notes if note not in numbers]
        references = sorted(numbers[note] for note in table.notes if note in numbers)
        if references:
            many = "s" if len(references) > 1 else ""
            notes.append(f"See note{many} {', '.join(map(str, references))} at the end.")
        texts.append(to_markdown(replace(table, notes=tuple(notes))))
    if numbers:
        listed = (f"{number}. {in_markdown(note)}" for note, number in numbers.items())
        texts.append("\n".join(["**Notes**", "", *listed]) + "\n")
    return "\n\n".join(texts)


def to_csv(table: Table) -> str:
    """One line per row; a column C becomes C, C.to, C.low, C.high, C.n, C.missing and C.why.

    C.to is left out if no cell has it, C.low and C.high if no cell has an interval, the others if
    no cell counts anything.
    C.missing counts all missing values, C.why those of each reason. A text that a spreadsheet would
    take for a formula begins with `'`.
    """
    fields: list[tuple[str, str]] = []
    for column in table.columns:
        cells = [row[column] for row in table.rows.values() if column in row]
        has_ends = any(cell.low is not None or cell.high is not None for cell in cells)
        has_counts = any(cell.n is not None or cell.missing for cell in cells)
        has_bounds = any(cell.to is not None for cell in cells)
        ends = (*((".to",) * has_bounds), *((".low", ".high") * has_ends))
        names = ("", *ends, *((".n", ".missing", ".why") * has_counts))
        fields += ((column, name) for name in names)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["row", *(quote_formula(column + name) for column, name in fields)])
    for row_name, row in table.rows.items():
        entries = [
            _csv_entries(row[column])[name] if column in row else None for column, name in fields
        ]
        writer.writerow([quote_formula(entry) for entry in (row_name, *entries)])
    return stream.getvalue()


def _csv_entries(cell: Cell) -> dict[str, float | str | None]:
    counts_nothing = cell.n is None and not cell.missing
    reasons = (f"{count} {reason}" for reason, count in cell.missing.items() if count)
    return {
        "": cell.value,
        ".to": cell.to,
        ".low": cell.low,
        ".high": cell.high,
        ".n": cell.n,
        ".missing": None if counts_nothing else sum(cell.missing.values()),
        ".why": ", ".join(reasons),
    }


def quote_formula(entry: float | str | None) -> float | str | None:
    """The entry of a CSV file; a text that spreadsheets take for a formula gets a `'` before it."""
    is_formula = isinstance(entry, str) and _FORMULA.match(entry)
    return f"'{entry}" if is_formula else entry


def unquote_formula(text: str) -> str:
    """The text that `quote_formula` was called with."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text[1:]) else text


def to_json(table: Table) -> str:
    """One object: the table's own fields, and rows -> row -> column -> cell.

    A cell has value, n, missing (reason -> count), low and high; a change in a table that is not
    `signed` has `signed` too, a number within bounds `to`, one with fewer digits `digits`, and one
    that may be outside its axis the `ends`.
    """
    document = {
        "name": table.name,
        "title": table.title,
        "columns": table.columns,
        "digits": table.digits,
        "signed": table.signed,
        "detail": table.detail,
        "notes": table.notes,
        **({"findings": table.findings} if table.findings else {}),
        **({"axis": asdict(table.axis)} if table.axis else {}),
        "rows": {
            name: {column: row[column] for column in table.columns if column in row}
            for name, row in table.rows.items()
        },
    }
    # cells become objects one by one as they are written: a table may have tens of thousands
    looks = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_DATACLASS
    return orjson.dumps(document, _json_cell, looks).decode()


def _json_cell(cell: Cell) -> dict[str, Any]:
    return {
        "value": cell.value,
        "n": cell.n,
        "missing": dict(cell.missing),
        "low": cell.low,
        "high": cell.high,
        **({"signed": True} if cell.signed else {}),
        **({} if cell.to is None else {"to": cell.to}),
        **({} if cell.digits is None else {"digits": cell.digits}),
        **({} if cell.ends is None else {"ends": cell.ends}),
    }


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "txt": to_text,
    "csv": to_csv,
    "json": to_json,
    "md": to_markdown,
    "tex": to_latex,
}


def _check(table: Table) -> None:
    """Raise `ValueError` for a bad name, an unknown column, and a number that is not finite."""
    if not re.fullmatch(r"[\w-][\w.-]*", table.name):
        raise ValueError(f"a table's name is a plain file name, not {table.name!r}")
    for name, row in table.rows.items():
        if unknown := row.keys() - set(table.columns):
            raise ValueError(f"table {table.name}: row {name!r} has columns {sorted(unknown)}")
        for column, cell in row.items():
            for number in (cell.value, cell.to, cell.low, cell.high):
                if not isinstance(number, str | None) and not math.isfinite(number):
                    raise ValueError(f"table {table.name}: {name!r}, {column!r} is {number}")


def as_printed(tables: Iterable[Table], *, intervals: bool = False) -> dict[str, Any]:
    """Table -> row -> column -> value, n and missing (reason -> count), numbers as printed.

    They are rounded, for comparison with published numbers; with `intervals` there are low and high
    too. Raises `ValueError` for two tables of one name.
    """

    def printed(cell: Cell, table: Table) -> dict[str, Any]:
        numbers = {"value": cell.value} | (
            {"low": cell.low, "high": cell.high} if intervals else {}
        )
        rounded = {
            name: number if isinstance(number, str | None) else float(round_number(number, table))
            for name, number in numbers.items()
        }
        counts = {"n": cell.n, "missing": dict(cell.missing)}
        return {"value": rounded.pop("value")} | counts | rounded

    document: dict[str, Any] = {}
    for table in tables:
        _check(table)
        if table.name in document:
            raise ValueError(f"two tables have one name: {table.name!r}")
        document[table.name] = {
            name: {column: printed(row[column], table) for column in table.columns if column in row}
            for name, row in table.rows.items()
        }
    return document


def write_tables(folder: Path, tables: Sequence[Table]) -> None:
    """Write every table in every format as `<name>.<suffix>`, and their names as `INDEX`.

    Makes the folder, and removes tables of other names that were written there before. Raises
    `ValueError` for two tables of one name, and for a name that is not a plain file name or that of
    the index.
    """
    names = [table.name for table in tables]
    for table in tables:
        _check(table)
    if len({*names, Path(INDEX).stem}) <= len(names):
        raise ValueError(f"two tables have one name, or one that of the index: {sorted(names)}")
    folder.mkdir(parents=True, exist_ok=True)
    remove_tables(folder, keep=names)
    for table in tables:
        for suffix, render in FORMATS.items():
            write_file(folder / f"{table.name}.{suffix}", render(table))
    # last: readers who find the index expect all tables
    write_file(folder / INDEX, orjson.dumps(names) + b"\n")


def remove_tables(folder: Path, *, keep: Collection[str] = ()) -> None:
    """Remove what `write_tables` wrote into a folder, except tables of some names."""
    try:
        names = read_names(folder)
    except (FileNotFoundError, NotADirectoryError, DataError):
        return  # there are none, or no index says which are ours
    (folder / INDEX).unlink(missing_ok=True)
    for name in names:
        if name not in keep and Path(name).name == name:
            for suffix in FORMATS:
                (folder / f"{name}.{suffix}").unlink(missing_ok=True)
