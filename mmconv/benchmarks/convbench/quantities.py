"""The paper's quantities by name, the gradings, and the authors' win rates.

`S_i` is the mean score of turn i (0: the whole conversation) in the free condition, `_hat` with
perfect perception, `_tilde` with perfect perception and reasoning (paper, section 4.1). How they
are estimated is in `metrics`.

The authors' win rates are wins over a constant, in which what is unscored is a loss (source: the
aggregation in their ConvBenchEval/score.py). A run over a part of the rows has none, since the
constant counts all rows. If both orders are judged, each is one comparison, of which the constant
counts two for each row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mmconv.benchmarks.base.layouts import CONTROL
from mmconv.benchmarks.base.metrics import Group, share
from mmconv.benchmarks.convbench.options import DELTAS, QUANTITIES, ConvBenchOptions
from mmconv.core.types import Cell
from mmconv.stats import ScoreFrame

_DEFAULTS = {name: field.default for name, field in ConvBenchOptions.model_fields.items()}


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


OFFICIAL = "authors (%)"
"""The column's title."""

AUTHORS_CONSTANT = 577
"""What the authors' aggregation code divides by."""

_AUTHORS_ROWS = (577, 578)
"""How many rows their data have, by their paper and by their file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """The constant for one trial, how many trials a run has, and how many good rows the data.

    Rows that are `left_out` as bad have no result, so they count as lost. A run has `samples` of
    the rows, and each pair is judged in one or two `orders`.
    """

    denominator: int
    rows: int
    samples: int
    trials: int = 1
    left_out: int = 0
    orders: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether the run has all rows, which the constant counts."""
        return self.samples >= self.rows

    @property
    def note(self) -> str:
        """What the column is, or why there is none."""
        if not self.is_whole:
            constant = f"its constant, {self.denominator}, counts all rows"
            return f"{OFFICIAL} is left out: {constant}, of which this run has {self.samples}."
        times = f" in each of {self.trials} trials" if self.trials > 1 else ""
        half = "; a win in one of two orders is half of one" if self.orders > 1 else ""
        bad = f", and {self.left_out} left out as bad" if self.left_out else ""
        return (
            f"{OFFICIAL}: wins over {self.denominator}{times}{half}; what is unscored counts as "
            f"lost{bad}."
        )

    def cell(self, frame: ScoreFrame, *, name: str) -> Cell | None:
        """A quantity or delta in percent.

        None if the run has a part of the rows, was not judged in pairs, or lacks an end of a delta.
        """
        if not self.is_whole or PAIRWISE.metric not in frame.distinct("metric"):
            return None
        if name not in DELTAS:
            return Cell(value=_percent(self._rate(frame, name)))
        start, goal = (self._rate(frame, end) for end in DELTAS[name])
        return None if start is None or goal is None else Cell(value=_percent(goal - start))

    def _rate(self, frame: ScoreFrame, name: str) -> float | None:
        """From 0 to 1; None if nothing was judged."""
        if name in MEANS:
            rates = [self._rate(frame, part) for part in MEANS[name]]
            known = [rate for rate in rates if rate is not None]
            return sum(known) / len(known) if len(known) == len(rates) else None
        condition, turn = QUANTITIES[name]
        verdicts = frame.select(metric=PAIRWISE.metric, condition=condition, turn=turn)
        if not len(verdicts):
            return None
        wins = [value for value in verdicts.values if value is not None]
        return sum(wins) / (self.denominator * self.trials * self.orders)


def constant_for(rows: int) -> int:
    """What takes the constant's place for data of so many rows, which may not be the authors'."""
    return AUTHORS_CONSTANT if rows in _AUTHORS_ROWS else rows


def _percent(rate: float | None) -> float | None:
    return None if rate is None else 100.0 * rate
