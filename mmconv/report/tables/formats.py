"""Tables in every format, and as files: CSV and JSON for programs are made here.

Those for readers have modules of their own; what they have in common stands in
`mmconv.report.tables`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from mmconv.core.atomic_writes import atomic_write
from mmconv.core.errors import DataError
from mmconv.core.types import Cell, Table
from mmconv.report.tables.cells import (
    cell_parts,
    check_table,
    is_text,
    notes_below,
    one_line,
    round_number,
    shared_notes,
    tell_missing,
)
from mmconv.report.tables.latex import to_latex
from mmconv.report.tables.text import to_text
from mmconv.run_folder.saved_run import INDEX, read_names

_MARKDOWN = re.compile(r"([\\`*_|<$~]|\](?=\()|&(?=#?\w+;))")


def to_markdown(table: Table, elsewhere: str | None = None) -> str:
    """A pipe table under its title, each cell on one line, with the notes below as a list.

    For `elsewhere` see `mmconv.report.tables.cells.notes_below`.
    """
    check_table(table)

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
    return "\n".join([*lines, *notes_below(table, _item, elsewhere)]) + "\n"


def in_markdown(text: str) -> str:
    """The text on one line, in which no sign has a meaning of Markdown or of GitHub's formulas."""
    return _MARKDOWN.sub(r"\\\1", one_line(text))


def all_to_markdown(tables: Sequence[Table], folder: str) -> str:
    """Several tables below each other; what more than one of them notes is numbered at the end.

    The files in `folder` have all reasons of what is missing, and the most frequent stand here.
    """
    numbers = {note: number for number, note in enumerate(shared_notes(tables), start=1)}
    texts = []
    for table in tables:
        own = tuple(note for note in table.notes if note not in numbers)
        referred = sorted(numbers[note] for note in table.notes if note in numbers)
        if referred:
            many = "s" if len(referred) > 1 else ""
            own = (*own, f"See note{many} {', '.join(map(str, referred))} at the end.")
        texts.append(to_markdown(replace(table, notes=own), f"{folder}/{table.name}.md"))
    if numbers:
        listed = (f"{number}. {in_markdown(note)}" for note, number in numbers.items())
        texts.append("\n".join(["**Notes**", "", *listed]) + "\n")
    return "\n\n".join(texts)


def _item(note: str) -> str:
    return f"- {in_markdown(note)}"


_FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""What spreadsheets take for a formula: text that begins with one of these signs."""


def to_csv(table: Table) -> str:
    """One line per row; a column C becomes C, C.low, C.high, C.n, C.missing and C.why.

    A column without any interval lacks C.low and C.high, one that counts nothing C.n, C.missing and
    C.why: a column of text is one column. C.missing counts all that is missing, C.why how many
    for which reason. A text that a spreadsheet would take for a formula begins with `'`.
    """
    check_table(table)
    fields = {column: _csv_fields(table, column) for column in table.columns}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names = (column + field for column in fields for field in fields[column])
    writer.writerow(["row", *map(quote_formula, names)])
    for name, row in table.rows.items():
        entries = [
            _csv_entry(row.get(column), field) for column in fields for field in fields[column]
        ]
        writer.writerow([quote_formula(each) for each in (name, *entries)])
    return stream.getvalue()


def quote_formula(entry: float | str | None) -> float | str | None:
    """The entry of a CSV file; a text that spreadsheets take for a formula gets a `'` before it.

    Numbers stay numbers. `unquote_formula` takes the sign away again.
    """
    is_formula = isinstance(entry, str) and _FORMULA.match(entry)
    return f"'{entry}" if is_formula else entry


def unquote_formula(text: str) -> str:
    """The text that `quote_formula` was given."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text[1:]) else text


def to_json(table: Table) -> str:
    """One object: the table's own fields, and rows -> row -> column -> cell.

    A cell has value, n, missing (reason -> count), low and high; in tables that are not `signed`,
    `signed` where it is a change.
    """
    check_table(table)
    document = {
        "name": table.name,
        "title": table.title,
        "columns": table.columns,
        "digits": table.digits,
        "signed": table.signed,
        "detail": table.detail,
        "notes": table.notes,
        **({"findings": table.findings} if table.findings else {}),
        "rows": {
            name: {column: row[column] for column in table.columns if column in row}
            for name, row in table.rows.items()
        },
    }
    # cells become objects one by one as they are written: a table may have tens of thousands
    looks = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_DATACLASS
    return orjson.dumps(document, _json_cell, looks).decode()


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "txt": to_text,
    "csv": to_csv,
    "json": to_json,
    "md": to_markdown,
    "tex": to_latex,
}
"""The renderings by file name suffix."""


def as_printed(tables: Iterable[Table], *, intervals: bool = False) -> dict[str, Any]:
    """Table -> row -> column -> value, n and missing (reason -> count), numbers as printed.

    That is rounded, for comparison with what was published; with `intervals` low and high stand
    there too. Raises `ValueError` for two tables of one name.
    """
    document: dict[str, Any] = {}
    for table in tables:
        check_table(table)
        if table.name in document:
            raise ValueError(f"two tables have one name: {table.name!r}")
        document[table.name] = {
            name: {
                column: _printed(row[column], table, intervals)
                for column in table.columns
                if column in row
            }
            for name, row in table.rows.items()
        }
    return document


def write_tables(folder: Path, tables: Sequence[Table]) -> None:
    """Write every table in every format as `<name>.<suffix>`, their names as `INDEX`, each whole.

    Makes the folder if it is not there; tables that were written there before, by names that are
    none of these, are removed. Raises `ValueError` for two tables of one name, or a name
    that is not a plain file name or that of the index.
    """
    names = [table.name for table in tables]
    for table in tables:
        check_table(table)
    if len({*names, Path(INDEX).stem}) <= len(names):
        raise ValueError(f"two tables have one name, or one that of the index: {sorted(names)}")
    folder.mkdir(parents=True, exist_ok=True)
    remove_tables(folder, but=names)
    for table in tables:
        for suffix, render in FORMATS.items():
            _write(folder / f"{table.name}.{suffix}", render(table))
    # last: readers who find the index expect all tables
    _write(folder / INDEX, orjson.dumps(names).decode() + "\n")


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def remove_tables(folder: Path, *, but: Collection[str] = ()) -> None:
    """Remove what `write_tables` wrote into a folder, but for tables of some names."""
    try:
        written = read_names(folder)
    except (FileNotFoundError, NotADirectoryError, DataError):
        return  # none are there, or whose they are is not known
    (folder / INDEX).unlink(missing_ok=True)
    for name in written:
        if name not in but and Path(name).name == name:
            for suffix in FORMATS:
                (folder / f"{name}.{suffix}").unlink(missing_ok=True)


def _csv_fields(table: Table, column: str) -> tuple[str, ...]:
    cells = [row[column] for row in table.rows.values() if column in row]
    fields: tuple[str, ...] = ("",)
    if any(cell.low is not None or cell.high is not None for cell in cells):
        fields += (".low", ".high")
    if any(cell.n is not None or cell.missing for cell in cells):
        fields += (".n", ".missing", ".why")
    return fields


def _csv_entry(cell: Cell | None, field: str) -> float | str | None:
    if cell is None:
        return None
    match field:
        case ".low":
            return cell.low
        case ".high":
            return cell.high
        case ".n":
            return cell.n
        case ".missing":
            return None if cell.n is None and not cell.missing else sum(cell.missing.values())
        case ".why":
            return tell_missing(cell)
    return cell.value


def _printed(cell: Cell, table: Table, intervals: bool) -> dict[str, Any]:
    def printed(value: float | str | None) -> float | str | None:
        return value if isinstance(value, str | None) else float(round_number(value, table))

    entry = {"value": printed(cell.value), "n": cell.n, "missing": dict(cell.missing)}
    ends = {"low": printed(cell.low), "high": printed(cell.high)} if intervals else {}
    return entry | ends


def _json_cell(cell: Cell) -> dict[str, Any]:
    return {
        "value": cell.value,
        "n": cell.n,
        "missing": dict(cell.missing),
        "low": cell.low,
        "high": cell.high,
        **({"signed": True} if cell.signed else {}),
    }
