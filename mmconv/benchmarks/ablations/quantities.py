"""The names of what is measured in three turns (perception, reasoning, creation), and gradings.

`S_i` is the mean score of turn i (0: the whole conversation) in the free condition, `_hat` with
perfect perception, `_tilde` with perfect perception and reasoning (ConvBench, section 4.1). How
they are estimated is in `metrics`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mmconv.benchmarks.base.layouts import CONTROL
from mmconv.benchmarks.base.metrics import Group, Select, share

GIVEN = {"free": 0, "perception": 1, "reasoning": 2}
"""The paper's three settings (section 4.1): how many leading turns are the human's."""

LEVELS = {1: "perception", 2: "reasoning", 3: "creation"}
"""Turn -> what it asks for."""


def own_turns(condition: str) -> tuple[int, ...]:
    """The turns that the candidate answers itself."""
    return tuple(range(GIVEN[condition] + 1, len(LEVELS) + 1))


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

DELTAS = {
    "S2_hat - S2": ("S2", "S2_hat"),
    "S3_hat - S3": ("S3", "S3_hat"),
    "S0_hat - S0": ("S0", "S0_hat"),
    "S3_tilde - S3_hat": ("S3_hat", "S3_tilde"),
    "S0_tilde - S0_hat": ("S0_hat", "S0_tilde"),
}
"""Name -> (what it starts from, what it goes to)."""

MEANS = {"R1": ("R2", "S0"), "R2": ("S1", "S2", "S3")}
"""Name -> what it is the mean of (paper, section 4.1), in each sample that has every part."""

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

LADDERS: dict[str, tuple[int, tuple[str, ...]]] = {
    "creation": (3, ("free", "perception", "reasoning")),
    "reasoning": (2, ("free", "perception")),
}
"""Level -> its turn, and its conditions: each makes one more level perfect."""

FAILED = " failed"
DUE = f"{FAILED}: due to "
"""In the name of a row: between the level that failed and the level that is the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """A way of judging: its score, how it is printed, and below which value a turn has failed.

    An `exact` one fails no right answer, so that shares of failures are numbers and not bounds.
    """

    name: str
    metric: str
    group: Group
    threshold: float
    exact: bool = False

    def select(self, condition: str, turn: int) -> Select:
        """One score per sample; if both orders were judged, their mean."""
        return Select(self.metric, condition=condition, turn=turn)

    @property
    def failures(self) -> str:
        """What tables call the turns that fail."""
        return f"{self.name} failures"

    @property
    def clear(self) -> float:
        """The least score of a clear pass: halfway to the best rating, or a win in each order."""
        return (self.threshold + 10.0) / 2 if self.metric == "rating" else 1.0

    @property
    def control(self) -> Group:
        """The controls of deltas."""
        return replace(self.group, title=f"{CONTROL}, {self.group.title}")

    @property
    def fixed(self) -> Group:
        """Parts of the failures that perfect turns fix."""
        return Group(title=f"{self.name}: of fixed failures", factor=100.0)

    @property
    def bounds(self) -> Group:
        """Bounds of the parts of all failures."""
        return Group(title=f"{self.name}: of all failures", factor=100.0)

    @property
    def points(self) -> Group:
        """The controls of attribution, in points of the selected samples."""
        return share(f"{self.name}: control (points)")
