"""Direct and pairwise grading, and the authors' win rates.

The authors' win rates are wins over a constant, in which what is unscored is a loss (source: the
aggregation in their ConvBenchEval/score.py). A run over a part of the rows has none, since the
constant counts all rows. If both orders are judged, each is one comparison, of which the constant
counts two for each row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mmconv.benchmarks.ablations.quantities import DELTAS, MEANS, QUANTITIES, Grading
from mmconv.benchmarks.base.metrics import Group, share
from mmconv.benchmarks.convbench.options import ConvBenchOptions
from mmconv.core.types import Cell
from mmconv.stats import ScoreFrame

_DEFAULTS = {name: field.default for name, field in ConvBenchOptions.model_fields.items()}

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
