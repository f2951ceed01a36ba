"""Numbers that people's labels of some samples correct for a judge's errors.

The samples that people label are a random part of all. Let f be the judge's numbers and y theirs.

**PPI++** (Angelopoulos, Duchi and Zrnic, arXiv 2311.01453): the mean over the labelled samples of
y - w f, plus w times the mean of f over the others. The weight w has the least variance for single
samples, cut to [0, 1]: 0 is people alone, 1 trusts the judge up to a constant. It holds whatever
errors the judge makes, so also if it is kinder under one condition. A ratio is that of two such
means.

**By the judge's rates**: let it fail right answers at a rate a and pass wrong ones at a rate b.
Its rate of failures is then a + (1 - a - b) times the true one. `correct_share` solves that for the
true one (Rogan and Gladen, American Journal of Epidemiology 107, 1978). `attribute` takes from each
rate of failures its a: then 1 - a - b cancels in a ratio. Both need a and b only, from any sample.

A number is a weighted sum of means, so its error is that of `mmconv.stats.spread`, over clusters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from mmconv.core.types import Summary
from mmconv.stats.column import Column, Numbers, align, row_of
from mmconv.stats.estimates import (
    FEWEST_CLUSTERS,
    effective_size,
    estimate_terms,
    summarise,
)
from mmconv.stats.ratios import find_fieller, with_added
from mmconv.stats.spread import cluster_shares, degrees_of_freedom, find_spread
from mmconv.stats.student_t import t_quantile, two_sided

Terms: TypeAlias = Sequence[tuple[Column, float]]
"""Columns whose means, times their weights, are added up."""

_ADDED = 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Correction:
    """A corrected mean: that of `labelled`, and `weight` times that of `rest`.

    `people` and `judged` have the numbers of the labelled samples, `rest` the judge's of all
    others. No row is without a number.
    """

    people: Column
    judged: Column
    rest: Column
    weight: float

    @property
    def labelled(self) -> Column:
        """The people's numbers less `weight` times the judge's."""
        numbers = self.people.numbers - self.weight * self.judged.numbers
        return replace(self.people, numbers=numbers)

    def terms(self, factor: float = 1.0) -> list[tuple[Column, float]]:
        """The terms of `factor` times the mean."""
        rest = [(self.rest, factor * self.weight)] if self.weight else []
        return [(self.labelled, factor), *rest]

    @property
    def mean(self) -> float:
        """The mean; NaN without labels."""
        return _mean(self.terms()) if len(self.people) else math.nan


def correct(judged: Column, people: Column) -> Correction:
    """Correct the mean of `judged` by the rows of `people` for the same samples.

    Samples without the judge's number are left out. The clusters are those of `judged`. Raises
    `ValueError` if a sample has several rows: take `Column.per_sample` first.
    """
    known = judged.known
    labelled, theirs = align(known, people.known)
    others = row_of(known).keys() - {*labelled.samples}
    rest = known.rows([row for row, sample in enumerate(known.samples) if sample in others])
    return Correction(
        people=replace(labelled, numbers=theirs.numbers),
        judged=labelled,
        rest=rest,
        weight=_weight(theirs.numbers, labelled.numbers, rest),
    )


def _weight(people: Numbers, judged: Numbers, rest: Column) -> float:
    """The weight of the judge, as in the authors' ppi_py.

    0 if the rest has too few clusters for an error.
    """
    if len(judged) < 2 or len({*rest.clusters}) < FEWEST_CLUSTERS:
        return 0.0
    variance = float(np.concatenate([judged, rest.numbers]).var(ddof=1))
    if not variance:
        return 0.0
    shared = float(((people - people.mean()) * (judged - judged.mean())).mean())
    return min(1.0, max(0.0, shared / ((1 + len(judged) / len(rest)) * variance)))


def summarise_corrections(
    corrections: Sequence[tuple[Correction, float]], possible: Sequence[float] = ()
) -> Summary:
    """The weighted sum of corrected means with its interval; n counts the labels.

    Fewer than `FEWEST_CLUSTERS` labelled clusters have no interval. A single correction of
    a share has as `possible` a sample's values. As Agresti and Min do, two samples are then added,
    spread evenly over these: few labels do not show all errors of a good judge.
    """
    n = sum(len(each.people) for each, _ in corrections)
    terms = [term for each, factor in corrections for term in each.terms(factor)]
    summary = estimate_terms(terms, n, {})
    if len(corrections) > 1 or not possible:
        return summary
    [(correction, factor)] = corrections
    spread, own = find_spread(terms), summarise(correction.labelled)
    shares = cluster_shares(correction.labelled)
    if spread is None or own.mean is None or own.stderr is None or len(shares) < FEWEST_CLUSTERS:
        return summary
    weight = correction.weight
    numbers = correction.labelled.numbers
    size = effective_size(float(numbers.var()), own, degrees_of_freedom(shares))
    whole = size + _ADDED
    apart = own.mean - (1 - weight) * float(np.mean(possible))
    added = _ADDED * (1 + weight**2) * float(np.var(possible)) + _ADDED * size / whole * apart**2
    variance = own.stderr**2
    excess = factor**2 * ((size**2 * variance + added) / whole**2 - variance)
    middle = (summary.mean or 0.0) - factor * apart * _ADDED / whole
    half = t_quantile(spread.freedom) * math.sqrt(max(spread.variance + excess, 0.0))
    return replace(summary, low=middle - half, high=middle + half)


def summarise_corrected_ratio(
    over: Correction, under: Correction, possible: Sequence[tuple[float, float]]
) -> Summary:
    """The ratio of two corrected means over the same samples, with Fieller's interval.

    `possible` and the rules for an interval are those of `mmconv.stats.ratios.summarise_ratio`.
    """
    n = len(under.people)
    none = Summary(mean=None, stderr=None, low=None, high=None, n=n, missing={})
    if not n or not under.mean > 0:
        return none
    ratio = over.mean / under.mean
    spread = find_spread([*over.terms(), *under.terms(-ratio)])
    if spread is None:
        return replace(none, mean=ratio)
    ends = _ratio_ends(over, under, possible)
    summary = replace(none, mean=ratio, stderr=math.sqrt(spread.variance) / under.mean)
    return replace(summary, low=ends[0], high=ends[1]) if ends else summary


def count_wanted(
    over: Correction, under: Correction, possible: Sequence[tuple[float, float]], widest: float
) -> int | None:
    """How many labels give the ratio an interval of this width, by the errors of those at hand.

    None without an error, and if 50 times the labels would not do.
    """
    n = len(under.people)
    if not n or not under.mean > 0:
        return None
    for step in range(40):
        more = 1.1**step
        ends = _ratio_ends(over, under, possible, more)
        if ends and ends[1] - ends[0] <= widest:
            return math.ceil(n * more)
    return None


def _ratio_ends(
    over: Correction,
    under: Correction,
    possible: Sequence[tuple[float, float]],
    more: float = 1.0,
) -> tuple[float, float] | None:
    """Fieller's interval of the ratio, as if there were `more` times the labels."""
    ratio = over.mean / under.mean
    shares = cluster_shares(under.people)
    off = [*over.terms(), *under.terms(-ratio)]
    own_off = [(over.labelled, 1.0), (under.labelled, -ratio)]
    spread, own = find_spread(off), find_spread(own_off)
    if spread is None or own is None or more * len(shares) < FEWEST_CLUSTERS:
        return None
    labels = _covariance([(over.labelled, 1.0)], [(under.labelled, 1.0)])
    errors = _covariance(over.terms(), under.terms()) + (1 / more - 1) * labels
    error = math.sqrt(max(spread.variance + (1 / more - 1) * own.variance, 0.0))
    n = round(more * len(under.people)) + len(under.rest)
    summary = Summary(mean=ratio, stderr=error, low=None, high=None, n=n, missing={})
    numbers = over.people.numbers - ratio * under.people.numbers
    size = effective_size(float(numbers.var()), summary, more * degrees_of_freedom(shares))
    means = np.array([over.mean, under.mean])
    means, errors = with_added(means, errors, size, np.array(possible))
    return find_fieller(means, errors, t_quantile(more * spread.freedom))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rate:
    """How often a judge errs: a, the share of right answers that it fails, or b of the wrong ones.

    `verdicts` has 1 for each labelled answer of the kind that the judge gets wrong, else 0. Of a
    rate that other samples gave, it is None, and `variance` is the rate's.
    """

    value: float
    verdicts: Column | None = None
    variance: float = 0.0

    @property
    def n(self) -> int:
        """How many labelled answers it is a share of."""
        return 0 if self.verdicts is None else len(self.verdicts)

    def terms(self, factor: float) -> list[tuple[Column, float]]:
        """The terms of `factor` times the rate, without its `variance`."""
        return [] if self.verdicts is None else [(self.verdicts, factor)]


def find_rate(judged: Column, people: Column, *, of: Literal[0, 1]) -> Rate | None:
    """How often the judge differs among the labels that people call `of`; None without any.

    Both columns have 0 or 1. Of failures, `of=0` gives a and `of=1` gives b. Errors that did not
    occur are not impossible: the variance is that with one answer of each kind added.
    """
    labels = correct(judged, people)
    rows = np.flatnonzero(labels.people.numbers == of).tolist()
    if not rows:
        return None
    verdicts = labels.judged.rows(rows)
    verdicts = replace(verdicts, numbers=(verdicts.numbers != of).astype(np.float64))
    value, n = float(verdicts.numbers.mean()), len(rows)
    share = (n * value + 1) / (n + _ADDED)
    more = share * (1 - share) / (n + _ADDED) - value * (1 - value) / n
    return Rate(value=value, verdicts=verdicts, variance=max(0.0, more))


def compare_rates(left: Rate, right: Rate) -> float | None:
    """The two-sided p-value of two rates being the same; None over too few clusters."""
    terms = [*left.terms(1.0), *right.terms(-1.0)]
    spread = find_spread(terms)
    if spread is None or min(len(cluster_shares(column)) for column, _ in terms) < FEWEST_CLUSTERS:
        return None
    error = math.sqrt(spread.variance + left.variance + right.variance)
    return two_sided((left.value - right.value) / error, spread.freedom) if error else None


def correct_share(judged: Column, fails_right: Rate, passes_wrong: Rate) -> Summary:
    """The share of 1 in `judged` without the judge's errors: (f - a) / (1 - a - b), from 0 to 1.

    The mean is None if the judge is not better than chance. n counts the labels.
    """
    n = fails_right.n + passes_wrong.n
    none = Summary(mean=None, stderr=None, low=None, high=None, n=n, missing={})
    skill = 1 - fails_right.value - passes_wrong.value
    if skill <= 0 or not judged.present.any():
        return none
    share = (_mean([(judged, 1.0)]) - fails_right.value) / skill
    by_rate = ((fails_right, (share - 1) / skill), (passes_wrong, share / skill))
    terms = [
        (judged, 1 / skill),
        *(term for rate, factor in by_rate for term in rate.terms(factor)),
    ]
    spread = find_spread(terms)
    cut = min(1.0, max(0.0, share))
    if spread is None or min(len(cluster_shares(column)) for column, _ in terms) < FEWEST_CLUSTERS:
        return replace(none, mean=cut)
    variance = spread.variance + sum(factor**2 * rate.variance for rate, factor in by_rate)
    half = t_quantile(spread.freedom) * math.sqrt(variance)
    low, high = (min(1.0, max(0.0, share + side)) for side in (-half, half))
    return replace(none, mean=cut, stderr=math.sqrt(variance), low=low, high=high)


def attribute(failures: Sequence[Column], rates: Sequence[Rate]) -> list[Summary]:
    """The part of the failures that each perfect turn fixes, and last the part that remains.

    `failures` has 0 or 1 per sample, freely (F) and with ever more turns perfect (H, T). `rates`
    has the judge's a under each condition; one and the same `Rate` if it errs alike. The parts are
    (F - H) / (F - a) and so on, the last is (T - a) / (F - a), all with Fieller's intervals. The
    mean is None if the judge fails no more than a.
    """
    known = list({id(rate): rate for rate in rates}.values())
    none = Summary(
        mean=None, stderr=None, low=None, high=None, n=sum(r.n for r in known), missing={}
    )

    def level(step: int, sign: float) -> tuple[float, list[tuple[Column, float]]]:
        rate, column = rates[step], failures[step]
        value = sign * (_mean([(column, 1.0)]) - rate.value)
        return value, [(column, sign), *rate.terms(-sign)]

    whole, under = level(0, 1.0)
    spread = find_spread(under)
    if whole <= 0 or spread is None:
        return [none] * len(failures)
    parts = []
    for step in range(len(failures)):
        signs = [
            (each, sign) for each, sign in ((step, 1.0), (step + 1, -1.0)) if each < len(rates)
        ]
        part = sum(level(*each)[0] for each in signs)
        errors = _covariance([term for each in signs for term in level(*each)[1]], under)
        for rate in known:
            own = -sum(sign for each, sign in signs if rates[each] is rate)
            weights = np.array([own, -float(rates[0] is rate)])
            errors += rate.variance * np.outer(weights, weights)
        ends = find_fieller(np.array([part, whole]), errors, t_quantile(spread.freedom))
        summary = replace(none, mean=part / whole)
        parts.append(replace(summary, low=ends[0], high=ends[1]) if ends else summary)
    return parts


def _mean(terms: Terms) -> float:
    return sum(factor * float(column.numbers[column.present].mean()) for column, factor in terms)


def _covariance(over: Terms, under: Terms) -> Numbers:
    """The covariance of two sums of means; shape (2, 2)."""
    spreads = [find_spread(terms) for terms in (over, under, [*over, *under])]
    first, second, both = (spread.variance if spread else math.nan for spread in spreads)
    shared = (both - first - second) / 2
    return np.array([[first, shared], [shared, second]])
