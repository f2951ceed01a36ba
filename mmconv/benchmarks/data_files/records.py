"""Records: what .xlsx, .csv, .tsv, .jsonl, .json and .parquet files hold, and where each is.

Every benchmark reads its data through here, and decides which fields a record needs.
"""

from __future__ import annotations

import csv
import json
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from mmconv.benchmarks.data_files.parquet import read_rows
from mmconv.benchmarks.data_files.workbooks import SHEET_ERRORS, Formatted, open_sheet
from mmconv.core.errors import DataError

_SAVE_AS_UTF8 = "Save the file as UTF-8"
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""Separators of cells, with their names."""

_UTF_16 = "UTF-16, not UTF-8"
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]+")
_GB2312 = re.compile(rb"(?:[\xa1-\xf7][\xa1-\xfe])+")
"""The common characters of GB18030, all in pairs of bytes; accented letters mostly stand alone."""

_LONGEST_CELL = 2**31 - 1  # characters: the most that `csv` takes on every platform

_OPENINGS = (b"[", b"{", b"[{")
"""First lines of a JSON document that is indented."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record: `where` it is, in words that a person can look up, and its raw fields.

    An empty cell is None in a spreadsheet and "" in a .csv or .tsv file.
    """

    where: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """In the place of a record: a line that is not JSON, an item that is not an object."""

    where: str
    fault: str


def read_records(
    path: Path, sheet: str | None = None, *, columns: Collection[str] = ()
) -> Iterator[Record]:
    """Stream a file's records; see `scan_records`.

    One that cannot be read raises `DataError` while streaming.
    """
    return map(_readable, scan_records(path, sheet, columns=columns))


def scan_records(
    path: Path, sheet: str | None = None, *, columns: Collection[str] = ()
) -> Iterator[Record | Unreadable]:
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
        home = str(path).startswith("~")
        advice = "Write the path of your home out: only a shell reads ~." if home else ""
        raise DataError(str(path), ["file does not exist"], advice or "Check the path.")
    if sheet is not None and path.suffix.lower() != ".xlsx":
        raise DataError(str(path), [f"has no sheets, and so none named {sheet!r}"])
    match path.suffix.lower():
        case ".xlsx":
            return _sheet(path, sheet, columns)
        case ".csv":
            return _table(path, _csv_rows(path, ","))
        case ".tsv":
            return _table(path, _csv_rows(path, "\t"))
        case ".jsonl":
            return _lines(path)
        case ".json":
            return _items(path)
        case ".parquet":
            return _parquet_rows(path)
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


def _readable(found: Record | Unreadable) -> Record:
    if isinstance(found, Unreadable):
        raise DataError(found.where, [found.fault], "Fix it and run again.")
    return found


def _sheet(path: Path, sheet: str | None, columns: Collection[str]) -> Iterator[Record]:
    with open_sheet(path, sheet, columns) as (label, rows):
        yield from _table(path, rows, label)


def _table(path: Path, rows: Iterator[Sequence[Any]], label: str = "") -> Iterator[Record]:
    """The records of a table; its label stands behind the file's name."""
    columns = _columns(f"{path}{label}", next(rows, ()))
    for number, cells in enumerate(rows, start=2):
        fields = {
            name: cells[place] if place < len(cells) else None for place, name in columns.items()
        }
        if any(value not in (None, "") for value in fields.values()):
            yield Record(where=f"{path.name}{label} row {number}", fields=fields)


def _columns(where: str, header: Sequence[Any]) -> dict[int, str]:
    """The named columns by their place."""
    named = {
        place: str(cell).strip()
        for place, cell in enumerate(header)
        if cell is not None and str(cell).strip()
    }
    if not named:
        raise DataError(where, ["row 1 names no column"], "Name the columns in row 1.")
    names = list(named.values())
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            where, [f"row 1 names {name!r} twice" for name in twice], "Name each column once."
        )
    return named


def _csv_rows(path: Path, separator: str) -> Iterator[Sequence[Any]]:
    # A cell may hold a whole dialogue. The limit is global: every table sets the same one.
    csv.field_size_limit(_LONGEST_CELL)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        width = 0
        try:
            for cells in reader:
                if not width and len(cells) == 1 and (other := _separator_error(path, separator)):
                    raise other
                width = width or len(cells)
                if cells and len(cells) != width:
                    raise csv.Error(f"{len(cells)} cells, but the header has {width}")
                yield cells
        except (csv.Error, UnicodeDecodeError) as error:
            raise _csv_error(path, separator, reader.line_num, error) from error


def _csv_error(path: Path, separator: str, line: int, error: Exception) -> DataError:
    """The error for a table that cannot be read beyond a line, with its cause if that is known."""
    return (
        _encoding_error(path)
        or _separator_error(path, separator)
        or DataError(
            f"{path.name} line {line}",
            [str(error)],
            f"Put quotes around cells that hold {_SEPARATORS[separator]}, quotes or line breaks.",
        )
    )


def _lines(path: Path) -> Iterator[Record | Unreadable]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path.name} line {number}"
            try:
                yield _record(where, _parse(line))
            except _RepeatedKeyError as error:
                yield Unreadable(where=where, fault=str(error))
            except orjson.JSONDecodeError as error:
                foreign = _not_utf8(line)
                if number == 1 and foreign == _UTF_16:
                    raise DataError(where, [foreign], f"{_SAVE_AS_UTF8}.") from error
                if number == 1 and line.removeprefix(BOM_UTF8).strip() in _OPENINGS:
                    fault = "begins as one JSON document over several lines"
                    advice = "Name it .json, or write a record on each line."
                    raise DataError(str(path), [fault], advice) from error
                spoilt = f"not JSON: {error.msg} (character {error.pos + 1} of the line)"
                fault = f"{foreign}. {_SAVE_AS_UTF8}" if foreign else spoilt
                yield Unreadable(where=where, fault=fault)


def _items(path: Path) -> Iterator[Record | Unreadable]:
    try:
        document = _parse(path.read_bytes())
    except _RepeatedKeyError as error:
        raise DataError(str(path), [str(error)], "Keep one of the two.") from error
    except orjson.JSONDecodeError as error:
        problem, advice = f"not JSON: {error}", "Fix it and run again."
        if _begins_with_record(path):
            problem, advice = "its first line is a record, as in JSON Lines", "Name it .jsonl."
        raise (_encoding_error(path) or DataError(str(path), [problem], advice)) from error
    if not isinstance(document, list):
        raise DataError(str(path), ["not a list of records"], _advise_list(document))
    for number, item in enumerate(document, start=1):
        # Some authors publish each record in a list of its own.
        while isinstance(item, list) and len(item) == 1:
            item = item[0]
        yield _record(f"{path.name} item {number}", item)


def _parquet_rows(path: Path) -> Iterator[Record]:
    for number, fields in enumerate(read_rows(path), start=1):
        yield Record(where=f"{path.name} row {number}", fields=fields)


def _advise_list(document: Any) -> str:
    """How to make a list of records of a document that is not one."""
    fields = document.items() if isinstance(document, dict) else ()
    lists = [repr(key) for key, value in fields if isinstance(value, list)]
    if len(lists) == 1:
        return f"Leave nothing but the list in {lists[0]}."
    return "Wrap the records in [ and ]."


def _begins_with_record(path: Path) -> bool:
    with path.open("rb") as file, suppress(orjson.JSONDecodeError):
        return isinstance(orjson.loads(file.readline().removeprefix(BOM_UTF8)), dict)
    return False


class _RepeatedKeyError(Exception):
    """An object has a key twice, and it is unknown which value is meant."""


def _parse(data: bytes) -> Any:
    """Raises `_RepeatedKeyError`, and `orjson.JSONDecodeError` for what is not JSON."""
    value = orjson.loads(data.removeprefix(BOM_UTF8))
    # The parser keeps the last of several values. Quotes within texts make this count too high,
    # and only then the object is read again, slowly.
    if data.count(b'":') + data.count(b'" :') > _count_keys(value):
        json.loads(data, object_pairs_hook=_unrepeated)
    return value


def _count_keys(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_count_keys, value.values()))
    return sum(map(_count_keys, value)) if isinstance(value, list) else 0


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    counts = Counter(key for key, _ in pairs)
    for key, count in counts.items():
        if count > 1:
            raise _RepeatedKeyError(f"the key {key!r} stands {count} times in one object")
    return dict(pairs)


def _record(where: str, value: Any) -> Record | Unreadable:
    if not isinstance(value, dict):
        fault = f"holds a {type(value).__name__}, not an object: {{...}}"
        return Unreadable(where=where, fault=fault)
    return Record(where=where, fields=value)


def _not_utf8(line: bytes) -> str | None:
    """The first character of a line that is not UTF-8, and what it may be; None if all are."""
    if line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return _UTF_16
    line = line.removeprefix(BOM_UTF8)
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = line[error.start : error.start + 1]
        place = len(line[: error.start].decode("utf-8")) + 1
        letter = byte.decode("cp1252", "ignore")
        meant = f", which is {letter!r} in Windows-1252" if letter else ""
        if all(_GB2312.fullmatch(each) for each in _BEYOND_ASCII.findall(line)):
            meant = "; the line can be read as GB18030"
        return f"not UTF-8: character {place} of the line is the byte 0x{byte.hex()}{meant}"
    return None


def _encoding_error(path: Path) -> DataError | None:
    """The error for the first line of a file that is not UTF-8; None if all lines are."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if fault := _not_utf8(line):
                table = path.suffix.lower() == ".csv"
                called = " (a spreadsheet program calls that CSV UTF-8)" if table else ""
                advice = f"{_SAVE_AS_UTF8}{called}."
                return DataError(f"{path.name} line {number}", [fault], advice)
    return None


def _separator_error(path: Path, separator: str) -> DataError | None:
    """The error for a table whose first line has another separator more often, or None."""
    with path.open("rb") as file:
        header = file.readline()
    wanted = _SEPARATORS[separator]
    for mark, name in _SEPARATORS.items():
        if header.count(mark.encode()) > header.count(separator.encode()):
            fault = f"its cells are separated by {name}, not by {wanted}"
            return DataError(str(path), [fault], f"Save it with {wanted}, or as .xlsx.")
    return None
