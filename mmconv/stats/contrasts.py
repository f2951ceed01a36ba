"""Differences between two runs, quantity by quantity: paired per sample, clustered, with p-values.

A benchmark says which quantities it has, as weighted means of columns; what is subtracted here are
the samples' own numbers, never two finished means. Which runs may be compared is not asked here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, TypeAlias, TypeVar

from mmconv.core.types import Summary
from mmconv.stats.column import Column
from mmconv.stats.estimates import (
    average,
    bounded,
    count_lacking,
    pair,
    summarise,
    summarise_share_change,
)
from mmconv.stats.spread import find_spread
from mmconv.stats.student_t import t_quantile, two_sided

Key = TypeVar("Key", bound=Hashable)

Kind: TypeAlias = Literal["score", "change", "failure"]
"""What a quantity is: a score, what another condition changes in one, or how often it fails."""

_EMPTY = Column.of(())

POWER = NormalDist().inv_cdf(0.8)
"""How far above the quantile of the test a true difference must be, in errors."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quantity:
    """A number that a benchmark's tables show: the plain mean of its columns' means.

    A column has one row per sample. `group` names quantities of one unit, `scale` brings them into
    it (100 for percent). `reach` is how far two values can lie apart in the columns' own unit;
    intervals of differences end there. `shares` names the columns of values in [0, 1] that have a
    share's interval. Quantities of one `kind` are reported together, and corrected for their
    number.
    """

    name: str
    columns: Mapping[str, Column]
    group: str = ""
    scale: float = 1.0
    reach: float = math.inf
    shares: Collection[str] = ()
    kind: Kind = "score"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """A difference between two runs, in the columns' own unit.

    `p` is the two-sided p-value of no difference, None without an interval. It is
    below 0.05 exactly if the interval excludes 0. `made_of` is the same for
    differences between quantities that are made of the same numbers in both runs.
    `error` is the half width of the interval in quantiles, with `freedom`.
    """

    summary: Summary
    p: float | None = None
    made_of: int | None = None
    error: float | None = None
    freedom: float = 0.0

    def detectable(self, level: float) -> float | None:
        """The least true difference that a test at this level finds with 80 % power.

        None without an interval. An approximation, as of all power by Student's t.
        """
        if self.error is None:
            return None
        return self.error * (t_quantile(self.freedom, level) + POWER)

    def is_within(self, margin: float) -> bool:
        """Whether two one-sided tests at the 5 % level (TOST) show a difference below the margin.

        Then its 90 % interval is from above -margin to below margin. False without an interval.
        """
        if self.error is None or self.summary.mean is None:
            return False
        return abs(self.summary.mean) + t_quantile(self.freedom, 0.1) * self.error < margin


def contrast(left: Quantity, right: Quantity, names: tuple[str, str]) -> Contrast:
    """Right - left over the samples that both have a number of; `names` are those of the runs.

    If a column has no such sample, the difference is None: that of the others would be another
    quantity. Samples of a column that only one run has are missing like all that make no pair.
    """
    pairs = {
        key: pair(left.columns.get(key, _EMPTY), right.columns.get(key, _EMPTY), names)
        for key in {**left.columns, **right.columns}
    }
    if not all(column.present.any() for column in pairs.values()):
        missing = count_lacking(pairs.values())
        return Contrast(
            summary=Summary(mean=None, stderr=None, low=None, high=None, n=0, missing=missing)
        )
    # what is a share by its values in one run may be more in the other
    own = [
        summarise_share_change(column)
        if key in left.shares and key in right.shares
        else summarise(column)
        for key, column in pairs.items()
    ]
    summary = average([*pairs.values()], own)
    spread = find_spread([(column, 1 / len(pairs)) for column in pairs.values()])
    p, error = None, None
    freedom = 0.0 if spread is None else spread.freedom
    if freedom and summary.low is not None and summary.high is not None:
        error = (summary.high - summary.low) / 2 / t_quantile(freedom)
        p = two_sided((summary.low + summary.high) / 2 / error, freedom)
    reach = max(left.reach, right.reach)
    made_of = hash((names, _terms(left), _terms(right)))
    summary = bounded(summary, -reach, reach)
    return Contrast(summary=summary, p=p, made_of=made_of, error=error, freedom=freedom)


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """P-values corrected for their number (Holm, 1979), the least first."""
    corrected: dict[Key, float] = {}
    highest = 0.0
    for place, key in enumerate(sorted(p_values, key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[key]))
        corrected[key] = highest
    return corrected


def _terms(quantity: Quantity) -> Hashable:
    """What a quantity is made of, whatever it and its columns are called."""
    columns = quantity.columns.values()
    return len(columns), frozenset((each.samples, each.numbers.tobytes()) for each in columns)
