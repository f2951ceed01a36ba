"""The paper's quantities by name: S1 to S0 with hat and tilde, R1, R2, deltas, gradings.

`S_i` is the mean score of turn i (0: the whole conversation) in the free condition, `_hat` with
perfect perception, `_tilde` with perfect perception and reasoning (paper, section 4.1). How they
are estimated is in `metrics`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mmconv.benchmarks.convbench.options import ConvBenchOptions
from mmconv.benchmarks.metrics import Group, share

_DEFAULTS = {name: field.default for name, field in ConvBenchOptions.model_fields.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """A way of judging: its score, how it is printed, and below which value a turn has failed."""

    name: str
    metric: str
    group: Group
    threshold: float

    @property
    def title(self) -> str:
        """The column of its numbers."""
        return self.group.title

    @property
    def scale(self) -> float:
        """What scores are multiplied with to be printed."""
        return self.group.factor

    @property
    def lowest(self) -> float:
        """The lowest score."""
        return self.group.lowest or 0.0

    @property
    def highest(self) -> float:
        """The highest score."""
        return self.group.highest or 0.0

    @property
    def failures(self) -> str:
        """What tables call the turns that fail."""
        return f"{self.name} failures"


DIRECT = Grading(
    name="direct",
    metric="rating",
    group=Group(title="direct (1-10)", lowest=1.0, highest=10.0),
    threshold=float(_DEFAULTS["failure_rating"]),
)
PAIRWISE = Grading(
    name="pairwise",
    metric="win",
    group=share("pairwise win rate (%)"),
    threshold=float(_DEFAULTS["failure_win"]),
)
GRADINGS = (DIRECT, PAIRWISE)

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


def gradings(options: ConvBenchOptions) -> tuple[Grading, Grading]:
    """Direct and pairwise grading with the thresholds of a run's options."""
    return (
        replace(DIRECT, threshold=options.failure_rating),
        replace(PAIRWISE, threshold=options.failure_win),
    )
