"""ConvBench's deltas and attribution recover what was planted in a model of known error rates.

48 runs: 12 of each scenario, 100 rows on 50 pictures, seeds 0 to 11 (the first ones, not searched
for). So few runs notice gross errors, and bounds are wide. `python -m tests.bench.planted` measures
coverage, of each delta and where verdicts are lost, with more runs.
"""

import asyncio
from collections.abc import Callable, Iterator
from importlib import resources
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

import pytest

from mmconv.benchmarks.ablations.metrics import Grading
from mmconv.benchmarks.convbench.metrics import GRADINGS
from mmconv.cli.shared.options import read_spec
from mmconv.engine.run import Place, open_evaluation
from mmconv.run_folder.layout import SCORES
from mmconv.run_folder.saved_run import read_scores
from model_zoo.simulated.planted import CandidateOptions, JudgeOptions
from tests.mmconv.planted import SCENARIOS, Estimate, Kind, Rehearsal, culprit, estimated
from tests.mmconv.planted_truth import expected

pytestmark = pytest.mark.timeout(600)

ROWS = 100
RUNS = 12

Played = dict[str, list[list[Estimate]]]
"""Scenario -> its runs -> their estimates."""

planted = pytest.mark.parametrize(
    "name", [name for name, each in SCENARIOS.items() if each.planted]
)
each_grading = pytest.mark.parametrize("grading", GRADINGS, ids=lambda each: each.name)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    rehearsal = Rehearsal(tmp_path_factory.mktemp("planted") / "data", ROWS)

    async def play() -> Played:
        return {
            name: [
                [*estimated(await rehearsal.run(scenario, seed), scenario.truth())]
                for seed in range(RUNS)
            ]
            for name, scenario in SCENARIOS.items()
        }

    return asyncio.run(play())


def chosen(played: Played, keep: Callable[[Estimate], bool]) -> Iterator[Estimate]:
    return (each for runs in played.values() for run in runs for each in run if keep(each))


def coverage(played: Played, kind: Kind) -> float:
    return fmean(each.covers for each in chosen(played, lambda each: each.kind == kind))


def test_intervals_of_all_deltas_cover_the_truth(played: Played) -> None:
    assert 0.91 <= coverage(played, "delta") <= 0.98


@pytest.mark.parametrize("name", SCENARIOS)
def test_scores_and_deltas_are_right_on_average(played: Played, name: str) -> None:
    by_name: dict[tuple[str, str, str], list[Estimate]] = {}
    for run in played[name]:
        for each in run:
            if each.kind in ("delta", "score"):
                by_name.setdefault((each.kind, each.grading, each.name), []).append(each)
    assert len(by_name) == 2 * (5 + 11)
    for key, estimates in by_name.items():
        values = [each.value for each in estimates]
        error = stdev(values) / sqrt(len(values))
        assert abs(fmean(values) - estimates[0].truth) < 4 * error, key


@planted
@each_grading
def test_net_shares_name_the_planted_level(played: Played, name: str, grading: Grading) -> None:
    named = [culprit(run, grading.name) for run in played[name]]
    assert named.count(SCENARIOS[name].planted or "") >= RUNS - 1


@pytest.mark.parametrize("kind", ["net", "split", "falls"])
def test_intervals_of_shares_cover_the_truth(played: Played, kind: Kind) -> None:
    """Fieller's with two samples added, and Agresti and Min's, err on the wide side."""
    assert coverage(played, kind) >= 0.91


def test_the_shipped_run_plants_what_it_says() -> None:
    spec = read_spec(str(resources.files("configs") / "runs/convbench-planted.yaml"), {})
    candidate = CandidateOptions.model_validate(spec.models["candidate"].options)
    truth = expected(candidate, JudgeOptions.model_validate(spec.models["judge"].options))
    assert spec.models["candidate"].label == "creation-faulty"
    assert truth.net["rating", "creation", "creation"] > 0.9


async def test_the_engine_makes_the_same_scores_and_tables(tmp_path: Path) -> None:
    rehearsal = Rehearsal(tmp_path / "data", rows=12)
    scenario = SCENARIOS["mixed"]
    spec = rehearsal.spec(scenario, seed=3)
    async with open_evaluation(spec, Place(out=tmp_path / "runs")) as evaluation:
        result = await evaluation.run(evaluation.runner())
    assert result.complete
    assert result.stats.lost == 0
    played = await rehearsal.run(scenario, seed=3)
    assert list(read_scores(result.folder / SCORES)) == played
    tables = {table.name: table.rows for table in result.tables}
    shown = {"delta": tables["deltas"], "score": tables["scores"]}
    titles = {grading.name: grading.group.title for grading in GRADINGS}
    for each in estimated(played, scenario.truth()):
        if each.kind in shown:
            cell = shown[each.kind][each.name][titles[each.grading]]
            assert (cell.value, cell.low, cell.high) == (each.value, each.low, each.high)
