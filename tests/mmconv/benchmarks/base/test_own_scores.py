"""Scores that a benchmark of one's own must not give: told before anything is asked."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from mmconv.benchmarks.base import Calls, Fields, FileBenchmark, Outcomes, Scores
from mmconv.core.errors import UserCodeError
from mmconv.core.types import Score
from tests.example_benchmark import Riddles
from tests.mmconv.benchmarks.base.own import build


class OffScale(Riddles):
    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        yield Score(sample=sample["id"], condition=condition, metric="fit", value=700.0)


class Unscaled(OffScale):
    scale = None  # type: ignore[assignment]  # as a benchmark that declares none


class Twice(Riddles):
    """The fourth score is the first once more; the others differ in turn or tags."""

    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        for turn, side in self.given():
            yield Score(
                sample=sample["id"],
                condition=condition,
                metric="fit",
                turn=turn,
                tags={"side": side},
                value=float(turn),
            )

    def given(self) -> list[tuple[int, str]]:
        return [(1, "left"), (2, "left"), (1, "right"), (1, "left")]


class Once(Twice):
    def given(self) -> list[tuple[int, str]]:
        return super().given()[:3]


class Silent(Riddles):
    """Gives up where there is nothing to read, as one does most naturally."""

    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        return
        yield


class Misnamed(Riddles):
    """Has ends for another metric than the one that is scored."""

    scale = MappingProxyType({"fitt": (1, 10)})  # type: ignore[assignment]


class OwnEnds(OffScale):
    scale = MappingProxyType({"fit": (1, 1000)})  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (
            OffScale,
            "'fit' is 700, and the benchmark's scale is 1 to 10: mend the score, or `scale`",
        ),
        (Silent, "gives no score: a sample that has none says why, as in Score(..., value=None"),
        (Misnamed, "'fit' has no ends in `scale`, which names those of other metrics: give it"),
        (Twice, "'fit' is scored twice; tell scores of one metric apart by `turn` or `tags`"),
    ],
)
def test_a_score_off_the_scale_or_given_twice_is_refused(
    tmp_path: Path, kind: type[FileBenchmark], told: str
) -> None:
    with pytest.raises(UserCodeError) as caught:
        build(tmp_path, kind)
    first, _, found = str(caught.value).partition(" under free")
    assert first == f"{kind.score.__qualname__} of sample 'a'"
    assert found.removeprefix(":").startswith(f" {told}")


@pytest.mark.parametrize("kind", [Unscaled, Once, OwnEnds])
def test_any_value_without_a_scale_and_scores_told_apart_are_taken(
    tmp_path: Path, kind: type[FileBenchmark]
) -> None:
    build(tmp_path, kind)


class Given(Riddles):
    """Scores what it is told to."""

    fields_of_score: Mapping[str, Any] = MappingProxyType({})

    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        fields = {"metric": "fit", "value": 1.0, **self.fields_of_score}
        yield Score(sample=sample["id"], condition=condition, **fields)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"value": None, "why": 5}, "'fit' has the reason 5, which is no text"),
        ({"turn": "2"}, "'fit' has the turn '2', which is no whole number from 0"),
        ({"turn": 2.0}, "'fit' has the turn 2.0"),
        ({"turn": -1}, "'fit' has the turn -1"),
        ({"tags": {"level": 3}}, "'fit' has the tag 'level': 3, which is no text"),
        ({"tags": {"turn": "3"}}, "'fit' has a tag 'turn', and scores have a field of that name"),
        ({"metric": None}, "None is no name of a metric"),
        ({"value": float("inf")}, "'fit' is inf: give None and a reason"),
    ],
)
def test_what_no_file_of_scores_could_hold_is_refused_with_its_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], told: str
) -> None:
    monkeypatch.setattr(Given, "fields_of_score", fields)
    monkeypatch.setattr(Given, "scale", None)
    with pytest.raises(UserCodeError) as caught:
        build(tmp_path, Given)
    assert str(caught.value).startswith(f"Given.score of sample 'a' under free: {told}")


@pytest.mark.parametrize("value", [True, 1, np.float64(1), np.bool_(True), Decimal(1)])
def test_any_number_becomes_a_float(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    monkeypatch.setattr(Given, "fields_of_score", {"value": value})
    benchmark = build(tmp_path, Given)
    first, *_ = benchmark.load()
    [score] = benchmark.score(first, "free", {}, {})
    assert (score.value, type(score.value)) == (1.0, float)
