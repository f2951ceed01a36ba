"""Tables of agreement: scales that seem to differ, and what is compared and left out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mmconv.benchmarks.base.results import Scale
from mmconv.core.errors import DataError
from mmconv.core.types import Table
from mmconv.report.agreement.panels import match
from mmconv.report.agreement.tables import agreement_table, read_scale, warn_of_scales
from tests.mmconv.report.agreement.raters import rated, write_manifest


def warning(
    judge: Sequence[float | str], person: Sequence[float | str], scale: Any = None
) -> str | None:
    judged, human = (
        rated(rater, {str(place): value for place, value in enumerate(values)}, metric="style")
        for rater, values in (("judge", judge), ("ann", person))
    )
    [found] = match(judged, human)
    return warn_of_scales(found, human, scale)


def test_ratings_on_two_scales_are_told_with_their_values() -> None:
    message = warning([1, 10, 7, 3] * 5, [1, 5, 4, 2] * 5)
    assert message is not None
    assert message.startswith(
        "WARNING: on style, judges and people seem to rate on different scales"
    )
    assert "judges gave 1 to 10, people 1 to 5." in message
    assert "Only Pearson's r, Spearman's rho and Kendall's tau-b are valid" in message
    for judge, person in (
        ((0, 4, 2) * 7, (1, 5, 3) * 7),
        ((0.2, 0.9, 0.5) * 2, (20, 90, 40) * 2),
        ((1, 2) * 3, (3, 3) * 3),
    ):
        assert warning(judge, person) is not None
    assert "judges gave 1 to 2, people 3 (beyond the judges': 3 (ann.csv row 2), 3" in (
        warning((1, 2) * 3, (3, 3) * 3) or ""
    )


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


def test_an_outlier_is_named_with_its_record() -> None:
    message = warning([1, 10, 7, 3] * 5, [1, 55, 7, 3, *[1, 10, 7, 3] * 4])
    assert message is not None
    assert "people 1 to 55 (beyond the judges': 55 (ann.csv row 3)). Only" in message


def test_what_is_off_a_known_scale_is_told_however_near_it_is() -> None:
    judge = [1, 9, 7, 3] * 5
    assert warning(judge, [10, 9, 7, 3] * 5, (1, 10)) is None
    for value in (55, 11, -3):
        message = warning(judge, [1, value, 7, 3, *[1, 10, 7, 3] * 4], {"style": (1, 10)})
        assert message == (
            f"WARNING: on style, judges rate from 1 to 10, and people gave {value} (ann.csv row "
            "3). Values off the scale are used as they are: correct them, or leave the cells empty."
        )
    assert "people gave 0 (ann.csv row 2)." in (warning((5,), (0,), (1, 10)) or "")
    assert "rate from 0 to inf, and people gave -1 (" in (
        warning((5,), (-1,), {"style": [0, None]}) or ""
    )
    assert warning(judge, judge, {"other": (5, 6), "style": None}) is None


@pytest.mark.parametrize(
    ("benchmark", "facts", "scale"),
    [
        ("convbench", {}, {"rating": (1, 10), "win": (0, 1)}),
        ("mtbench101", {}, {"rating": (1, 10), "dialogue": (1, 10)}),
        ("fbbench", {}, {"score": (0, 1)}),
        ("mine.doubts:Doubts", {"scale": {"style": [1, 5], "words": None}}, None),
    ],
)
def test_the_scale_is_that_of_the_run_s_benchmark(
    tmp_path: Path, benchmark: str, facts: dict[str, Scale], scale: Scale
) -> None:
    file = tmp_path / "scores.jsonl"
    assert read_scale(file) is None
    write_manifest(tmp_path, benchmark, **facts)
    assert read_scale(file) == (scale or facts.get("scale"))
    assert read_scale(tmp_path / "judge.csv") is None
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="cut short"):
        read_scale(file)


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


def test_later_trials_are_told_for_what_they_are() -> None:
    judged = rated("judge", {"1": 1, "1#2": 2, "1#3": 3, "2": 3})
    human = rated("ann", {"1": 1, "2": 3})
    [found] = match(judged, human)
    notes = agreement_table(found, human, replicates=0, seed=0).notes
    assert notes[-2] == "Units that only a judge rated: 2."
    assert notes[-1].startswith(
        "Of these, 2 are later trials of samples that people rated. A person's"
    )
