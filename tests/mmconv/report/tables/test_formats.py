"""Tables in their five formats: what is printed, escaped, rounded and refused."""

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mmconv.core.atomic_writes import write_file
from mmconv.core.errors import DataError
from mmconv.core.types import Axis, Cell, Table
from mmconv.report.tables.formats import (
    FORMATS,
    all_to_markdown,
    as_printed,
    remove_tables,
    to_csv,
    to_json,
    to_markdown,
    unquote_formula,
    write_tables,
)
from mmconv.report.tables.latex import to_latex
from mmconv.report.tables.text import to_text
from mmconv.run_folder.saved_run import read_tables

TABLE = Table(
    name="win_rates",
    title="Win rates, % of samples",
    columns=("S1", "R2 & all"),
    rows={
        "free": {
            "S1": Cell(value=39.514, n=577, missing={"unparsed": 1}, low=35.5, high=43.505),
            "R2 & all": Cell(value=1.005, n=577),
        },
        "感知_a|b": {
            "S1": Cell(value=None, n=0, missing={"timeout": 2, "unparsed": 576}),
            "R2 & all": Cell(value="official"),
        },
        "[half]": {"R2 & all": Cell(value=-0.001)},
    },
    notes=("the authors divide by 577",),
)


def test_text_is_aligned_and_shows_what_stands_behind_each_value() -> None:
    assert to_text(TABLE) == (
        "Win rates, % of samples\n"
        "\n"
        "                                             S1        R2 & all\n"
        "---------------------------------------------------------------\n"
        "free      39.51 [35.50, 43.51] n=577, 1 missing      1.01 n=577\n"
        "感知_a|b      –                n=0, 578 missing  official\n"
        "[half]                                               0.00\n"
        "\n"
        "the authors divide by 577\n"
        "missing in free: S1: 1 with an unreadable verdict\n"
        "missing in 感知_a|b: S1: 576 with an unreadable verdict, 2 timeout\n"
    )


def test_markdown_has_one_line_per_row_and_escapes_its_own_signs() -> None:
    assert to_markdown(TABLE) == (
        "**Win rates, % of samples**\n"
        "\n"
        "|  | S1 | R2 & all |\n"
        "| --- | ---: | ---: |\n"
        "| free | 39.51 [35.50, 43.51] n=577, 1 missing | 1.01 n=577 |\n"
        "| 感知\\_a\\|b | – n=0, 578 missing | official |\n"
        "| [half] |  | 0.00 |\n"
        "\n"
        "- the authors divide by 577\n"
        "- missing in free: S1: 1 with an unreadable verdict\n"
        "- missing in 感知\\_a\\|b: S1: 576 with an unreadable verdict, 2 timeout\n"
    )


def test_markdown_makes_no_formula_link_or_sign_of_a_name() -> None:
    table = Table(
        name="t",
        title="a $x$ b",
        columns=("~c~",),
        rows={"[d](e) &lt; f & g": {"~c~": Cell(value=1.0, low=0.0, high=2.0)}},
    )
    assert to_markdown(table) == (
        "**a \\$x\\$ b**\n"
        "\n"
        "|  | \\~c\\~ |\n"
        "| --- | ---: |\n"
        "| [d\\](e) \\&lt; f & g | 1.00 [0.00, 2.00] |\n"
    )


def test_a_report_numbers_the_notes_that_several_tables_have() -> None:
    shared = ("Brackets are intervals.", "A tie is no win.")
    tables = [
        replace(TABLE, name="one", notes=("Its own.", shared[1], shared[0])),
        replace(TABLE, name="two", notes=(shared[0],)),
        replace(TABLE, name="three", notes=(shared[1],)),
    ]
    text = all_to_markdown(tables)
    assert text.endswith(f"\n**Notes**\n\n1. {shared[1]}\n2. {shared[0]}\n")
    assert [text.count(note) for note in shared] == [1, 1]
    assert text.count("- Its own.\n- See notes 1, 2 at the end.\n") == 1
    assert text.count("- See note 2 at the end.\n") == 1
    assert "**Notes**" not in all_to_markdown(tables[:1])


def test_what_programs_read_has_no_separators() -> None:
    rows = {"r": {"tokens": Cell(value=5723795.0, low=1000.0, high=9e6)}}
    table = Table(name="t", title="t", columns=("tokens",), rows=rows, digits=0, signed=True)
    assert "+5,723,795 [+1,000, +9,000,000]" in to_markdown(table)
    assert to_csv(table).endswith("\nr,5723795.0,1000.0,9000000.0\n")
    assert as_printed([table])["t"]["r"]["tokens"]["value"] == 5723795.0


def test_csv_reads_back_in_full() -> None:
    first, second, third = csv.DictReader(to_csv(TABLE).splitlines())
    assert "R2 & all.low" not in first
    assert first["row"] == "free"
    assert [float(first[f"S1{field}"]) for field in ("", ".low", ".high")] == [39.514, 35.5, 43.505]
    assert (first["S1.n"], first["S1.missing"], first["S1.why"]) == ("577", "1", "1 unparsed")
    assert (second["S1"], second["S1.low"], second["S1.n"]) == ("", "", "0")
    assert (second["S1.missing"], second["S1.why"]) == ("578", "2 timeout, 576 unparsed")
    assert (second["R2 & all"], second["R2 & all.missing"]) == ("official", "")
    assert (third["S1"], third["S1.n"], third["R2 & all"]) == ("", "", "-0.001")


def test_rows_that_lack_the_same_are_told_together() -> None:
    lacking = Cell(value=1.0, n=1, missing={"unparsed": 2})
    rows = {name: {"S1": lacking} for name in ("a", "b")} | {"c": {"S1": Cell(value=1.0, n=3)}}
    text = to_text(Table(name="t", title="t", columns=("S1",), rows=rows))
    assert text.endswith("\nmissing in a; b: S1: 2 with an unreadable verdict\n")


def test_json_is_one_object_with_every_cell_in_full() -> None:
    document = json.loads(to_json(TABLE))
    assert document["columns"] == ["S1", "R2 & all"]
    assert (document["name"], document["digits"]) == ("win_rates", 2)
    assert document["notes"] == ["the authors divide by 577"]
    assert document["rows"]["free"]["S1"] == {
        "value": 39.514,
        "n": 577,
        "missing": {"unparsed": 1},
        "low": 35.5,
        "high": 43.505,
    }
    assert document["rows"]["感知_a|b"]["S1"]["value"] is None
    assert list(document["rows"]["[half]"]) == ["R2 & all"]


@pytest.mark.parametrize(
    ("value", "digits", "printed"),
    [
        (0.125, 2, "0.13"),
        (0.135, 2, "0.14"),  # the float lies just above, its shortest decimal on the half
        (1.005, 2, "1.01"),  # the float lies just below
        (-0.125, 2, "-0.13"),
        (-0.004, 2, "0.00"),
        (2.5, 0, "3"),
        (1e30, 1, "1" + ",000" * 10 + ".0"),
        (-5723795.0, 0, "-5,723,795"),
        (999.5678, 4, "999.5678"),
        (1e-9, 2, "0.00"),
    ],
)
def test_numbers_round_half_up_as_they_are_written(value: float, digits: int, printed: str) -> None:
    table = Table(
        name="t", title="t", columns=("c",), rows={"r": {"c": Cell(value=value)}}, digits=digits
    )
    assert f"| r | {printed} |" in to_markdown(table)


def test_no_table_has_a_number_that_is_none_or_an_unknown_column(tmp_path: Path) -> None:
    for column, cell, fault in (
        ("c", Cell(value=math.nan), "'r', 'c'"),
        ("c", Cell(value=1.0, low=-math.inf, high=1.0), "'r', 'c'"),
        ("other", Cell(value=1.0), "other"),
    ):
        table = Table(name="t", title="t", columns=("c",), rows={"r": {column: cell}})
        with pytest.raises(ValueError, match=fault):
            write_tables(tmp_path, [table])
        with pytest.raises(ValueError, match=fault):
            as_printed([table])
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("render", FORMATS.values(), ids=FORMATS)
def test_every_format_renders_a_table_without_columns(render: Callable[[Table], str]) -> None:
    assert "a row" in render(Table(name="t", title="t", columns=(), rows={"a row": {}}))


def test_line_ends_in_names_do_not_break_lines() -> None:
    table = Table(name="t", title="t", columns=("a\ncolumn",), rows={"a\nrow": {}})
    for render in (to_text, to_markdown, to_latex):
        assert "a row" in render(table)
        assert "a column" in render(table)
    assert list(csv.reader(io.StringIO(to_csv(table))))[1][0] == "a\nrow"


def test_written_tables_are_read_back_in_their_order(tmp_path: Path) -> None:
    signed = replace(TABLE, name="a_later_one", signed=True, detail=True, digits=1)
    change = {"a": {"S1": Cell(value=1.0, n=3, signed=True)}}
    mixed = Table(name="mixed", title="t", columns=("S1",), rows=change)
    place = Cell(value=11.0, n=3, low=9.5, high=11.0, ends=(1.0, 10.0))
    axis = Axis(title="level", line=50.0, mark="S1")
    curves = Table(name="curves", title="t", columns=("S1",), rows={"a": {"S1": place}}, axis=axis)
    write_tables(tmp_path, [TABLE, signed, mixed, curves])
    assert read_tables(tmp_path) == (TABLE, signed, mixed, curves)
    assert ">10 [9.50, >10] n=3" in to_text(curves)


def test_tables_that_are_not_written_again_are_gone_and_nothing_else(tmp_path: Path) -> None:
    write_tables(tmp_path, [TABLE, replace(TABLE, name="left_out")])
    foreign = tmp_path / "mine.csv"
    foreign.write_text("a,b")
    write_tables(tmp_path, [TABLE])
    written = {f"win_rates.{suffix}" for suffix in FORMATS}
    assert {path.name for path in tmp_path.iterdir()} == {"index.json", "mine.csv"} | written
    (tmp_path / "index.json").write_text('["../elsewhere", "mine", 3')
    write_tables(tmp_path, [TABLE])
    (tmp_path / "index.json").write_text('["../tables/win_rates"]')
    remove_tables(tmp_path)
    assert foreign.exists()
    assert (tmp_path / "win_rates.csv").exists()


def test_a_table_that_is_read_while_it_is_written_again_stays_whole(tmp_path: Path) -> None:
    write_tables(tmp_path, [TABLE])
    with (tmp_path / "win_rates.json").open() as read, (tmp_path / "index.json").open() as index:
        write_tables(tmp_path, [replace(TABLE, rows={})])
        assert read.read() == to_json(TABLE)
        write_tables(tmp_path, [])
        assert json.load(index) == ["win_rates"]


def test_the_index_is_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(path: Path, content: bytes | str) -> None:
        if path.name == "b.tex":
            raise OSError("no space left on device")
        write_file(path, content)

    monkeypatch.setattr("mmconv.report.tables.formats.write_file", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_tables(tmp_path, [replace(TABLE, name="a"), replace(TABLE, name="b")])
    with pytest.raises(FileNotFoundError, match=r"index\.json"):
        read_tables(tmp_path)


def test_reading_tables_that_are_not_there_or_broken_says_where(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"index\.json"):
        read_tables(tmp_path)
    write_tables(tmp_path, [TABLE])
    for content, fault in (
        ('{"name": "win_rates"}', "not a table of mmconv: rows: Field required"),
        ('{"name": "win_', "cut short, or not JSON"),
        ("[]", "not a table of mmconv"),
    ):
        (tmp_path / "win_rates.json").write_text(content)
        with pytest.raises(DataError, match=rf"(?s)win_rates\.json: .*{fault}"):
            read_tables(tmp_path)
    (tmp_path / "index.json").write_text('{"win_rates": 1}')
    with pytest.raises(DataError, match=r"(?s)index\.json: .*not a list of names"):
        read_tables(tmp_path)


def test_two_tables_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one name"):
        write_tables(tmp_path, [TABLE, TABLE])
    with pytest.raises(ValueError, match="that of the index"):
        write_tables(tmp_path, [replace(TABLE, name="index")])
    with pytest.raises(ValueError, match="plain file name"):
        write_tables(tmp_path, [TABLE, replace(TABLE, name="a/b")])
    assert list(tmp_path.iterdir()) == []


FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-2", "@SUM(A1)", "\t=1", "'=1", "''-1")


def test_no_text_of_a_csv_file_is_a_formula_and_numbers_stay_numbers() -> None:
    table = Table(
        name="texts",
        title="Texts",
        columns=("=1+1", "value"),
        rows={text: {"=1+1": Cell(value=text), "value": Cell(value=-0.5)} for text in FORMULAS},
    )
    header, *rows = csv.reader(io.StringIO(to_csv(table)))
    assert header == ["row", "'=1+1", "value"]
    assert [row[2] for row in rows] == ["-0.5"] * len(FORMULAS)
    for row, text in zip(rows, FORMULAS, strict=True):
        assert row[0] == row[1] == f"'{text}"
        assert unquote_formula(row[0]) == text


def test_other_texts_are_written_as_they_are() -> None:
    for text in ("S2_hat - S2", "'quoted'", "", "1-10", "don't"):
        assert unquote_formula(text) == text
        table = Table(name="texts", title="", columns=("a",), rows={"r": {"a": Cell(value=text)}})
        assert [*csv.reader(io.StringIO(to_csv(table)))][1] == ["r", text]
