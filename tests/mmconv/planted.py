"""Runs of the simulated candidate, whose truth is known, and how near to it they come.

A run goes through ConvBench's own plans, prompts, parsers, scores and estimates. Only the engine is
left out: replies are made in this process and not stored, and no tables are made of the estimates
(`test_planted_faults` compares one such run with the engine's).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Literal, TypeAlias

import orjson

from images import ImageStore
from mmconv.benchmarks.ablations.metrics import DELTAS, DUE, MEANS, QUANTITIES, Grading
from mmconv.benchmarks.base.metrics import Metric, Ratio
from mmconv.benchmarks.convbench.benchmark import ConvBench
from mmconv.benchmarks.convbench.metrics import GRADINGS, metrics
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.graph import check, resolve
from mmconv.core.protocols import Backend
from mmconv.core.types import UNPARSED, Cell, Reply, Score
from mmconv.stats import ScoreFrame, as_cell
from model_zoo.simulated.planted import CandidateOptions, JudgeOptions, open_backend
from tests.mmconv.benchmarks.convbench.rows import options
from tests.mmconv.planted_truth import Expected, expected
from tests.pictures import picture

Kind: TypeAlias = Literal["delta", "score", "net", "split", "falls"]
"""Deltas, scores, parts of all failures, of fixed ones, and of all samples."""

PROVIDER = "model_zoo.simulated.planted"
FAILURE_RATING = 6.0
ROWS_PER_IMAGE = 2

JUDGED = frozenset(grading.metric for grading in GRADINGS)
"""The metrics that a judge's verdict decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A simulated model and judge; `planted` is the level that most failed creations come from."""

    candidate: Mapping[str, Any]
    judge: Mapping[str, Any] = field(default_factory=dict)
    planted: str | None = None

    def roles(self, seed: int) -> dict[str, ModelSpec]:
        """The run's roles; every seed is another draw of all answers and verdicts."""
        models = {"candidate": self.candidate, "judge": self.judge}
        return {
            role: ModelSpec(provider=PROVIDER, model=role, options={**options, "seed": seed})
            for role, options in models.items()
        }

    def truth(self) -> Expected:
        """What the tables must show on average."""
        candidate = CandidateOptions.model_validate(self.candidate)
        return expected(candidate, JudgeOptions.model_validate(self.judge), FAILURE_RATING)


SOUND = {"after_right": 0.05, "after_wrong": 0.8}
"""A level that hardly fails by itself, and nearly always passes a fault on."""

ALIKE = {"levels": 0.15, "conditions": 0.9, "image": 0.6}
FAIR = {"win": {"right": 0.95, "wrong": 0.05}}

SCENARIOS = {
    "perception": Scenario(
        candidate={"perception": 0.5, "reasoning": SOUND, "creation": SOUND, "alike": ALIKE},
        judge=FAIR,
        planted="perception",
    ),
    "reasoning": Scenario(
        candidate={
            "perception": 0.1,
            "reasoning": {"after_right": 0.5, "after_wrong": 0.6},
            "creation": SOUND,
            "alike": ALIKE,
        },
        judge=FAIR,
        planted="reasoning",
    ),
    "creation": Scenario(
        candidate={
            "perception": 0.3,
            "reasoning": {"after_right": 0.2, "after_wrong": 0.4},
            "creation": {"after_right": 0.5, "after_wrong": 0.55},
            "alike": {"image": 0.8},
        },
        judge=FAIR,
        planted="creation",
    ),
    "mixed": Scenario(
        candidate={
            "perception": 0.35,
            "reasoning": {"after_right": 0.25, "after_wrong": 0.7},
            "creation": {"after_right": 0.2, "after_wrong": 0.6},
            "alike": {"levels": 0.2, "conditions": 0.8, "image": 0.7},
        },
        judge={
            "rating": {"right": 7, "wrong": 5, "spread": 2},
            "win": {"right": 0.6, "wrong": 0.15},
        },
    ),
}
"""In `creation` every condition draws anew, so that nearly all that is mended is mended by luck; in
`mixed` the judge errs too, and two in five right answers lose to the human's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One number of a run, and the truth that its 95 % interval should hold."""

    kind: Kind
    grading: str
    name: str
    truth: float
    value: float
    low: float | None
    high: float | None

    @property
    def covers(self) -> bool:
        """Whether the truth lies inside; without an interval it does not."""
        return (
            self.low is not None and self.high is not None and self.low <= self.truth <= self.high
        )


class Rehearsal:
    """ConvBench over drawn rows, planned once: another seed changes the replies, not the plans."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.options = write_rows(folder, rows)
        self.benchmark = ConvBench(self.spec(SCENARIOS["mixed"], seed=0))
        self.benchmark.load_data(ImageStore())
        self._plans = [
            (
                row,
                condition,
                {call.id: call for call in check(self.benchmark.calls(row, condition))},
            )
            for row in self.benchmark.load()
            for condition in self.benchmark.conditions
        ]

    def spec(self, scenario: Scenario, seed: int) -> RunSpec:
        """The specification of such a run, for runs by the engine."""
        return RunSpec(
            benchmark="convbench",
            options={**self.options, "order": "random"},
            models=scenario.roles(seed),
        )

    async def run(self, scenario: Scenario, seed: int) -> list[Score]:
        """The scores of one run."""
        models: dict[str, Backend] = {
            role: await open_backend(spec, ImageStore())
            for role, spec in scenario.roles(seed).items()
        }
        scores: list[Score] = []
        for row, condition, calls in self._plans:
            replies: dict[str, Reply] = {}
            for call in calls.values():
                messages = resolve(call.messages, replies)
                replies[call.id] = await models[call.model].generate(
                    messages, call.sampling, affinity=""
                )
            scores.extend(self.benchmark.scores(row, condition, calls, replies))
        assert all(score.value is not None for score in scores)
        return scores


def estimated(scores: Iterable[Score], truth: Expected) -> Iterator[Estimate]:
    """What is estimated from a run's scores, beside the truth."""
    frame = ScoreFrame(score for score in scores if score.metric in JUDGED)
    for grading in GRADINGS:
        for name in DELTAS:
            found = _cell(frame, "deltas", name, grading.group.title)
            yield _quantity_estimate("delta", grading, name, found, truth)
        for name in ("R1", "R2", *QUANTITIES):
            found = _cell(frame, "scores", name, grading.group.title)
            yield _quantity_estimate("score", grading, name, found, truth)
    yield from _attributions(frame, truth)


def lose(scores: Iterable[Score], share: float, seed: int) -> Iterator[Score]:
    """The scores of a run in which this share of the verdicts, drawn at random, is unreadable."""
    random = Random(seed)
    for score in scores:
        lost = score.metric in JUDGED and random.random() < share
        yield replace(score, value=None, why=UNPARSED) if lost else score


def culprit(estimates: list[Estimate], grading: str, kind: Kind = "net") -> str:
    """The level that has the largest share of the failed creations."""
    found = [each for each in estimates if (each.kind, each.grading) == (kind, grading)]
    blamed = {name: each for each in found if (name := _blamed(each.name))}
    return max(blamed, key=lambda name: blamed[name].value)


def true_value(truth: Expected, grading: Grading, name: str) -> float:
    """The truth of a quantity, of R1 or R2, or of a delta."""
    if name in DELTAS:
        start, goal = (true_value(truth, grading, end) for end in DELTAS[name])
        return goal - start
    if name in MEANS:
        return fmean(true_value(truth, grading, part) for part in MEANS[name])
    return truth.means[grading.metric, *QUANTITIES[name]]


def write_rows(folder: Path, count: int) -> dict[str, Any]:
    """Draw pictures, each of which two rows are about; returns the benchmark's options."""
    images = folder / "images"
    images.mkdir(parents=True)
    data = folder / "data.jsonl"
    with data.open("wb") as lines:
        for number in range(count):
            name = f"{number // ROWS_PER_IMAGE}.png"
            if number % ROWS_PER_IMAGE == 0:
                (images / name).write_bytes(picture(number))
            lines.write(orjson.dumps(_row(number + 1, name)) + b"\n")
    return {"data": str(data), "images": str(images), "failure_rating": FAILURE_RATING}


def _row(number: int, image: str) -> dict[str, str | int]:
    return {
        "ID": number,
        "image_id": image,
        "The_first_turn_instruction": f"What is shown in scene {number}?",
        "The_second_turn_instruction": "What is left without the first of them?",
        "The_third_turn_instruction": "Write a slogan about what is left.",
        "instruction-conditioned-caption": "Coloured shapes stand in a row on white.",
        "first_turn_answer": "Some coloured shapes.",
        "second_turn_answer": "All of them but one.",
        "third_turn_answer": "Less is more!",
        "third_turn_demands": "1. Is it a slogan?",
    }


def _quantity_estimate(
    kind: Kind, grading: Grading, name: str, found: Cell, truth: Expected
) -> Estimate:
    known = grading.group.factor * true_value(truth, grading, name)
    return _estimate(kind, grading, name, found, known)


_METRICS = {(each.table, each.name, each.group.title): each for each in metrics(options())}


def _cell(frame: ScoreFrame, table: str, name: str, group: str) -> Cell:
    """The number that a table shows, a net share of few failures too."""
    metric: Metric = _METRICS[table, name, group]
    if isinstance(metric, Ratio):
        summary = metric.summarise(frame)
        assert summary is not None
        return as_cell(summary, metric.group.factor)
    cell = metric.measure(frame)
    assert cell is not None
    return cell


def _attributions(frame: ScoreFrame, truth: Expected) -> Iterator[Estimate]:
    for grading in GRADINGS:
        kinds: tuple[tuple[Kind, str, str, Any], ...] = (
            ("net", "attribution_net", grading.bounds.title, truth.net),
            ("split", "attribution_net", grading.fixed.title, truth.split),
            ("falls", "failures", grading.failures, truth.falls),
        )
        for kind, table, group, known in kinds:
            for metric, level, cause in known:
                if metric == grading.metric:
                    cell = _cell(frame, table, f"{level}{DUE}{cause}", group)
                    if kind == "split" and cell.low is None:
                        continue  # perfect turns fix too little to be split
                    name = f"{level} failed: {cause}"
                    yield _estimate(
                        kind, grading, name, _fraction(cell), known[metric, level, cause]
                    )


def _fraction(cell: Cell) -> Cell:
    """A cell in percent as a fraction."""
    ends = (None if end is None else end / 100 for end in (cell.low, cell.high))
    assert isinstance(cell.value, float)
    low, high = ends
    return replace(cell, value=cell.value / 100, low=low, high=high)


def _estimate(kind: Kind, grading: Grading, name: str, cell: Cell, truth: float) -> Estimate:
    assert isinstance(cell.value, float), f"{grading.name} {name} has no value"
    return Estimate(
        kind=kind,
        grading=grading.name,
        name=name,
        truth=truth,
        value=cell.value,
        low=cell.low,
        high=cell.high,
    )


def _blamed(name: str) -> str | None:
    """The level that a share of the failed creations is due to; None for other shares."""
    level, _, blamed = name.partition(" failed: ")
    return blamed if level == "creation" else None
