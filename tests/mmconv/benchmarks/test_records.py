import csv
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import openpyxl
import orjson
import pytest

from mmconv.benchmarks.records import Record, Unreadable, read_records, scan_records, text
from mmconv.errors import DataError

REAL = Path(__file__).parents[4] / "shared" / "data"


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


def fails(path: Path, sheet: str | None = None, columns: Sequence[str] = ()) -> str:
    with pytest.raises(DataError) as caught:
        list(read_records(path, sheet, columns=columns))
    return str(caught.value)


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
        told = fails(path, columns=("ID", "b"))
        assert "the sheets old, new name as many of the columns: which one is meant?" in told
        assert "the option `sheet` can name it" in told
        assert [each.where for each in read_records(path, "new", columns=("ID",))] == [
            "a.xlsx sheet 'new' row 2"
        ]

    def test_a_workbook_without_the_columns_is_told_with_its_sheets(self, tmp_path: Path) -> None:
        path = write_book(tmp_path / "a.xlsx", Notes=[["x"]], more=[["y"]])
        told = fails(path, columns=("ID", "b"))
        assert "none of its sheets (Notes, more) names a column ID or b" in told

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


class TestTables:
    def test_quoted_cells_and_a_byte_order_mark(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file).writerows([["ID", "b"], [1, "x,\ny"], [], [2, "汉字"]])
        assert list(read_records(path)) == [
            Record(where="a.csv row 2", fields={"ID": "1", "b": "x,\ny"}),
            Record(where="a.csv row 4", fields={"ID": "2", "b": "汉字"}),
        ]

    def test_tabs_stand_between_the_cells_of_a_tsv(self, tmp_path: Path) -> None:
        path = tmp_path / "a.tsv"
        path.write_text('\ufeffID\tb\n1\t"x\ty, ""z"""\n\t\n2\t\n', encoding="utf-8")
        assert list(read_records(path)) == [
            Record(where="a.tsv row 2", fields={"ID": "1", "b": 'x\ty, "z"'}),
            Record(where="a.tsv row 4", fields={"ID": "2", "b": ""}),
        ]

    @pytest.mark.parametrize(("name", "separator"), [("a.csv", ","), ("a.tsv", "\t")])
    def test_a_cell_is_as_long_as_it_is(self, tmp_path: Path, name: str, separator: str) -> None:
        path = tmp_path / name
        path.write_text(f"ID{separator}b\n1{separator}{'x' * 200_000}\n", encoding="utf-8")
        csv.field_size_limit(131_072)  # Python's own, as in a process that has read no table
        [record] = read_records(path)
        assert len(record.fields["b"]) == 200_000

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (b"ID,b\n1,x,y\n", "line 2: 1 problem\n  3 cells, but the header has 2"),
            (b'ID,b\n1,"x" y\n', "line 2"),
            (b'ID,b\n1,"x\n', "unexpected end of data"),
        ],
    )
    def test_a_broken_row_is_named(self, tmp_path: Path, data: bytes, said: str) -> None:
        path = tmp_path / "a.csv"
        path.write_bytes(data)
        assert said in fails(path)
        assert "Put quotes around cells that hold commas" in fails(path)
        tabs = tmp_path / "a.tsv"
        tabs.write_bytes(data.replace(b",", b"\t"))
        assert said in fails(tabs)
        assert "Put quotes around cells that hold tabs, quotes" in fails(tabs)

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (
                "ID,b\n1,x\n2,né à Lille\n".encode("cp1252"),
                "a.csv line 3: 1 problem\n  not UTF-8: character 4 of the line is the byte 0xe9, "
                "which is 'é' in Windows-1252",
            ),
            # The first part is UTF-8, whose letters are one character and two bytes.
            ("ID,b\n1,éé".encode() + b"\x81", "character 5 of the line is the byte 0x81\n"),
            ("ID,b\n1,é\n".encode("utf-16"), "a.csv line 1: 1 problem\n  UTF-16, not UTF-8"),
        ],
    )
    def test_another_encoding_is_named_with_its_place(
        self, tmp_path: Path, data: bytes, said: str
    ) -> None:
        path = tmp_path / "a.csv"
        path.write_bytes(data)
        assert said in fails(path)
        assert "Save the file as UTF-8 (a spreadsheet program calls that CSV UTF-8)." in fails(path)

    @pytest.mark.parametrize(
        ("data", "name"),
        [
            (b"ID;b\n1;x\n", "semicolons"),
            (b'"ID";"b"\n1;x\n', "semicolons"),
            (b"ID;a;b, or c\n1;x;y\n", "semicolons"),
            (b"ID;b\n1;x, y\n", "semicolons"),
            (b"ID\tb\n1\tx\n", "tabs"),
        ],
    )
    def test_another_separator_is_named(self, tmp_path: Path, data: bytes, name: str) -> None:
        path = tmp_path / "a.csv"
        path.write_bytes(data)
        assert f"its cells are separated by {name}, not by commas" in fails(path)
        assert "Save it with commas, or as .xlsx." in fails(path)

    @pytest.mark.parametrize(
        ("data", "name"), [(b"ID,b\n1,x\n", "commas"), (b"ID;b\n1;x\n", "semicolons")]
    )
    def test_so_it_is_in_a_tsv(self, tmp_path: Path, data: bytes, name: str) -> None:
        path = tmp_path / "a.tsv"
        path.write_bytes(data)
        assert f"its cells are separated by {name}, not by tabs" in fails(path)
        assert "Save it with tabs, or as .xlsx." in fails(path)

    def test_semicolons_between_commas_are_text(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_bytes(b"ID,b;c\n1,x;y;z\n")
        assert [record.fields for record in read_records(path)] == [{"ID": "1", "b;c": "x;y;z"}]


class TestJson:
    def test_lines_are_numbered_with_empty_ones(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_text('\ufeff{"ID": 1}\n\n{"ID": 2, "b": [1]}', encoding="utf-8")
        assert list(read_records(path)) == [
            Record(where="a.jsonl line 1", fields={"ID": 1}),
            Record(where="a.jsonl line 3", fields={"ID": 2, "b": [1]}),
        ]

    @pytest.mark.parametrize("bad", ["{", "[1]", "3", '{"ID": 1} {"ID": 2}'])
    def test_a_bad_line_is_named(self, tmp_path: Path, bad: str) -> None:
        path = tmp_path / "a.jsonl"
        path.write_text(f'{{"ID": 1}}\n{bad}\n', encoding="utf-8")
        assert "a.jsonl line 2" in fails(path)

    def test_lines_before_a_bad_one_are_given(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_text('{"ID": 1}\n{', encoding="utf-8")
        records = read_records(path)
        assert next(records).fields == {"ID": 1}
        with pytest.raises(DataError, match="line 2"):
            next(records)

    def test_a_bad_line_can_be_scanned(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_bytes(b'{"ID": 1}\n{\n[1]\n\xff\n{"ID": 2}')
        first, *bad, last = scan_records(path)
        assert (first, last) == (
            Record(where="a.jsonl line 1", fields={"ID": 1}),
            Record(where="a.jsonl line 5", fields={"ID": 2}),
        )
        assert [(each.where, type(each)) for each in bad] == [
            (f"a.jsonl line {number}", Unreadable) for number in (2, 3, 4)
        ]
        with pytest.raises(DataError, match=r"a\.jsonl line 2: 1 problem"):
            list(read_records(path))

    def test_the_place_in_a_line_that_is_not_json_is_told(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_text('{"ID": 1}\n{"ID": 2, é}', encoding="utf-8")
        told = fails(path)
        assert "a.jsonl line 2: 1 problem\n  not JSON: " in told
        assert "(character 11 of the line)" in told

    @pytest.mark.parametrize(
        ("name", "data"),
        [("a.jsonl", '{"ID": 1}\n{"ID": "né"}'), ("a.json", '[{"ID": 1},\n{"ID": "né"}]')],
    )
    def test_another_encoding_is_named_with_its_place(
        self, tmp_path: Path, name: str, data: str
    ) -> None:
        path = tmp_path / name
        path.write_bytes(data.encode("cp1252"))
        said = f"{name} line 2: 1 problem\n  not UTF-8: character 10 of the line is the byte 0xe9"
        assert said in fails(path)
        assert "Save the file as UTF-8" in fails(path)

    def test_a_list_with_records_in_lists_of_their_own(self, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        path.write_text('\ufeff[{"ID": 1}, [{"ID": 2}], [[{"ID": 3}]]]', encoding="utf-8")
        assert [(record.where, record.fields["ID"]) for record in read_records(path)] == [
            ("a.json item 1", 1),
            ("a.json item 2", 2),
            ("a.json item 3", 3),
        ]

    @pytest.mark.parametrize(
        ("document", "said"),
        [
            ('{"ID": 1}', "not a list of records"),
            ('[{"ID": 1}, [{"ID": 2}, {"ID": 3}]]', "a.json item 2"),
            ("[1", "not JSON"),
        ],
    )
    def test_other_documents_are_refused(self, tmp_path: Path, document: str, said: str) -> None:
        path = tmp_path / "a.json"
        path.write_text(document, encoding="utf-8")
        assert said in fails(path)


class TestFiles:
    def test_a_missing_file_is_told_at_once(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="there is no such file"):
            read_records(tmp_path / "a.xlsx")

    def test_a_folder_is_told_at_once(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="this is a folder"):
            read_records(tmp_path)

    def test_an_unknown_suffix_is_told_at_once(self, tmp_path: Path) -> None:
        path = tmp_path / "a.xls"
        path.touch()
        with pytest.raises(DataError, match=r"'\.xls'"):
            read_records(path)


class TestText:
    @pytest.mark.parametrize(
        ("value", "read"),
        [
            ("a", "a"),
            (" a\n", " a\n"),
            ("", None),
            (None, None),
            (42, "42"),
            (42.0, "42"),
            (0, "0"),
            (0.1 + 0.2, "0.3"),
        ],
    )
    def test_values_read_as_shown(self, value: object, read: str | None) -> None:
        assert text(Record(where="row 2", fields={"a": value}), "a") == read

    def test_an_absent_field_is_none(self) -> None:
        assert text(Record(where="row 2", fields={}), "a") is None

    @pytest.mark.parametrize("value", [True, ["a"], {}, datetime(2024, 1, 2, tzinfo=UTC), "#NAME?"])
    def test_anything_else_is_refused(self, value: object) -> None:
        with pytest.raises(DataError, match=r"row 2: .*\n  a holds"):
            text(Record(where="row 2", fields={"a": value}), "a")


@pytest.mark.skipif(not REAL.is_dir(), reason="the authors' data are not here")
class TestRealFiles:
    @pytest.mark.parametrize(
        ("name", "count"),
        [
            ("convbench/ConvBench.xlsx", 578),
            ("mtbench101/mtbench101.jsonl", 1388),
            ("botchat/MuTual_test.xlsx", 547),
            ("fbbench/fb_bench_dataset_v3.json", 591),
            ("cmteval/eval_long-text_llama3.1-8b.json", 63),
        ],
    )
    def test_all_records_are_read(self, name: str, count: int) -> None:
        records = list(read_records(REAL / name))
        assert len(records) == count
        assert all(record.fields for record in records)

    def test_stray_cells_of_convbench_are_passed_over(self) -> None:
        records = {
            each.fields["ID"]: each for each in read_records(REAL / "convbench/ConvBench.xlsx")
        }
        assert records[526].where == "ConvBench.xlsx row 527"
        assert list(records[526].fields) == list(records[1].fields)
        assert len(orjson.dumps(records[526].fields)) < 600


def test_of_records_in_utf_16_one_line_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes("{}\n{}\n".encode("utf-16"))
    assert fails(path) == "a.jsonl line 1: 1 problem\n  UTF-16, not UTF-8\nSave the file as UTF-8."
