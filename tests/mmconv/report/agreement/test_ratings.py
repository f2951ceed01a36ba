"""Choosing among ratings, and how values are told."""

from __future__ import annotations

import pytest

from mmconv.core.errors import ConfigError
from mmconv.report.agreement.panels import choose, list_values, require_fields
from tests.mmconv.report.agreement.raters import rated


def test_what_lacks_a_field_is_chosen_with_what_has_the_value() -> None:
    plain, first = rated("ann", {"a": 1}), rated("ann", {"b": 2}, turn="1")
    second = rated("ann", {"b": 3}, turn="2")
    assert choose([*plain, *first, *second], turn="1", metric=None) == [*plain, *first]
    assert choose([], turn="1") == []


def test_what_cannot_be_chosen_is_answered_with_what_can() -> None:
    judged = [
        *rated("scores", {"a": 1}, metric="rating", turn="1"),
        *rated("scores", {"a": 2}, metric="rating", turn="2"),
        *rated("scores", {"a": 3}, metric="duel", turn="0"),
    ]
    told = (
        "no rating by scores has metric rating, turn 0; there are: metric duel; turn 1, 2",
        "no rating by scores has metric style; there are: metric rating, duel",
    )
    for chosen, message in zip(({"turn": "0"}, {"metric": "style"}), told, strict=True):
        with pytest.raises(ConfigError) as refused:
            choose(judged, **{"metric": "rating", **chosen})
        assert str(refused.value) == message


def test_what_no_rating_has_cannot_be_chosen_by() -> None:
    plain, told = rated("ann", {"a": 1}), rated("scores", {"a": 1}, metric="rating", turn="1")
    require_fields([*plain, *told], metric="rating", condition=None)
    for ratings, there in ((plain, "none"), ([*plain, *told], "metric, turn")):
        with pytest.raises(ConfigError) as refused:
            require_fields(ratings, condition="free")
        assert str(refused.value) == (
            "--condition free: no rating has the field condition; fields besides sample, rater "
            f"and value: {there}"
        )


def test_values_are_told_as_they_are_written_and_counted_if_they_are_many() -> None:
    assert list_values([1.0, 0.5, "tie"]) == "1, 0.5, tie"
    assert list_values(range(9)) == "0, 1, 2, 3, 4, 5, 6, 7, ... (9)"
    assert list_values([]) == "none"
