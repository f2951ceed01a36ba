"""Planted faults come back: rates, attribution, the level at which a model breaks."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from images.store import ImageStore
from mmconv.benchmarks.ablations.quantities import GIVEN, own_turns
from mmconv.benchmarks.scenes import Scenes
from mmconv.benchmarks.scenes.benchmark import Scene
from mmconv.core.config import CANDIDATE, ModelSpec, RunSpec
from mmconv.core.types import Cell, Reply, Table

WRONG = {1: "There is nothing to report.", 2: "Answer: unknown", 3: "No."}
Rates = Callable[[int], tuple[float, float, float]]
"""Level -> how often perception, reasoning and creation fail by their own fault."""


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    options = {"families": "charts,clocks,crowds", "n": 5}
    spec = RunSpec(
        benchmark="scenes",
        models={CANDIDATE: ModelSpec(provider="simulated", model="planted")},
        options=options,
    )
    benchmark = Scenes(spec)
    benchmark.load_data(ImageStore())
    return benchmark


def run(scenes: Scenes, rates: Rates, seed: int) -> dict[str, Table]:
    """Tables of a model with these faults; a wrong turn makes the next ones wrong too."""
    random = Random(seed)
    scores = []
    for sample in scenes.load():
        for condition in scenes.conditions:
            calls = {call.id: call for call in scenes.calls(sample, condition)}
            texts = answers(sample, condition, rates, random)
            replies = {name: Reply(text=text) for name, text in texts.items()}
            scores += scenes.scores(sample, condition, calls, replies)
    return {table.name: table for table in scenes.tables(scores)}


def answers(sample: Scene, condition: str, rates: Rates, random: Random) -> dict[str, str]:
    turns = sample.drawn().turns
    failed, texts = False, {}
    for n, rate in enumerate(rates(sample.level), start=1):
        own = n > GIVEN[condition]
        failed = own and (failed or random.random() < rate)
        texts[f"turn_{n}"] = WRONG[n] if failed else turns[n - 1].reference
    return {f"turn_{n}": texts[f"turn_{n}"] for n in own_turns(condition)}


def holds(cell: Cell, value: float) -> bool:
    assert cell.low is not None
    assert cell.high is not None
    return cell.low <= value <= cell.high


def test_an_oracle_is_always_right_and_breaks_nowhere(scenes: Scenes) -> None:
    tables = run(scenes, lambda _: (0.0, 0.0, 0.0), seed=1)
    right = [row["right (%)"].value for row in tables["scores"].rows.values()]
    assert right == [100.0] * len(right)
    assert {row["below one half at level"].value for row in tables["breaks"].rows.values()} == {
        ">10"
    }


def test_planted_faults_come_back(scenes: Scenes) -> None:
    tables = run(scenes, lambda _: (0.3, 0.2, 0.0), seed=3)
    scores = tables["scores"].rows
    assert holds(scores["S1"]["right (%)"], 70)
    assert holds(scores["S2"]["right (%)"], 56)
    assert holds(scores["S2_hat"]["right (%)"], 80)
    [share] = [
        cell
        for title, cell in tables["attribution_net"]
        .rows["reasoning failed: due to perception"]
        .items()
        if title.endswith("of all failures")
    ]
    assert holds(share, 100 * (0.44 - 0.2) / 0.44)


def test_a_model_breaks_where_its_faults_begin(scenes: Scenes) -> None:
    tables = run(scenes, lambda level: (min(1.0, level / 12), 0.0, 0.0), seed=2)
    cell = tables["breaks"].rows["S1, perception"]["below one half at level"]
    assert holds(cell, 6.0)
