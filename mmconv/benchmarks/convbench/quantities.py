"""The paper's quantities: S1 to S0 with hat and tilde, R1, R2, and the deltas between settings.

`S_i` is the mean score of turn i (0: the whole conversation) in the free setting, `_hat` with
perfect perception, `_tilde` with perfect perception and reasoning (paper, section 4.1). Here they
are named and estimated; `tables` lays them out.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmconv.stats import (
    Column,
    ScoreFrame,
    bounded,
    paired_difference,
    paired_share_difference,
    summarise,
    summarise_share,
)
from mmconv.values import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """A grading's metric and how it is printed: ratings as they are, wins in percent.

    `lowest` and `highest` are the ends of its scale; intervals are cut there.
    """

    name: str
    metric: str
    scale: float
    title: str
    lowest: float
    highest: float

    @property
    def failures(self) -> str:
        """What tables call the turns that fail by it."""
        return f"{self.name} failures"

    @property
    def reach(self) -> float:
        """How far two values can lie apart."""
        return self.highest - self.lowest

    def bounded(self, summary: Summary) -> Summary:
        """The summary with its interval cut at the ends of the scale."""
        return bounded(summary, self.lowest, self.highest)


DIRECT = Grading(
    name="direct", metric="rating", scale=1.0, title="direct (1-10)", lowest=1.0, highest=10.0
)
PAIRWISE = Grading(
    name="pairwise",
    metric="win",
    scale=100.0,
    title="pairwise win rate (%)",
    lowest=0.0,
    highest=1.0,
)
GRADINGS = (DIRECT, PAIRWISE)

LEVELS = {1: "perception", 2: "reasoning", 3: "creation"}
"""Turn -> what it asks for."""

QUANTITIES: dict[str, tuple[str, int]] = {
    "S1": ("free", 1),
    "S2": ("free", 2),
    "S3": ("free", 3),
    "S0": ("free", 0),
    "S2_hat": ("perception", 2),
    "S3_hat": ("perception", 3),
    "S0_hat": ("perception", 0),
    "S3_tilde": ("reasoning", 3),
    "S0_tilde": ("reasoning", 0),
}
"""Name -> (condition, turn)."""

MEANS = {"R1": ("R2", "S0"), "R2": ("S1", "S2", "S3")}
"""Name -> what it is the mean of (paper, section 4.1), in each sample that has every part."""

DELTAS = {
    "S2_hat - S2": ("S2", "S2_hat"),
    "S3_hat - S3": ("S3", "S3_hat"),
    "S0_hat - S0": ("S0", "S0_hat"),
    "S3_tilde - S3_hat": ("S3_hat", "S3_tilde"),
    "S0_tilde - S0_hat": ("S0_hat", "S0_tilde"),
}
"""Name -> (what it starts from, what it goes to)."""

MEANINGS = {
    "S1": "perception",
    "S2": "reasoning",
    "S3": "creation",
    "S0": "overall",
    "S2_hat": "reasoning, turn 1 given",
    "S3_hat": "creation, turn 1 given",
    "S0_hat": "overall, turn 1 given",
    "S3_tilde": "creation, turns 1-2 given",
    "S0_tilde": "overall, turns 1-2 given",
    "R2": "mean of S1, S2, S3",
    "R1": "mean of R2, S0",
}


def column(frame: ScoreFrame, grading: Grading, condition: str, turn: int) -> Column:
    """One value per sample; where both orders were judged, their mean."""
    found = frame.select(metric=grading.metric, condition=condition, turn=turn)
    return found.per_sample("mean")


def quantity_column(frame: ScoreFrame, grading: Grading, name: str) -> Column:
    """One value per sample of a quantity, R1 or R2; empty if the run judged nothing for it."""
    if name not in MEANS:
        return column(frame, grading, *QUANTITIES[name])
    parts = [quantity_column(frame, grading, part) for part in MEANS[name]]
    return Column.joined(parts if all(map(len, parts)) else ()).per_sample("mean")


def estimate(frame: ScoreFrame, grading: Grading, name: str) -> Summary:
    """A quantity, R1 or R2 with its interval, in the grading's own unit (wins from 0 to 1)."""
    found = quantity_column(frame, grading, name)
    return grading.bounded(summarise(found)) if name in MEANS else mean(grading, found)


def mean(grading: Grading, values: Column) -> Summary:
    """The mean of one value per sample, with the interval that suits the grading."""
    if grading is PAIRWISE:
        return summarise_share(values)
    return grading.bounded(summarise(values))


def delta(frame: ScoreFrame, grading: Grading, name: str) -> Summary:
    """A delta, paired per sample and clustered by image."""
    start, goal = (quantity_column(frame, grading, end) for end in DELTAS[name])
    return difference(grading, start, goal)


def difference(grading: Grading, start: Column, goal: Column) -> Summary:
    """How much the mean changes from start to goal, with the interval that suits the grading."""
    if grading is PAIRWISE:
        return paired_share_difference(start, goal)
    return bounded(paired_difference(start, goal), -grading.reach, grading.reach)
