"""Cells: reasons of missing scores in words, and counts that columns share are told once."""

import pytest

from mmconv.core.types import SAME_TEXT, UNASKED, UNPARSED, Cell, Failure, Skipped, Table
from mmconv.report.tables.cells import in_words, show_counts_once, two_digits, word_reasons


@pytest.mark.parametrize(
    ("reason", "run", "words"),
    [
        (UNPARSED, "", "with an unreadable verdict"),
        (Failure(kind="rejected", message="no", attempts=1).why, "", "failed (rejected)"),
        (Skipped(because="turn_3").why, "", "without an answer in turn 3"),
        (Skipped(because="pairwise_A/turn_3").why, "", "without a verdict on turn 3"),
        (Skipped(because="draft").why, "", "without draft"),
        (Skipped(because=UNASKED, reason="unrequested").why, "", "not asked yet"),
        (Skipped(because=SAME_TEXT, reason="same_text").why, "", "of the same text"),
        ("no score with perfect perception", "", "without a score with perfect perception"),
        ("no answer: server", "", "without an answer (server)"),
        ("unpaired: a: no answer: server", "a", "without an answer (server)"),
        ("unpaired: unparsed", "", "with an unreadable verdict"),
        ("unpaired: only on the left", "", "in one of the two only"),
        ("unpaired: only in alpha", "", "only in alpha"),
        ("unpaired: a (1): failed: server", "a (1)", "failed (server)"),
        ("too short: 3 words", "", "too short: 3 words"),
    ],
)
def test_reasons_are_told_in_words(reason: str, run: str, words: str) -> None:
    assert in_words(reason) == (run, words)


def test_the_most_frequent_goes_first_and_what_has_one_name_is_added_up() -> None:
    missing = {
        "failed: server": 2,
        "skipped: pairwise_A/turn_1": 2,
        "skipped: pairwise_B/turn_1": 3,
        "unparsed": 0,
    }
    assert word_reasons(missing) == "5 without a verdict on turn 1, 2 failed (server)"
    assert word_reasons({}) == ""


def test_reasons_of_each_run_stand_behind_its_label() -> None:
    missing = {
        "unpaired: a: unparsed": 1,
        "unpaired: b: failed: server": 3,
        "unpaired: b: unparsed": 2,
    }
    message = "in b: 3 failed (server), 2 with an unreadable verdict; in a: 1 with an unreadable"
    assert word_reasons(missing) == f"{message} verdict"


def table(other: Cell) -> Table:
    rows = {
        "a": {
            "rank": Cell(value="1"),
            "R1": Cell(value=5.0, n=9, missing={"unparsed": 1}),
            "S1": Cell(value=6.0, n=9, missing={"unparsed": 1}),
        },
        "b": {"rank": Cell(value="2"), "R1": Cell(value=4.0, n=10), "S1": other},
    }
    return Table(name="board", title="Board", columns=("rank", "R1", "S1"), rows=rows)


def test_equal_counts_stand_in_the_first_column_that_counts() -> None:
    shown = show_counts_once(table(Cell(value=3.0, n=10, low=2.0, high=4.0)))
    assert shown.rows["a"]["R1"] == Cell(value=5.0, n=9, missing={"unparsed": 1})
    assert shown.rows["a"]["S1"] == Cell(value=6.0)
    assert shown.rows["b"]["S1"] == Cell(value=3.0, low=2.0, high=4.0)
    assert shown.notes == ("Columns without n have the n and the missing values of R1.",)


def test_counts_of_a_row_that_the_first_column_lacks_are_kept() -> None:
    full = table(Cell(value=3.0, n=10))
    rows = {name: dict(row) for name, row in full.rows.items()}
    del rows["b"]["R1"]
    lacking = Table(name="board", title="Board", columns=full.columns, rows=rows)
    assert show_counts_once(lacking) == lacking


@pytest.mark.parametrize(
    ("number", "text"), [(123.4, "120"), (9.26, "9.3"), (0.0123, "0.012"), (0.0, "0")]
)
def test_two_digits_have_no_exponent(number: float, text: str) -> None:
    assert two_digits(number) == text
