"""Workbooks (.xlsx): which of their sheets is read, and its rows."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeAlias
from zipfile import BadZipFile

from mmconv.core.errors import DataError

Rows: TypeAlias = Iterator[Sequence[Any]]
"""The values of a sheet's cells, row by row."""

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


@contextmanager
def open_sheet(
    path: Path, sheet: str | None, columns: Collection[str]
) -> Iterator[tuple[str, Rows]]:
    """A sheet's rows, and its label: `" sheet 'one'"`, empty if it is the only one.

    It is the one that is named, or that has most of the columns; without either, the first. Raises
    `DataError` for a file that cannot be read, or if two sheets fit equally.
    """
    # openpyxl is slow to import, and most runs read no workbook
    from openpyxl import load_workbook

    with path.open("rb") as file:
        try:
            pages = load_workbook(file, read_only=True, data_only=True).worksheets
            page = _named(path, pages, sheet) if sheet else _fitting(path, pages, columns)
            yield f" sheet {page.title!r}" if len(pages) > 1 else "", _rows(page)
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


def _rows(page: Any) -> Rows:
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
