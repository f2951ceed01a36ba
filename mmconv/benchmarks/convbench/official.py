"""The authors' win rates: wins over a constant, in which what is unscored is a loss.

Source: the aggregation in the authors' ConvBenchEval/score.py. It stands beside our estimates,
labelled; over a part of the rows there is none, since the constant takes in all of them. Where both
orders are judged, each is one comparison, of which the constant counts two for each row.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmconv.benchmarks.convbench.options import DELTAS, QUANTITIES
from mmconv.benchmarks.convbench.quantities import MEANS, PAIRWISE
from mmconv.core.types import Cell
from mmconv.stats import Column, ScoreFrame

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


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialRates:
    """The authors' column over a run's scores; it is empty where the run has a part of the rows."""

    frame: ScoreFrame
    convention: Convention

    @property
    def columns(self) -> tuple[str, ...]:
        """The column, if there is one."""
        is_judged = PAIRWISE.metric in self.frame.distinct("metric")
        return (OFFICIAL,) if is_judged and self.convention.is_whole else ()

    def score(self, name: str) -> dict[str, Cell]:
        """The cell of a quantity, R1 or R2, under the column's title."""
        return {title: Cell(value=_percent(self._rate(name))) for title in self.columns}

    def delta(self, name: str) -> dict[str, Cell]:
        """The cell of a delta; none where one of its ends was not judged."""
        start, goal = (self._rate(end) for end in DELTAS[name])
        if start is None or goal is None:
            return {}
        return {title: Cell(value=_percent(goal - start)) for title in self.columns}

    def _verdicts(self, name: str) -> Column:
        """One value per verdict."""
        condition, turn = QUANTITIES[name]
        return self.frame.select(metric=PAIRWISE.metric, condition=condition, turn=turn)

    def _rate(self, name: str) -> float | None:
        """From 0 to 1; None where nothing was judged."""
        if name in MEANS:
            rates = [self._rate(part) for part in MEANS[name]]
            found = [rate for rate in rates if rate is not None]
            return sum(found) / len(found) if len(found) == len(rates) else None
        verdicts = self._verdicts(name)
        if not len(verdicts):
            return None
        wins = [value for value in verdicts.values if value is not None]
        comparisons = self.convention.denominator * self.convention.trials * self.convention.orders
        return sum(wins) / comparisons


def constant_for(rows: int) -> int:
    """What takes the constant's place for data of so many rows, which may not be the authors'."""
    return AUTHORS_CONSTANT if rows in _AUTHORS_ROWS else rows


def _percent(rate: float | None) -> float | None:
    return None if rate is None else 100.0 * rate
