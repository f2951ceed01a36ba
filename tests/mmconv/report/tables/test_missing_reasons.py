"""Reasons of missing scores in words: short, the most frequent first, each run's together."""

from __future__ import annotations

import pytest

from mmconv.core.types import SAME_TEXT, UNASKED, UNPARSED, Failure, Skipped
from mmconv.report.tables.cells import in_words, word_reasons


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
    told = "in b: 3 failed (server), 2 with an unreadable verdict; in a: 1 with an unreadable"
    assert word_reasons(missing) == f"{told} verdict"
