"""What a table of agreement says it is over, and what it leaves out."""

from __future__ import annotations

import pytest

from mmconv.agreement import tables
from mmconv.agreement.matching import match
from mmconv.agreement.tables import agreement_table
from mmconv.values import Table
from tests.mmconv.agreement.raters import rated

ALPHA = "Krippendorff's alpha is left out: too many distinct ratings. Round them to have it."


def table(metric: str = "rating") -> Table:
    judged = rated("judge", {"a": 1, "b": 2, "c": 3, "e": 3, "f": 2}, metric=metric)
    human = rated("ann", {"a": 1, "b": 3, "c": 3, "d": 1, "f": None}, metric=metric)
    [found] = match(judged, human)
    return agreement_table(found, human, replicates=20, seed=3)


def test_the_notes_say_what_was_compared_and_left_out() -> None:
    assert table().notes[1:] == (
        "Intervals: 95 % percentiles of 20 draws of 3 whole dialogues (seed 3).",
        "Every column is over the units that a judge rated. Units that people rated and no judge "
        "did: 1.",
        "Units that a judge rated and no person did: 2.",
        "Empty ratings by people, left out: 1.",
    )


def test_the_name_is_one_of_a_file_and_the_title_the_metric_s() -> None:
    found = table("style (1/10)")
    assert (found.name, found.title) == ("agreement-style-1-10", "Agreement on style (1/10)")


def test_alpha_is_left_out_where_it_would_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Krippendorff's alpha (ordinal)" in table().rows
    assert ALPHA not in table().notes
    monkeypatch.setattr(tables, "MOST_CELLS", 26)
    assert ALPHA in table().notes
    assert "Krippendorff's alpha (ordinal)" not in table().rows
