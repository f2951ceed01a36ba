"""Records: what .xlsx, .csv, .tsv, .jsonl, .json and .parquet files hold, and where each is.

All benchmarks read their data here; each decides which fields a record needs. The note and the
table on records that a run leaves out (`--skip-bad-records`) are at the end.
"""

from __future__ import annotations

import csv
import zlib
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias
from zipfile import BadZipFile

import orjson

from mmconv.benchmarks.data_files.parquet import read_rows
from mmconv.core.errors import DataError
from mmconv.core.types import Cell, Table

_SEPARATORS = ",;\t"
"""What separates the cells of a .csv or .tsv file: the one that its first line has most often."""

_LONGEST_CELL = 2**31 - 1  # characters: the most that `csv` takes on every platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record: `where` it is, in words that a person can look up, and its raw fields.

    An empty cell is None in a spreadsheet and "" in a .csv or .tsv file. A line that is not JSON,
    or an item that is not an object, has no fields but a `fault`.
    """

    where: str
    fields: dict[str, Any] = field(default_factory=dict)
    fault: str = ""


def read_records(
    path: Path, sheet: str | None = None, *, columns: Collection[str] = ()
) -> Iterator[Record]:
    """Stream a file's records as `scan_records`; raises `DataError` for one that is unreadable."""

    def require(found: Record) -> Record:
        if found.fault:
            raise DataError(found.where, [found.fault], "Fix it and run again.")
        return found

    return map(require, scan_records(path, sheet, columns=columns))


def scan_records(
    path: Path, sheet: str | None = None, *, columns: Collection[str] = ()
) -> Iterator[Record]:
    """Stream a file's records; its suffix says how: .xlsx, .csv, .tsv, .jsonl, .json or .parquet.

    `sheet` names a sheet of an .xlsx file, by default the one that has most of the `columns`, or
    the first if none are given. Columns without a name and rows without a value are passed over. A
    .json file (a list) and a workbook's texts are held in memory.

    Raises `DataError` naming the file, and the row or line, if no further record can be found: at
    once for a missing file, an unknown suffix or a sheet, for the rest while streaming.
    """
    if path.is_dir():
        raise DataError(str(path), ["this is a folder"], "Name a file in it.")
    if not path.is_file():
        raise DataError(str(path), ["file does not exist"], "Check the path.")
    suffix = path.suffix.lower()
    if sheet is not None and suffix != ".xlsx":
        raise DataError(str(path), [f"has no sheets, and so none named {sheet!r}"])
    match suffix:
        case ".xlsx":
            return _sheet(path, sheet, columns)
        case ".csv" | ".tsv":
            return _table(path, _csv_rows(path))
        case ".jsonl":
            return _lines(path)
        case ".json":
            return _items(path)
        case ".parquet":
            rows = enumerate(read_rows(path), start=1)
            return (Record(where=f"{path.name} row {n}", fields=fields) for n, fields in rows)
    raise DataError(
        str(path),
        [f"cannot read files that end in {path.suffix!r}"],
        "Give an .xlsx, .csv, .tsv, .jsonl, .json or .parquet file.",
    )


def text(record: Record, name: str) -> str | None:
    """A field as text, None if it is absent or empty; raises `DataError` as `as_text` does."""
    value = record.fields.get(name)
    if value is None or value == "":
        return None
    try:
        return as_text(value)
    except ValueError as error:
        raise DataError(record.where, [f"{name} {error}"]) from error


def as_text(value: Any) -> str:
    """A cell or JSON value as text; numbers as a spreadsheet shows them.

    Raises `ValueError` for anything else: a truth value, a date, a list, a formula's error, a
    number that the spreadsheet shows in a format of its own.
    """
    if isinstance(value, Formatted):
        raise ValueError(
            f"holds {value:.15g}, which the sheet shows in the format {value.format!r}; format the "
            "cell as text"
        )
    if isinstance(value, str) and value not in SHEET_ERRORS:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value) if isinstance(value, int) else f"{value:.15g}"
    raise ValueError(f"holds {value!r}, which is not text")


def _table(path: Path, rows: Iterator[Sequence[Any]], label: str = "") -> Iterator[Record]:
    columns = _columns(f"{path}{label}", next(rows, ()))
    for number, cells in enumerate(rows, start=2):
        fields = {
            name: cells[place] if place < len(cells) else None for place, name in columns.items()
        }
        if any(value not in (None, "") for value in fields.values()):
            yield Record(where=f"{path.name}{label} row {number}", fields=fields)


def _columns(where: str, header: Sequence[Any]) -> dict[int, str]:
    named = {
        place: str(cell).strip()
        for place, cell in enumerate(header)
        if cell is not None and str(cell).strip()
    }
    names = list(named.values())
    if not names:
        raise DataError(where, ["row 1 names no column"], "Name the columns in row 1.")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        problems = [f"row 1 names {name!r} twice" for name in twice]
        raise DataError(where, problems, "Name each column once.")
    return named


def _csv_rows(path: Path) -> Iterator[Sequence[Any]]:
    # A cell may hold a whole dialogue. The limit is global: every table sets the same one.
    csv.field_size_limit(_LONGEST_CELL)
    with path.open("rb") as file:
        header = file.readline().decode(errors="replace")
    reader = csv.reader(
        _decoded_lines(path), delimiter=max(_SEPARATORS, key=header.count), strict=True
    )
    width = 0
    try:
        for cells in reader:
            width = width or len(cells)
            if cells and len(cells) != width:
                raise csv.Error(f"{len(cells)} cells, but the header has {width}")
            yield cells
    except csv.Error as error:
        raise DataError(
            f"{path.name} line {reader.line_num}",
            [str(error)],
            "Put quotes around cells that hold separators, quotes or line breaks.",
        ) from error


def _decoded_lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield line.removeprefix(BOM_UTF8).decode()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path.name} line {number}",
                    ["not UTF-8"],
                    "Save the file as UTF-8 (a spreadsheet program calls that CSV UTF-8).",
                ) from error


def _lines(path: Path) -> Iterator[Record]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            where = f"{path.name} line {number}"
            content = line.removeprefix(BOM_UTF8)
            if not content.strip():
                continue
            try:
                yield _record(where, orjson.loads(content))
            except orjson.JSONDecodeError as error:
                fault = f"not JSON: {error.msg} (character {error.pos + 1} of the line)"
                yield Record(where=where, fault=fault)


def _items(path: Path) -> Iterator[Record]:
    advice = "A .json file holds a list of records; call one with a record on each line .jsonl."
    try:
        document = orjson.loads(path.read_bytes().removeprefix(BOM_UTF8))
    except orjson.JSONDecodeError as error:
        raise DataError(str(path), [f"not JSON: {error}"], advice) from error
    if not isinstance(document, list):
        raise DataError(str(path), ["not a list of records"], advice)
    for number, item in enumerate(document, start=1):
        # Some authors publish each record in a list of its own.
        while isinstance(item, list) and len(item) == 1:
            item = item[0]
        yield _record(f"{path.name} item {number}", item)


def _record(where: str, value: Any) -> Record:
    if not isinstance(value, dict):
        fault = f"holds a {type(value).__name__}, not an object: {{...}}"
        return Record(where=where, fault=fault)
    return Record(where=where, fields=value)


# --- workbooks -----------------------------------------------------------------------------------

SHEET_ERRORS = frozenset({"#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A"})
"""The values of cells whose formula failed."""


class Formatted(float):
    """A number whose cell shows another text: 0.25 as 25%. `format` is the cell's number format."""

    def __new__(cls, number: float, number_format: str) -> Self:
        """The number as it is stored, with its format."""
        made = super().__new__(cls, number)
        made.format = number_format
        return made

    format: str


_AS_STORED = frozenset({"General", "0", "@"})
"""The number formats that show a number without a fraction as it is stored."""

# what openpyxl raises for a file that is not a workbook, or a damaged one
_XLSX_ERRORS = (BadZipFile, zlib.error, KeyError, IndexError, TypeError, ValueError, SyntaxError)


def _sheet(path: Path, sheet: str | None, columns: Collection[str]) -> Iterator[Record]:
    """The records of the sheet that is named, or that has most of the columns, or of the first.

    Raises `DataError` for a file that cannot be read, or if two sheets fit equally.
    """
    # openpyxl is slow to import, and most runs read no workbook
    from openpyxl import load_workbook

    with path.open("rb") as file:
        try:
            pages = load_workbook(file, read_only=True, data_only=True).worksheets
            page = _named(path, pages, sheet) if sheet else _fitting(path, pages, columns)
            label = f" sheet {page.title!r}" if len(pages) > 1 else ""
            yield from _table(path, _rows(page), label)
        except _XLSX_ERRORS as error:
            raise DataError(
                str(path),
                [f"not a readable .xlsx workbook ({error})"],
                "Open it in a spreadsheet program and save it as .xlsx.",
            ) from error


def _named(path: Path, pages: Sequence[Any], sheet: str) -> Any:
    for page in pages:
        if page.title == sheet:
            return page
    raise DataError(str(path), [f"no sheet is named {sheet!r}"], f"Its sheets: {_titles(pages)}.")


def _fitting(path: Path, pages: Sequence[Any], columns: Collection[str]) -> Any:
    if len(pages) == 1 or not columns:
        return pages[0]
    counts = [
        len({str(cell).strip() for cell in next(_rows(page), ())} & {*columns}) for page in pages
    ]
    best = [page for page, count in zip(pages, counts, strict=True) if count == max(counts)]
    if len(best) > 1:
        fault = f"the sheets {_titles(best)} name equally many of the columns {', '.join(columns)}"
        raise DataError(
            str(path), [fault], "Keep one of them. In a run, the option `sheet` can name it."
        )
    return best[0]


def _rows(page: Any) -> Iterator[Sequence[Any]]:
    # some programs store a wrong size, and cells outside it would be lost
    page.reset_dimensions()
    for cells in page.iter_rows():
        yield [_value(cell) for cell in cells]


def _value(cell: Any) -> Any:
    value = cell.value
    if isinstance(value, str) and "_x" in value:
        from openpyxl.utils.escape import unescape

        # Excel writes a carriage return as _x000D_
        return unescape(value).replace("\r\n", "\n")
    if isinstance(value, int | float) and not isinstance(value, bool):
        shown = cell.number_format
        whole = shown != "0" or float(value).is_integer()
        return value if shown in _AS_STORED and whole else Formatted(value, shown)
    return value


def _titles(pages: Sequence[Any]) -> str:
    return ", ".join(page.title for page in pages)


# --- bad records ---------------------------------------------------------------------------------

NAMED = 20
"""How many records a message names."""

PRINTED = 40
"""A table of more records than this is written to files, and not printed."""

BadRecords: TypeAlias = Mapping[str, tuple[str, ...]]
"""Where a record is -> all that is wrong with it."""


def refusal(
    where: str | Path, bad: BadRecords, good: int, advice: str = "", *, more: bool = False
) -> DataError:
    """The error with all problems, and how to continue with the `good` records, if any.

    With `more`, records that were not checked can replace the bad ones.
    """
    problems = [f"{place}: {fault}" for place, faults in bad.items() for fault in faults]
    if not problems:
        return DataError(str(where), ["holds no records"], "Is it the right file?")
    hint = "" if advice else "No record can be used: check the file and the options."
    if more:
        hint = "--skip-bad-records takes the next good records in their place."
    elif good:
        hint = f"--skip-bad-records continues with the {good} good records."
    return DataError(str(where), problems, "\n".join(filter(None, (advice, hint))))


def name_few(names: Sequence[str]) -> str:
    """The first of many places or keys."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def bad_records_note(bad: BadRecords, good: int, *, beyond: int = 0) -> Iterator[str]:
    """A line for all tables, if any record is left out; those `beyond` a limit were not checked."""
    if bad:
        are = "is" if len(bad) == 1 else "are"
        looked_at = f"{'the first ' if beyond else ''}{len(bad) + good}"
        yield (
            f"{len(bad)} of {looked_at} records {are} left out as bad (--skip-bad-records): see "
            "the table left_out."
        )


def bad_records_table(bad: BadRecords) -> Iterator[Table]:
    """The records with what is wrong with each, if any is left out."""
    if bad:
        rows = {
            where: {"what is wrong": Cell(value="; ".join(faults))} for where, faults in bad.items()
        }
        yield Table.of("left_out", "Records left out as bad", rows, detail=len(bad) > PRINTED)
