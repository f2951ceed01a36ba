"""Records: what the rows of .xlsx, .csv, .jsonl and .json files hold, and where each one stands.

Every benchmark reads its data through here. Which fields must be there, what they mean and what to
do about a bad record is the benchmark's business. Nothing is written here.
"""

from __future__ import annotations

import csv
import zlib
from codecs import BOM_UTF8
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import orjson

from mmconv.errors import DataError

_SHEET_ERRORS = frozenset({"#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A"})

# What openpyxl lets through for a file that is no workbook, or a damaged one.
_XLSX_ERRORS = (BadZipFile, zlib.error, KeyError, IndexError, TypeError, ValueError, SyntaxError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record: `where` it stands, in words that a person can look up, and its raw fields.

    An empty cell is None in a spreadsheet and "" in a .csv file.
    """

    where: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """What stands where a record should be: a line that is not JSON, an item that is no object."""

    where: str
    fault: str


def read_records(
    path: Path, sheet: str | None = None, *, skip: Container[str] = ()
) -> Iterator[Record]:
    """Stream a file's records; see `scan_records`.

    Records at the places in `skip` are passed over, even where they cannot be read; any other that
    cannot raises `DataError` while streaming.
    """
    return _readable(scan_records(path, sheet), skip)


def scan_records(path: Path, sheet: str | None = None) -> Iterator[Record | Unreadable]:
    """Stream a file's records; its suffix says how: .xlsx, .csv, .jsonl or .json (a list).

    `sheet` names a sheet of an .xlsx file, by default the first. Columns without a name and rows
    without a value are passed over. A .json file, and a workbook's texts, are held in memory.
    Raises `DataError` naming the file, and the row or line, where no further record can be found:
    a missing file or an unknown suffix at once, the rest while streaming.
    """
    if path.is_dir():
        raise DataError(str(path), ["this is a folder"], "Name a file in it.")
    if not path.is_file():
        raise DataError(str(path), ["there is no such file"], "Check the path.")
    match path.suffix.lower():
        case ".xlsx":
            return _table(path, _xlsx_rows(path, sheet))
        case ".csv":
            return _table(path, _csv_rows(path))
        case ".jsonl":
            return _lines(path)
        case ".json":
            return _items(path)
    raise DataError(
        str(path),
        [f"cannot read files that end in {path.suffix!r}"],
        "Give an .xlsx, .csv, .jsonl or .json file.",
    )


def text(record: Record, field: str) -> str | None:
    """A field as text, None where it is absent or empty; numbers read as a spreadsheet shows them.

    Raises `DataError` for anything else: a truth value, a date, a list, a formula's error.
    """
    value = record.fields.get(field)
    if value is None or value == "":
        return None
    if isinstance(value, str) and value not in _SHEET_ERRORS:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value) if isinstance(value, int) else f"{value:.15g}"
    raise DataError(
        record.where,
        [f"{field} holds {value!r}, which is not text"],
        "Write it as text (in a spreadsheet: format the cell as text).",
    )


def _table(path: Path, rows: Iterator[Sequence[Any]]) -> Iterator[Record]:
    columns = _columns(path, next(rows, ()))
    for number, cells in enumerate(rows, start=2):
        fields = {
            name: cells[place] if place < len(cells) else None for place, name in columns.items()
        }
        if any(value not in (None, "") for value in fields.values()):
            yield Record(where=f"{path.name} row {number}", fields=fields)


def _columns(path: Path, header: Sequence[Any]) -> dict[int, str]:
    """The named columns by their place."""
    named = {
        place: str(cell).strip()
        for place, cell in enumerate(header)
        if cell is not None and str(cell).strip()
    }
    if not named:
        raise DataError(str(path), ["row 1 names no column"], "Name the columns in row 1.")
    names = list(named.values())
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            str(path), [f"row 1 names {name!r} twice" for name in twice], "Name each column once."
        )
    return named


def _xlsx_rows(path: Path, sheet: str | None) -> Iterator[Sequence[Any]]:
    # Imported here: openpyxl is slow to load, and most runs read no workbook.
    from openpyxl import load_workbook

    with path.open("rb") as file:
        try:
            book = load_workbook(file, read_only=True, data_only=True)
            names = [each.title for each in book.worksheets]
            if sheet is not None and sheet not in names:
                raise DataError(
                    str(path), [f"no sheet is named {sheet!r}"], f"Its sheets: {', '.join(names)}."
                )
            page = book.worksheets[0 if sheet is None else names.index(sheet)]
            # Some programs store a wrong size, and cells outside it would be lost in silence.
            page.reset_dimensions()
            yield from page.iter_rows(values_only=True)
        except _XLSX_ERRORS as error:
            raise DataError(
                str(path),
                [f"not a readable .xlsx workbook ({error})"],
                "Open it in a spreadsheet program and save it as .xlsx.",
            ) from error


def _csv_rows(path: Path) -> Iterator[Sequence[Any]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        width = 0
        try:
            for cells in reader:
                width = width or len(cells)
                if cells and len(cells) != width:
                    raise csv.Error(f"{len(cells)} cells, but the header has {width}")
                yield cells
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(
                f"{path.name} line {reader.line_num}",
                [str(error)],
                "Save it as UTF-8, with quotes around cells that hold commas or line breaks.",
            ) from error


def _readable(found: Iterator[Record | Unreadable], skip: Container[str]) -> Iterator[Record]:
    for each in found:
        if each.where in skip:
            continue
        if isinstance(each, Unreadable):
            raise DataError(each.where, [each.fault], "Mend it and run again.")
        yield each


def _lines(path: Path) -> Iterator[Record | Unreadable]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path.name} line {number}"
            try:
                yield _record(where, _parse(line))
            except orjson.JSONDecodeError as error:
                yield Unreadable(where=where, fault=f"not JSON: {error}")


def _items(path: Path) -> Iterator[Record | Unreadable]:
    try:
        document = _parse(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise DataError(str(path), [f"not JSON: {error}"], "Mend it and run again.") from error
    if not isinstance(document, list):
        raise DataError(str(path), ["not a list of records"], "Wrap the records in [ and ].")
    for number, item in enumerate(document, start=1):
        # Some authors publish each record in a list of its own.
        while isinstance(item, list) and len(item) == 1:
            item = item[0]
        yield _record(f"{path.name} item {number}", item)


def _parse(data: bytes) -> Any:
    return orjson.loads(data.removeprefix(BOM_UTF8))


def _record(where: str, value: Any) -> Record | Unreadable:
    if not isinstance(value, dict):
        fault = f"holds a {type(value).__name__}, not an object: {{...}}"
        return Unreadable(where=where, fault=fault)
    return Record(where=where, fields=value)
