"""The authors' win rates: wins over a constant, in which what is unscored is a loss.

Source: the aggregation in the authors' ConvBenchEval/score.py. It stands beside our estimates,
labelled; over a part of the rows there is none, since the constant takes in all of them. Where both
orders are judged, each is one comparison, of which the constant counts two for each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mmconv.benchmarks.convbench.quantities import DELTAS, MEANS, PAIRWISE, QUANTITIES
from mmconv.core.trials import read_trial
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

    Rows that are `left_out` as bad have no result, so they count as lost.
    """

    denominator: int
    rows: int
    trials: int = 1
    left_out: int = 0


@dataclass(frozen=True, kw_only=True)
class OfficialRates:
    """The authors' column over a run's scores; it is empty where the run has a part of the rows."""

    frame: ScoreFrame
    convention: Convention

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The column, if there is one."""
        return (OFFICIAL,) if self._is_judged and self._is_whole else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the column is, or why there is none."""
        if not self._is_judged:
            return ()
        if not self._is_whole:
            there = count_samples(self.frame)
            constant = f"its constant, {self.convention.denominator}, counts all rows"
            return (f"{OFFICIAL} is left out: {constant}, of which this run has {there}.",)
        trials = self.convention.trials
        times = f" in each of {trials} trials" if trials > 1 else ""
        over = f"{self.convention.denominator}{times}"
        bad = self.convention.left_out
        half = "; a win in one of two orders is half of one" if self._orders > 1 else ""
        lost = f"what is unscored counts as lost{f', and {bad} left out as bad' if bad else ''}"
        return (f"{OFFICIAL}: wins over {over}{half}; {lost}.",)

    def score(self, name: str) -> dict[str, Cell]:
        """The cell of a quantity, R1 or R2, under the column's title."""
        return {title: Cell(value=_percent(self._rate(name))) for title in self.columns}

    def delta(self, name: str) -> dict[str, Cell]:
        """The cell of a delta; none where one of its ends was not judged."""
        start, goal = (self._rate(end) for end in DELTAS[name])
        if start is None or goal is None:
            return {}
        return {title: Cell(value=_percent(goal - start)) for title in self.columns}

    @property
    def _is_judged(self) -> bool:
        return PAIRWISE.metric in self.frame.distinct("metric")

    @property
    def _is_whole(self) -> bool:
        return count_samples(self.frame) >= self.convention.rows

    @cached_property
    def _orders(self) -> int:
        """In how many orders each row was judged."""
        judged = (self._verdicts(name) for name in QUANTITIES)
        return max(len(found) // max(1, len(set(found.samples))) for found in judged)

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
        comparisons = self.convention.denominator * self.convention.trials * self._orders
        return sum(wins) / comparisons


def constant_for(rows: int) -> int:
    """What takes the constant's place for data of so many rows, which may not be the authors'."""
    return AUTHORS_CONSTANT if rows in _AUTHORS_ROWS else rows


def count_samples(frame: ScoreFrame) -> int:
    """How many samples have scores, whatever the number of their trials."""
    return len({read_trial(name).key for name in frame.distinct("sample")})


def _percent(rate: float | None) -> float | None:
    return None if rate is None else 100.0 * rate
