"""Scores that a benchmark of one's own must not give: told before anything is asked."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from images import Library
from mmconv.assemble import build_benchmark
from mmconv.benchmarks.base import Calls, Fields, FileBenchmark, Outcomes, Scores
from mmconv.config import ModelSpec, RunSpec
from mmconv.errors import OwnCodeError
from mmconv.values import Score
from tests.example_benchmark import Riddles


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


def build(folder: Path, kind: type[FileBenchmark]) -> None:
    data = folder / "riddles.json"
    data.write_bytes(orjson.dumps([{"id": "a", "riddle": "Who?"}]))
    seats = {seat: ModelSpec(provider="fake", model="judge") for seat in ("candidate", "judge")}
    name = f"{kind.__module__}:{kind.__name__}"
    build_benchmark(RunSpec(benchmark=name, options={"data": str(data)}, seats=seats), Library())


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (
            OffScale,
            "'fit' is 700, and the benchmark's scale is 1 to 10: mend the score, or `scale`",
        ),
        (Twice, "'fit' is scored twice; tell scores of one metric apart by `turn` or `tags`"),
    ],
)
def test_a_score_off_the_scale_or_given_twice_is_refused(
    tmp_path: Path, kind: type[FileBenchmark], told: str
) -> None:
    with pytest.raises(OwnCodeError) as caught:
        build(tmp_path, kind)
    assert str(caught.value) == f"{kind.__name__}.score of sample 'a' under free: {told}"


@pytest.mark.parametrize("kind", [Unscaled, Once])
def test_any_value_without_a_scale_and_scores_told_apart_are_taken(
    tmp_path: Path, kind: type[FileBenchmark]
) -> None:
    build(tmp_path, kind)
