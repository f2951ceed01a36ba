"""Tables as text in narrow terminals: folded, split into blocks, and nothing left out."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmconv.core.types import Cell, Table
from mmconv.report.tables.text import all_to_text, fold, fold_anywhere, to_text

WIDE = Table(
    name="wide",
    title="Scores (%)",
    columns=("error correction", "overall", "authors: overall", "what is odd"),
    rows={
        "Mathematics": {
            "error correction": Cell(value=43.43, low=32.7, high=54.16, n=35),
            "overall": Cell(value=43.43, low=32.7, high=54.16, n=35),
            "authors: overall": Cell(value=43.43, n=35),
            "what is odd": Cell(value="a criterion was renamed, another is missing"),
        },
        "Text Error Correction": {"overall": Cell(value=7.0, n=3, missing={"unparsed": 1})},
    },
    notes=("Only samples that have a checklist are counted, all others are left out.",),
)


def test_what_fits_is_one_line_a_row() -> None:
    assert to_text(WIDE, 200) == to_text(WIDE)
    assert max(map(len, to_text(WIDE).splitlines())) > 100


def test_what_does_not_fit_is_folded_and_stands_in_blocks() -> None:
    assert to_text(WIDE, 62) == (
        "Scores (%)\n"
        "\n"
        "                                error correction\n"
        "------------------------------------------------\n"
        "Mathematics            43.43 [32.70, 54.16] n=35\n"
        "Text Error Correction\n"
        "\n"
        "                                                   overall\n"
        "----------------------------------------------------------\n"
        "Mathematics            43.43 [32.70, 54.16]           n=35\n"
        "Text Error Correction   7.00                n=3, 1 missing\n"
        "\n"
        "                         authors:\n"
        "                          overall  what is odd\n"
        "--------------------------------------------------------------\n"
        "Mathematics            43.43 n=35  a criterion was renamed,\n"
        "                                   another is missing\n"
        "Text Error Correction\n"
        "\n"
        "Only samples that have a checklist are counted, all others are\n"
        "  left out.\n"
        "missing in Text Error Correction: overall: 1 with an\n"
        "  unreadable verdict\n"
    )


def test_titles_of_numbers_are_folded_before_anything_else() -> None:
    cells = {"response maintenance": Cell(value=1.5), "overall": Cell(value=2.5)}
    table = Table(name="t", title="t", columns=tuple(cells), rows={"a long name": cells})
    assert to_text(table, 34).splitlines()[2:] == [
        "                 response",
        "              maintenance  overall",
        "----------------------------------",
        "a long name          1.50     2.50",
    ]


def test_chinese_takes_two_columns_a_sign_and_a_vowel_sign_none() -> None:
    assert fold("感知 推理 创作", 9) == ["感知 推理", "创作"]
    assert fold("ที่ ที่", 3) == ["ที่ ที่"]


def test_a_note_that_several_tables_have_is_folded_too() -> None:
    table = Table(name="t", title="t", columns=(), rows={}, notes=("one two three",))
    text = all_to_text([table, table], 8)
    assert text.endswith("\none two\n  three\n")


def lacking(rows: int) -> Table:
    """A table in which every row lacks something else."""
    return Table(
        name="t",
        title="t",
        columns=("mean",),
        rows={
            f"a row with a name of its own {row}": {
                "mean": Cell(value=1.0, n=3, missing={"unparsed": 9 - row, f"reason {row}": 1})
            }
            for row in range(rows)
        },
    )


def test_a_long_list_of_what_is_missing_is_shortened() -> None:
    text = all_to_text([lacking(8)], 200)
    assert text.endswith(
        "\nmissing, at most in one cell: 9 with an unreadable verdict, 1 reason 0, 1 reason 1, "
        "1 reason 2; fewer for 5 other reasons (CSV and JSON have all of them)\n"
    )
    # what is short stays
    assert all_to_text([lacking(2)], 200).count("missing in a row") == 2


@pytest.mark.parametrize("text", ["", "word", "a  b", "  a"])
def test_a_text_that_fits_stays_as_it_is(text: str) -> None:
    assert fold(text, 5) == [text]


words = st.text("ab ", min_size=1, max_size=30)
reasons = st.dictionaries(words, st.integers(1, 99), max_size=12)
numbers = st.builds(Cell, value=st.floats(0, 100), n=st.integers(0, 999), missing=reasons)
texts = st.builds(Cell, value=words)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    kinds = {name: draw(st.sampled_from([numbers, texts])) for name in draw(st.sets(words))}
    rows = {
        name: {column: draw(kind) for column, kind in kinds.items()}
        for name in draw(st.sets(words))
    }
    return Table(name="t", title=draw(words), columns=tuple(kinds), rows=rows)


@settings(deadline=None)  # a busy machine is slow
@given(tables(), st.integers(10, 120))
def test_nothing_is_left_out_and_only_names_stand_twice(table: Table, width: int) -> None:
    narrow, wide = to_text(table, width), to_text(table)
    names = {word for name in table.rows for word in name.split()}
    counted, all_of_them = _words(narrow), _words(wide)
    assert counted.keys() == all_of_them.keys()
    assert all(counted[word] >= all_of_them[word] for word in names)
    assert all(counted[word] == all_of_them[word] for word in counted.keys() - names)


@settings(deadline=None)  # a busy machine is slow
@given(tables(), st.integers(70, 120))
def test_no_line_is_wider_than_the_terminal(table: Table, width: int) -> None:
    assert all(len(line) <= width for line in to_text(table, width).splitlines())


def _words(text: str) -> Counter[str]:
    return Counter(word for word in text.split() if word.strip("-"))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("short, name", ["short, name"]),
        ("Llama-3.2-Vision, hard", ["Llama-3.2-", "Vision, hard"]),
        ("a longwordwithout", ["a", "longwordwith", "out"]),
        ("中文中文中文中文", ["中文中文中文", "中文"]),
    ],
)
def test_a_word_too_long_is_broken_where_nothing_may_be_wider(text: str, lines: list[str]) -> None:
    assert fold_anywhere(text, 12) == lines
