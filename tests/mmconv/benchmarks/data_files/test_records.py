import csv
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from mmconv.benchmarks.data_files.records import Record, read_records, scan_records, text
from mmconv.core.errors import DataError
from tests.mmconv.benchmarks.data_files.reading import fails

REAL = Path(__file__).parents[5] / "shared" / "data"


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
        assert "Put quotes around cells that hold separators" in fails(path)

    @pytest.mark.parametrize("encoding", ["cp1252", "gb18030", "utf-16"])
    def test_another_encoding_is_named_with_its_line(self, tmp_path: Path, encoding: str) -> None:
        path = tmp_path / "a.csv"
        path.write_bytes("ID,b\n1,né à Lille\n".encode(encoding))
        line = 1 if encoding == "utf-16" else 2
        assert f"a.csv line {line}: 1 problem\n  not UTF-8\nSave the file as UTF-8" in fails(path)

    @pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
    @pytest.mark.parametrize(
        ("data", "fields"),
        [
            (b"ID;b\n1;x, y\n", {"ID": "1", "b": "x, y"}),
            (b'"ID";"b"\n1;x\n', {"ID": "1", "b": "x"}),
            (b"ID\tb\n1\tx\n", {"ID": "1", "b": "x"}),
            (b"ID,b;c\n1,x;y;z\n", {"ID": "1", "b;c": "x;y;z"}),
        ],
    )
    def test_the_first_line_says_what_separates_cells(
        self, tmp_path: Path, name: str, data: bytes, fields: dict[str, str]
    ) -> None:
        path = tmp_path / name
        path.write_bytes(data)
        assert [record.fields for record in read_records(path)] == [fields]


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
        assert [(each.where, each.fields) for each in bad] == [
            (f"a.jsonl line {number}", {}) for number in (2, 3, 4)
        ]
        assert all(each.fault for each in bad)
        with pytest.raises(DataError, match=r"a\.jsonl line 2: 1 problem"):
            list(read_records(path))

    def test_the_place_in_a_line_that_is_not_json_is_told(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_text('{"ID": 1}\n{"ID": 2, é}', encoding="utf-8")
        message = fails(path)
        assert "a.jsonl line 2: 1 problem\n  not JSON: " in message
        assert "(character 11 of the line)" in message

    @pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
    def test_another_encoding_is_named(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        path.write_bytes('{"ID": "né"}'.encode("cp1252"))
        assert "not JSON: str is not valid UTF-8" in fails(path)

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
            ('{"v": 1, "data": [{"ID": 1}]}', "not a list of records"),
            ('{"ID": 1}\n{"ID": 2}\n', "call one with a record on each line .jsonl"),
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
        with pytest.raises(DataError, match="file does not exist"):
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
