"""BotChat's rates: ours with intervals, and the authors', rounded as they round.

Columns hold the points of comparisons, or 0 and 1. `tables` says which go where.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mmconv.benchmarks.botchat.scoring import BAD_TIE, GOOD_TIE, LOSS, UNKNOWN, WIN
from mmconv.core.types import Cell
from mmconv.stats import Column, as_cell, bounded, summarise, summarise_share

RATES: dict[str, tuple[float, ...]] = {
    "win": (WIN,),
    "tie": (GOOD_TIE, BAD_TIE),
    "lose": (LOSS,),
    "win+tie": (WIN, GOOD_TIE, BAD_TIE),
    "not bad": (WIN, GOOD_TIE),
}
"""Rate -> the points that count for it. Not bad: the judge takes the model's for human."""

PERCENT = 100.0
"""Shares are printed in percent."""

_DECIMALS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialCount:
    """How many comparisons the authors count, the unread ones among them, and what they drop."""

    points: tuple[float, ...]
    n: int
    dropped: dict[str, int]

    def share(self, wanted: Collection[float]) -> float | None:
        """In percent, rounded to one decimal as in their notebook."""
        if not self.n:
            return None
        return round(PERCENT * sum(each in wanted for each in self.points) / self.n, _DECIMALS)


def rate(column: Column, wanted: Collection[float]) -> Cell:
    """The share of points that are wanted, in percent, over the comparisons that have points."""
    return share(indicator(column, wanted))


def share(column: Column) -> Cell:
    """The mean of zeros and ones in percent, with its interval."""
    return as_cell(summarise_share(column), PERCENT)


def mean_points(column: Column) -> Cell:
    """The Score, from -3 to 3: (3 win + both human - both AI - 3 lose) / n."""
    return as_cell(bounded(summarise(column), LOSS, WIN))


def official_rates(column: Column) -> dict[str, Cell]:
    """The authors' rates: of all comparisons, unread ones included, each rounded to 0.1 %.

    Win+tie is their sum of two rounded rates, so it can be 0.1 off. Pairs of the same text are
    dropped, and so is what was never judged.
    """
    count = _count(column)
    values = {name: count.share(wanted) for name, wanted in RATES.items()}
    win, tie = values["win"], values["tie"]
    if win is not None and tie is not None:
        values["win+tie"] = round(win + tie, _DECIMALS)
    return {
        name: Cell(value=value, n=count.n, missing=count.dropped) for name, value in values.items()
    }


def official_points(column: Column) -> Cell:
    """The authors' Score: over all comparisons, unread ones included."""
    count = _count(column)
    value = sum(count.points) / count.n if count.n else None
    return Cell(value=value, n=count.n, missing=count.dropped)


def official_share(column: Column) -> Cell:
    """The authors' UniEval rate: in percent, rounded to 0.1, over what their code can read."""
    numbers = [value for value in column.values if value is not None]
    value = round(PERCENT * sum(numbers) / len(numbers), _DECIMALS) if numbers else None
    return Cell(value=value, n=len(numbers), missing=dict(column.missing))


def _count(column: Column) -> OfficialCount:
    points = tuple(value for value in column.values if value is not None)
    dropped = dict(column.missing)
    unknown = dropped.pop(UNKNOWN, 0)
    return OfficialCount(points=points, n=len(points) + unknown, dropped=dropped)


def indicator(column: Column, wanted: Collection[float]) -> Column:
    """1 for the points that are wanted and 0 for others, row by row."""
    return Column.of(
        [None if value is None else float(value in wanted) for value in column.values],
        samples=column.samples,
        clusters=column.clusters,
        reasons=column.reasons,
    )
