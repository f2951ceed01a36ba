"""What a table of agreement says it is over, and what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence

from mmconv.agreement.matching import match
from mmconv.agreement.tables import agreement_table, warn_of_scales
from mmconv.stats.agreement.panel import EACH
from mmconv.values import Table
from tests.mmconv.agreement.raters import rated


def table(metric: str = "rating") -> Table:
    judged = rated("judge", {"a": 1, "b": 2, "c": 3, "e": 3, "f": 2}, metric=metric)
    human = rated("ann", {"a": 1, "b": 3, "c": 3, "d": 1, "f": None}, metric=metric)
    [found] = match(judged, human)
    return agreement_table(found, human, replicates=20, seed=3)


def test_the_notes_say_what_was_compared_and_left_out() -> None:
    assert table().notes[1:] == (
        "Mean difference, judge - person: above 0 the judge rates higher. Quadratic weights are "
        "the squares of differences between the numbers.",
        "Intervals: 95 % percentiles of 20 draws of 3 whole dialogues (seed 3).",
        "Every column is over the units that a judge rated. Units that people rated and no judge "
        "did: 1.",
        "Units that a judge rated and no person did: 2.",
        "Empty ratings by people, left out: 1.",
    )


def test_the_name_is_one_of_a_file_and_the_title_the_metric_s() -> None:
    found = table("style (1/10)")
    assert (found.name, found.title) == ("agreement-style-1-10", "Agreement on style (1/10)")


def test_later_trials_are_told_for_what_they_are() -> None:
    judged = rated("judge", {"1": 1, "1#2": 2, "1#3": 3, "2": 3})
    human = rated("ann", {"1": 1, "2": 3})
    [found] = match(judged, human)
    notes = agreement_table(found, human, replicates=0, seed=0).notes
    assert notes[-2] == "Units that a judge rated and no person did: 2."
    assert notes[-1].startswith("Of these, 2 are later trials of samples that people rated: 1#2 is")


def warning(judge: Sequence[float | str], person: Sequence[float | str]) -> str | None:
    sides = (
        rated(rater, {str(place): value for place, value in enumerate(values)}, metric="style")
        for rater, values in (("judge", judge), ("ann", person))
    )
    [found] = match(*sides)
    return warn_of_scales(found)


def test_ratings_on_two_scales_are_told_with_their_values() -> None:
    told = warning([1, 10, 7, 3] * 5, [1, 5, 4, 2] * 5)
    assert told is not None
    assert told.startswith("WARNING: on style, judges and people seem to rate on different scales")
    assert "judges gave 1 to 10, people 1 to 5." in told
    assert "only Pearson's r, Spearman's rho and Kendall's tau-b mean something" in told
    for judge, person in (
        ((0, 4, 2) * 7, (1, 5, 3) * 7),
        ((0.2, 0.9, 0.5) * 2, (20, 90, 40) * 2),
        ((1, 2) * 3, (3, 3) * 3),
    ):
        assert warning(judge, person) is not None
    assert "judges gave 1 to 2, people 3." in (warning((1, 2) * 3, (3, 3) * 3) or "")


def test_ratings_that_may_be_on_one_scale_are_not_warned_of() -> None:
    """Nobody gave the lowest or highest; one gave nothing else; no numbers; or they are few."""
    alike = (
        ((1, 9, 5) * 7, (2, 10, 5) * 7),
        ((3, 3, 3), (1, 5, 3)),
        ((3, 3), (3, 3)),
        ("AB", "BA"),
        ((2, 10, 6), (2, 5, 6)),
        ((5,), (4,)),
        ((5, 10), (4, 3)),
    )
    for judge, person in alike:
        assert warning(judge, person) is None


def test_whose_interval_an_agreement_of_1_has_is_told() -> None:
    judged, human = (rated(rater, dict.fromkeys("abcdef", 1)) for rater in ("judge", "ann"))
    [found] = match(judged, human)
    told = agreement_table(found, human, replicates=0, seed=0)
    assert told.rows["agreement"][EACH].low is not None
    assert sum(note.startswith("An agreement of 0 or 1") for note in told.notes) == 1
