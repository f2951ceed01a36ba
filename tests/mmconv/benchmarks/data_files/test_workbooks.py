"""Spreadsheets: their rows and sheets, and what they store otherwise than they show it."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from mmconv.benchmarks.data_files.records import Record, read_records, scan_records, text
from mmconv.core.errors import DataError
from tests.mmconv.benchmarks.data_files.reading import fails


def write_xlsx(path: Path, rows: Sequence[list[Any]], sheet: str = "one") -> Path:
    book = openpyxl.Workbook()
    page = book.active
    assert page is not None
    page.title = sheet
    for row in rows:
        page.append(row)
    book.save(path)
    return path


def write_book(path: Path, **sheets: Sequence[list[Any]]) -> Path:
    """A workbook of several sheets."""
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for title, rows in sheets.items():
        page = book.create_sheet(title)
        for row in rows:
            page.append(row)
    book.save(path)
    return path


class TestSpreadsheets:
    def test_rows_are_numbered_as_a_spreadsheet_shows_them(self, tmp_path: Path) -> None:
        path = write_xlsx(
            tmp_path / "a.xlsx", [["ID", "name"], [1, " x "], [None, None], [3, None]]
        )
        assert list(read_records(path)) == [
            Record(where="a.xlsx row 2", fields={"ID": 1, "name": " x "}),
            Record(where="a.xlsx row 4", fields={"ID": 3, "name": None}),
        ]

    def test_unnamed_columns_are_passed_over(self, tmp_path: Path) -> None:
        path = write_xlsx(tmp_path / "a.xlsx", [["ID", None, " b "], [1, "stray", 2], [None, "s"]])
        assert [record.fields for record in read_records(path)] == [{"ID": 1, "b": 2}]

    def test_short_rows_are_filled(self, tmp_path: Path) -> None:
        path = write_xlsx(tmp_path / "a.xlsx", [["ID", "b"], [1]])
        assert [record.fields for record in read_records(path)] == [{"ID": 1, "b": None}]

    def test_a_wrong_size_in_the_file_loses_nothing(self, tmp_path: Path) -> None:
        whole = write_xlsx(tmp_path / "a.xlsx", [["ID", "b"], [1, 2], [3, 4]])
        cut = tmp_path / "cut.xlsx"
        with zipfile.ZipFile(whole) as old, zipfile.ZipFile(cut, "w") as new:
            for name in old.namelist():
                data = old.read(name)
                assert name != "xl/worksheets/sheet1.xml" or b'ref="A1:B3"' in data
                new.writestr(name, data.replace(b'ref="A1:B3"', b'ref="A1:A2"'))
        assert [record.fields for record in read_records(cut)] == [
            {"ID": 1, "b": 2},
            {"ID": 3, "b": 4},
        ]

    def test_a_sheet_can_be_named(self, tmp_path: Path) -> None:
        path = write_book(tmp_path / "a.xlsx", first=[["ID"], [6]], second=[["ID"], [7]])
        assert list(read_records(path, "second")) == [
            Record(where="a.xlsx sheet 'second' row 2", fields={"ID": 7})
        ]
        assert "no sheet is named 'third'" in fails(path, "third")
        assert "Its sheets: first, second." in fails(path, "third")

    def test_only_a_workbook_has_sheets(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_text('{"ID": 1}', encoding="utf-8")
        with pytest.raises(DataError, match="has no sheets, and so none named 'one'"):
            scan_records(path, "one")

    def test_the_sheet_with_most_of_the_columns_is_read(self, tmp_path: Path) -> None:
        path = write_book(
            tmp_path / "a.xlsx",
            Notes=[["ID", "read me"], [1, "x"]],
            Empty=[],
            data=[["ID", " b ", "c"], [7, 8, 9]],
        )
        [found] = read_records(path, columns=("ID", "b", "d"))
        assert (found.where, found.fields["b"]) == ("a.xlsx sheet 'data' row 2", 8)
        [first] = read_records(path)
        assert first.where == "a.xlsx sheet 'Notes' row 2"

    def test_sheets_that_fit_equally_are_not_chosen_from(self, tmp_path: Path) -> None:
        rows: list[list[Any]] = [["ID", "b"], [1, 2]]
        path = write_book(tmp_path / "a.xlsx", Notes=[["x"]], old=rows, new=rows)
        message = fails(path, columns=("ID", "b"))
        assert "the sheets old, new name equally many of the columns ID, b" in message
        assert "the option `sheet` can name it" in message
        assert [each.where for each in read_records(path, "new", columns=("ID",))] == [
            "a.xlsx sheet 'new' row 2"
        ]

    def test_what_is_wrong_with_a_sheet_names_it(self, tmp_path: Path) -> None:
        path = write_book(tmp_path / "a.xlsx", one=[["b", "b"]], two=[["c"]])
        assert "a.xlsx sheet 'one': 1 problem\n  row 1 names 'b' twice" in fails(path)

    def test_a_column_named_twice_is_refused(self, tmp_path: Path) -> None:
        assert "names 'b' twice" in fails(write_xlsx(tmp_path / "a.xlsx", [["b", "b "], [1, 2]]))

    @pytest.mark.parametrize("rows", [[], [[None, " "], [1, 2]]])
    def test_a_header_is_needed(self, tmp_path: Path, rows: list[list[Any]]) -> None:
        assert "row 1 names no column" in fails(write_xlsx(tmp_path / "a.xlsx", rows))

    def test_what_is_no_workbook_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "a.xlsx"
        path.write_text("ID,name\n", encoding="utf-8")
        assert "a.xlsx" in fails(path)
        assert "save it as .xlsx" in fails(path)

    def test_an_archive_of_something_else_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "a.xlsx"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("readme", "hello")
        assert "not a readable .xlsx workbook" in fails(path)

    @pytest.mark.parametrize("damage", [b"<worksheet><row></worksheet>", b"not XML"])
    def test_a_damaged_sheet_is_refused(self, tmp_path: Path, damage: bytes) -> None:
        whole = write_xlsx(tmp_path / "a.xlsx", [["ID"], [1]])
        broken = tmp_path / "broken.xlsx"
        with zipfile.ZipFile(whole) as old, zipfile.ZipFile(broken, "w") as new:
            for name in old.namelist():
                sheet = name.startswith("xl/worksheets/")
                new.writestr(name, damage if sheet else old.read(name))
        assert "broken.xlsx" in fails(broken)


@pytest.mark.parametrize(
    ("value", "number_format", "message"),
    [
        (0.25, "0%", "b holds 0.25, which the sheet shows in the format '0%'"),
        (1499.9, "$#,##0.00", "b holds 1499.9, which the sheet shows in the format '$#,##0.00'"),
        (7, "000", "b holds 7, which the sheet shows in the format '000'"),
        (2.5, "0", "b holds 2.5, which the sheet shows in the format '0'"),
    ],
)
def test_a_number_that_a_sheet_shows_otherwise_is_no_text(
    tmp_path: Path, value: float, number_format: str, message: str
) -> None:
    """A reference of 25 % would be read as 0.25."""
    book = openpyxl.Workbook()
    assert book.active is not None
    for cells in (["ID", "b"], [1, value]):
        book.active.append(cells)
    book.active["B2"].number_format = number_format
    book.save(tmp_path / "a.xlsx")
    (found,) = read_records(tmp_path / "a.xlsx")
    with pytest.raises(DataError) as raised:
        text(found, "b")
    assert raised.value.problems == (f"{message}; format the cell as text",)


def test_escapes_of_a_workbook_are_read(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", [["ID"], ["one_x000D_\ntwo_x005F_x"]])
    assert [found.fields["ID"] for found in read_records(path)] == ["one\ntwo_x"]
