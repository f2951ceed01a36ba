"""A mean of means whose interval is not narrower than those of its parts.

`mmconv.stats.estimates.combine` adds up the variances of the parts. A part without variance adds
nothing there, even with a few samples only; here it counts with the uncertainty of its own summary
(of a mean or a share, as the caller chooses).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mmconv.core.types import Summary
from mmconv.stats.column import Column
from mmconv.stats.estimates import combine

CAUTIOUS = (
    "A mean of several tasks is not more certain than they are: it has no interval if one of them "
    "has none, and a wider one if all shares of one are equal."
)
"""The rule of `combine_parts`, as a note of tables."""


def combine_parts(
    columns: Mapping[str, Column], own: Mapping[str, Summary], weights: Mapping[str, float]
) -> Summary:
    """The weighted sum of the columns' means, of which `own` has the summaries.

    A single column has its own summary. Several have no interval if one of them has none: how far
    that one may be off is not known. Columns share no sample.
    """
    if len(own) == 1:
        [summary] = own.values()
        return summary
    summary = combine(columns, weights)
    if any(each.low is None for each in own.values()):
        return replace(summary, stderr=None, low=None, high=None)
    even = [(weights[name], each) for name, each in own.items() if each.stderr == 0]
    return _widened(summary, even) if even else summary


def _widened(summary: Summary, even: Sequence[tuple[float, Summary]]) -> Summary:
    """The summary with an interval that also holds how far parts without any spread may be off.

    Shares of 0 or 1 add nothing to the error, though their own intervals have a length. Parts share
    no sample, so the lengths add up as squares (Zou and Donner, Statistics in Medicine 27, 2008).
    """
    if summary.mean is None:
        return summary
    below, above = (
        math.hypot(_reach(summary)[end], *(weight * _reach(each)[end] for weight, each in even))
        for end in (0, 1)
    )
    return replace(summary, low=summary.mean - below, high=summary.mean + above)


def _reach(summary: Summary) -> tuple[float, float]:
    """How far the interval reaches below and above the mean; nowhere if there is none."""
    if summary.mean is None or summary.low is None or summary.high is None:
        return 0.0, 0.0
    return summary.mean - summary.low, summary.high - summary.mean
