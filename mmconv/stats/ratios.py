"""A ratio of two sums over the same samples, with Fieller's interval.

For counts that are divided by counts which are themselves uncertain, such as failures that go away
by failures that there were. Means and shares, whose denominator is a number of rows, are in
`mmconv.stats.estimates`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mmconv.core.types import Summary
from mmconv.stats.column import Codes, Column, Numbers, number_names
from mmconv.stats.estimates import FEWEST_CLUSTERS, effective_size, summarise
from mmconv.stats.spread import degrees_of_freedom, find_influences
from mmconv.stats.student_t import t_quantile

LARGEST_ERROR = math.sqrt(0.5)
"""How large a share of itself the 95 % error of the denominator may be for there to be an interval.

Fieller's is without end where that share reaches 1, and says nothing shortly before.
"""

_ADDED = 2.0


def summarise_ratio(
    over: Column, under: Column, possible: Sequence[tuple[float, float]]
) -> Summary:
    """The sum of `over` divided by that of `under`, which have the same rows.

    The interval holds each ratio r for which the mean of over - r * under does not differ from 0
    (Fieller, Journal of the Royal Statistical Society B 16, 1954), errors being cluster-robust.
    As Agresti and Min do for differences, two samples are first added to the effective number of
    samples, spread evenly over the `possible` pairs: where hardly any sample differs from the
    others, or none, the interval would be too narrow. It is None for few clusters and where the
    denominator is too uncertain (`LARGEST_ERROR`); all but n and missing are where that is not
    above 0.
    """
    pairs = np.stack([over.numbers, under.numbers], axis=1)[over.present]
    n, total = len(pairs), pairs.sum(axis=0)
    none = Summary(mean=None, stderr=None, low=None, high=None, n=n, missing=dict(over.missing))
    if not n or total[1] <= 0:
        return none
    ratio = float(total[0] / total[1])
    off = over.numbers - ratio * under.numbers
    linear = summarise(replace(over, numbers=off))
    if linear.stderr is None:
        return replace(none, mean=ratio)
    summary = replace(none, mean=ratio, stderr=linear.stderr * n / abs(float(total[1])))
    codes, names = number_names(over.known.clusters)
    if len(names) < FEWEST_CLUSTERS:
        return summary
    freedom = degrees_of_freedom(np.bincount(codes) / n)
    size = effective_size(float(off[over.present].var()), linear, freedom)
    errors = _covariance(pairs, codes)
    means, errors = with_added(pairs.mean(axis=0), errors, size, np.array(possible))
    ends = find_fieller(means, errors, t_quantile(freedom))
    return replace(summary, low=ends[0], high=ends[1]) if ends else summary


def _covariance(pairs: Numbers, codes: Codes) -> Numbers:
    """The covariance of the two means, by the jackknife over clusters; shape (2, 2)."""
    sums = np.zeros((codes.max() + 1, 2))
    np.add.at(sums, codes, np.stack([find_influences(each, codes) for each in pairs.T], axis=1))
    covariance: Numbers = sums.T @ sums
    return covariance


def with_added(
    means: Numbers, errors: Numbers, size: float, possible: Numbers
) -> tuple[Numbers, Numbers]:
    """Means and their covariance after two samples are added to so many effective ones."""
    centre = possible.mean(axis=0)
    whole = size + _ADDED
    apart = np.outer(means - centre, means - centre)
    spread = _ADDED * np.cov(possible.T, bias=True) + _ADDED * size / whole * apart
    return (size * means + _ADDED * centre) / whole, (size**2 * errors + spread) / whole**2


def find_fieller(means: Numbers, errors: Numbers, quantile: float) -> tuple[float, float] | None:
    """Where (over - r * under)^2 is quantile^2 times its variance; None if it has no useful end."""
    over, under = means
    square = quantile**2
    if square * errors[1, 1] >= (LARGEST_ERROR * under) ** 2:
        return None
    first = under**2 - square * errors[1, 1]
    middle = over * under - square * errors[0, 1]
    last = over**2 - square * errors[0, 0]
    half = math.sqrt(max(middle**2 - first * last, 0.0))
    return float((middle - half) / first), float((middle + half) / first)
