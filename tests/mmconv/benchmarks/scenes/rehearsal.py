"""Runs of models with planted faults, whose true figures are known, without an engine."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from random import Random
from typing import TypeAlias

from images.store import ImageStore
from mmconv.benchmarks.ablations.metrics import GIVEN
from mmconv.benchmarks.scenes import Scenes
from mmconv.benchmarks.scenes.benchmark import Scene
from mmconv.core.config import CANDIDATE, ModelSpec, RunSpec
from mmconv.core.types import Cell, Reply, Score
from mmconv.stats import ScoreFrame

WRONG = {1: "There is nothing to report.", 2: "Answer: unknown", 3: "No."}
Rates: TypeAlias = Callable[[int], tuple[float, float, float]]
"""Level -> how often perception, reasoning and creation fail by their own fault."""
Place: TypeAlias = tuple[str, str]
"""A table, and a row of it."""

_GROUPS = {
    "scores": "right (%)",
    "deltas": "right (%)",
    "attribution_net": "checked: of all failures",
    "breaks": "below one half at level",
}


class Rehearsal:
    """The benchmark, drawn once; every run draws other faults. A fault spoils the next turns."""

    def __init__(self, families: str = "charts,clocks,crowds", n: int = 5) -> None:
        model = ModelSpec(provider="simulated", model="planted")
        options = {"families": families, "n": n}
        spec = RunSpec(benchmark="scenes", models={CANDIDATE: model}, options=options)
        self.scenes = Scenes(spec)
        self.scenes.load_data(ImageStore())
        self._scored: dict[tuple[str, str, int], list[Score]] = {}

    def run(self, rates: Rates, seed: int) -> ScoreFrame:
        """The scores of one run."""
        random = Random(seed)
        scores: list[Score] = []
        for sample in self.scenes.load():
            for condition, given in GIVEN.items():
                own = enumerate(rates(sample.level), start=1)
                faults = [n for n, rate in own if n > given and random.random() < rate]
                scores += self._scores(sample, condition, min(faults, default=4))
        return ScoreFrame(scores)

    def measured(self, frame: ScoreFrame, places: Iterable[Place]) -> dict[Place, Cell]:
        """What the tables say in these rows."""
        cells = {place: self.metrics[place](frame) for place in places}
        return {place: cell for place, cell in cells.items() if cell}

    @cached_property
    def metrics(self) -> Mapping[Place, Callable[[ScoreFrame], Cell | None]]:
        """What measures each row."""
        return {
            (each.table, each.name): each.measure
            for each in self.scenes.metrics()
            if _GROUPS.get(each.table) == each.group.title
        }

    def _scores(self, sample: Scene, condition: str, failed: int) -> list[Score]:
        """Whether each turn of a sample is right if turn `failed` is the first wrong one."""
        key = (sample.id, condition, failed)
        if key not in self._scored:
            calls = {call.id: call for call in self.scenes.calls(sample, condition)}
            turns = enumerate(sample.drawn().turns, start=1)
            texts = {f"turn_{n}": WRONG[n] if n >= failed else turn.reference for n, turn in turns}
            replies = {name: Reply(text=texts[name]) for name in calls}
            scores = self.scenes.scores(sample, condition, calls, replies)
            self._scored[key] = [score for score in scores if score.metric == "right"]
        return self._scored[key]


def truth(perception: float, reasoning: float, creation: float) -> Iterator[tuple[Place, float]]:
    """The figures of a model with these rates of own faults at all levels, in percent."""
    p, q, r = (1 - rate for rate in (perception, reasoning, creation))
    right = {"S1": p, "S2": p * q, "S3": p * q * r, "S2_hat": q, "S3_hat": q * r, "S3_tilde": r}
    yield from ((("scores", name), 100 * value) for name, value in right.items())
    ends = (("S2", "S2_hat"), ("S3", "S3_hat"), ("S3_hat", "S3_tilde"))
    falls = [(f"{end} - {start}", right[end] - right[start]) for start, end in ends]
    yield from ((("deltas", name), 100 * value) for name, value in falls)
    shares = {
        "reasoning failed: due to perception": falls[0][1] / (1 - right["S2"]),
        "creation failed: due to perception": falls[1][1] / (1 - right["S3"]),
        "creation failed: due to reasoning": falls[2][1] / (1 - right["S3"]),
        "creation failed: due to creation": (1 - r) / (1 - right["S3"]),
    }
    yield from ((("attribution_net", name), 100 * value) for name, value in shares.items())


def holds(cell: Cell, value: float) -> bool:
    """Whether the interval of a cell holds a value."""
    return cell.low is not None and cell.high is not None and cell.low <= value <= cell.high
