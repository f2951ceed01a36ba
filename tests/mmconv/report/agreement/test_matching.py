"""Which ratings are chosen and meet in a panel, and what is refused."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from mmconv.core.errors import ConfigError, DataError
from mmconv.report.agreement.panels import Match, Rating, choose, match, require_fields
from mmconv.stats.agreement.many_raters import Level
from tests.mmconv.report.agreement.raters import rated

JUDGE = rated("judge", {"a": 1, "b": 2, "c": 3})


def only(matches: Sequence[Match]) -> Match:
    [found] = matches
    return found


def refusal(
    judged: Sequence[Rating],
    human: Sequence[Rating],
    *,
    tie: str | None = None,
    level: Level | None = None,
) -> str:
    with pytest.raises((ConfigError, DataError)) as refused:
        match(judged, human, tie=tie, level=level)
    return str(refused.value)


def test_units_are_those_that_both_sides_rated() -> None:
    judged = [*JUDGE, *rated("judge", {"e": None, "f": 2})]
    ann, ben = rated("ann", {"a": 1, "c": 3, "e": 1}), rated("ben", {"c": 2, "d": 2, "f": None})
    found = only(match(judged, [*ann, *ben]))
    assert found.metric == ""
    assert found.panel.clusters == ("a", "c")
    np.testing.assert_array_equal(found.panel.judges, [[1, 3]])
    np.testing.assert_array_equal(found.panel.people, [[1, 3], [math.nan, 2]])
    assert found.panel.unjudged == {"no value": 1, "no judgement": 1}
    assert found.unrated == 2
    assert (found.panel.level, found.panel.ordered, found.panel.tie) == ("ordinal", True, None)


@pytest.mark.parametrize(
    ("judges", "written", "meant"),
    [
        ("2", "2.0", "2"),
        ("2", "002", "2"),
        ("2#3", "2.0#3", "2#3"),
        ("002", " 2 ", "002"),
        ("1.10", "1.1", None),
        ("2#1", "2#2", None),
        ("x.0", "x", None),
    ],
)
def test_a_number_is_the_judge_s_however_it_is_written(
    judges: str, written: str, meant: str | None
) -> None:
    judged, human = rated("judge", {"a": 1, judges: 2}), rated("ann", {"a": 1, written: 3})
    clusters = only(match(judged, human)).panel.clusters
    assert clusters == (("a",) if meant is None else ("a", meant))


def test_labels_are_nominal_and_their_tie_is_known() -> None:
    judged = rated("judge", {"1": "A", "2": "B", "3": "tie"})
    panel = only(match(judged, rated("ann", {"1": "A", "2": "A", "3": "tie"}))).panel
    np.testing.assert_array_equal(panel.judges, [[0, 1, 2]])
    np.testing.assert_array_equal(panel.people, [[0, 0, 2]])
    assert (panel.level, panel.ordered, panel.tie) == ("nominal", False, 2)
    message = refusal(judged, judged, level="ordinal")
    assert message == "--level ordinal: A, B, tie are labels, which are nominal"


def test_the_tie_of_numbers_must_be_named() -> None:
    judged = rated("judge", {"1": 1, "2": 0.5, "3": 0})
    assert only(match(judged, judged)).panel.tie is None
    assert only(match(judged, judged, tie="0.5")).panel.tie == 0.5
    message = refusal(judged, judged, tie="tie")
    assert message == "--tie tie: no rating has this value; there are 1, 0.5, 0"


def test_a_stray_label_among_numbers_is_named() -> None:
    person = rated("ann", {"a": 1, "b": "n/a", "c": 3})
    for level in (None, "ordinal"):
        message = refusal(JUDGE, person, level=level)
        assert "the values are of two kinds (numbers: 5, labels: 1)" in message
        assert "ann.csv row 3: value is n/a" in message
    words = rated("words", {"a": "good", "b": "good", "c": 0})
    assert "words.csv row 4: value is 0" in refusal(words, words)


def test_rating_a_unit_twice_is_refused() -> None:
    first, other = rated("ann", {"a": 1, "b": 1})
    message = refusal(JUDGE, [first, other, replace(first, where="ann.csv row 4", value=2)])
    assert message.startswith("ann.csv row 4")
    assert "'ann' rates a again, after ann.csv row 2" in message


def test_sides_that_do_not_meet_are_refused() -> None:
    names = refusal(rated("judge", {"a": 1, "b": 1}), rated("names", {"A": 1, "B": 1}))
    assert "judges have these samples: a, b" in names
    assert "people have these samples: A, B" in names
    assert "A unit must have the same sample in all files." in names
    words = refusal(JUDGE, rated("words", {"a": "good", "b": "bad"}))
    assert "people have these values: good, bad" in words
    assert "people have these samples: none" in refusal(JUDGE, rated("empty", {"a": None}))
    message = refusal(
        rated("judge", {"a": 1}, metric="rating"), rated("ann", {"a": 1}, metric="style")
    )
    assert "people rated style, which no judge did (judges: rating)" in message


def test_the_field_that_differs_is_named() -> None:
    judged = rated("judge", {"a": 1, "b": 1}, condition="free", turn="1")
    message = refusal(judged, rated("ann", {"a": 1, "b": 1}, condition="Free", turn="1"))
    assert "judges have these conditions: free" in message
    assert "people have these conditions: Free" in message
    assert "A unit must have the same condition in all files." in message
    assert "samples" not in message


def test_units_that_differ_in_no_single_field_are_told_whole() -> None:
    judged = [*rated("judge", {"a": 1}, turn="1"), *rated("judge", {"b": 1}, turn="2")]
    human = [*rated("ann", {"a": 1}, turn="2"), *rated("ann", {"b": 1}, turn="1")]
    message = refusal(judged, human)
    assert "judges rated these (sample / turn): a / 1, b / 2" in message
    assert "people rated these (sample / turn): a / 2, b / 1" in message


def test_later_trials_of_samples_that_people_rated_are_counted() -> None:
    judged = rated("judge", {"a": 1, "a#2": 2, "a#3": 3, "b": 1, "b#2": 1, "issue#7#1": 2, "x": 3})
    found = only(match(judged, rated("ann", {"a": 1, "a#3": 2, "issue#7#1": 2})))
    np.testing.assert_array_equal(found.panel.judges, [[1, 3, 2]])
    assert (found.unrated, found.later_trials) == (4, 1)


def test_what_cannot_be_chosen_is_answered_with_what_can() -> None:
    judged = [
        *rated("scores", {"a": 1}, metric="rating", turn="1"),
        *rated("scores", {"a": 2}, metric="rating", turn="2"),
        *rated("scores", {"a": 3}, metric="duel", turn="0"),
    ]
    output = (
        "no rating by scores has metric rating, turn 0; there are: metric duel; turn 1, 2",
        "no rating by scores has metric style; there are: metric rating, duel",
    )
    for chosen, message in zip(({"turn": "0"}, {"metric": "style"}), output, strict=True):
        with pytest.raises(ConfigError) as refused:
            choose(judged, **{"metric": "rating", **chosen})
        assert str(refused.value) == message


def test_what_no_rating_has_cannot_be_chosen_by() -> None:
    plain, message = rated("ann", {"a": 1}), rated("scores", {"a": 1}, metric="rating", turn="1")
    require_fields([*plain, *message], metric="rating", condition=None)
    for ratings, there in ((plain, "none"), ([*plain, *message], "metric, turn")):
        with pytest.raises(ConfigError) as refused:
            require_fields(ratings, condition="free")
        assert str(refused.value) == (
            "--condition free: no rating has the field condition; fields besides sample, rater "
            f"and value: {there}"
        )
