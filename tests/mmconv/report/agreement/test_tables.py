"""What a table of agreement says it is over, and what it leaves out."""

from __future__ import annotations

from mmconv.core.types import Table
from mmconv.report.agreement.panels import match
from mmconv.report.agreement.tables import agreement_table
from mmconv.stats.agreement.panel import EACH
from tests.mmconv.report.agreement.raters import rated


def table(metric: str = "rating") -> Table:
    judged = rated("judge", {"a": 1, "b": 2, "c": 3, "e": 3, "f": 2}, metric=metric)
    human = rated("ann", {"a": 1, "b": 3, "c": 3, "d": 1, "f": None}, metric=metric)
    [found] = match(judged, human)
    return agreement_table(found, human, replicates=20, seed=3)


def test_the_notes_say_what_was_compared_and_left_out() -> None:
    assert table().notes[1:] == (
        "Mean difference, judge - person: above 0 the judge rates higher. Quadratic weights are "
        "the squares of differences between the numbers.",
        "Intervals: 95 % percentiles of 20 draws of 3 whole dialogues (seed 3). Of fewer than 30 "
        "dialogues they are rather too narrow.",
        "Few units: a kappa of 0.6 over 3 of them is uncertain by 0.9 either way, for two ratings "
        "of one frequency.",
        "Every column is over the units that a judge rated. Units that only people rated: 1.",
        "Units that only a judge rated: 2.",
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
    assert notes[-2] == "Units that only a judge rated: 2."
    assert notes[-1].startswith(
        "Of these, 2 are later trials of samples that people rated. A person's"
    )


def test_whose_interval_an_agreement_of_1_has_is_told() -> None:
    judged, human = (rated(rater, dict.fromkeys("abcdef", 1)) for rater in ("judge", "ann"))
    [found] = match(judged, human)
    told = agreement_table(found, human, replicates=0, seed=0)
    assert told.rows["agreement"][EACH].low is not None
    assert sum(note.startswith("An agreement of 0 or 1") for note in told.notes) == 1
