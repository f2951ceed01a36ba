"""Estimates with 95 % intervals that hold when scores come in clusters and some are missing.

Everything follows from one formula, for the sum over columns k of w_k * mean_k. Let column k have
n_k numbers of G_k clusters, of which cluster g has n_gk, and u_g be the sum, over the columns and
the rows i of cluster g, of w_k * sqrt((G_k - 1) / G_k) * (x_ik - mean_k) / (n_k - n_gk). The
standard error is sqrt(sum_g u_g^2), the jackknife's over clusters. For one column it is s / sqrt(n)
where each row is a cluster; for columns without a common cluster it is that of a stratified mean.
`mmconv.stats.spread` has the degrees of freedom of Student's t.

Few clusters do not show how precise a mean is, so they get no interval. Means on a scale with two
ends and changes of shares are bounded, so they have their own intervals; `mmconv.stats.ratios` has
those of ratios. `INTERVALS` explains them to readers. Missing rows are counted and left out, not
imputed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mmconv.core.types import UNPAIRED, Cell, Summary, Table
from mmconv.stats.column import Column, Numbers, align, row_of
from mmconv.stats.spread import cluster_shares, degrees_of_freedom, find_spread
from mmconv.stats.student_t import NORMAL, t_quantile

FEWEST_CLUSTERS = 5
"""The minimum number of clusters of an interval.

With 2 to 4 clusters Student's t is 12.7 to 3.2: the interval would show that and not the data.
"""

ROUNDING = 1e-12
"""Differences below this share of the numbers that they come from are the computer's rounding."""

_BRACKETS = "Brackets hold "

INTERVALS = (
    f"{_BRACKETS}95 % intervals: Wilson's for means of scores on a scale with two ends, Agresti "
    "and Min's for paired differences of shares, Fieller's for ratios of failures, Student's t for "
    "the rest, cut at the ends of the scale. Scores of one image, or of one sample with its "
    "trials, are a cluster. Errors are the jackknife's (formulas: mmconv/stats/estimates.py). "
    f"There is none over fewer than {FEWEST_CLUSTERS} clusters, for differences that are all "
    "equal, or for a ratio over very few failures."
)
"""The rules for all intervals but bootstrap ones, as a note of tables."""

CAUTIOUS = (
    "A mean of several tasks is not more certain than they are: it has no interval if one of them "
    "has none, and a wider one if all shares of one are equal."
)
"""The rule of `average`, as a note of tables."""

_ADDED = 2
"""How many values are added where those at hand may not show all that there are."""

_PRIOR = 0.15
"""How many events in clusters of equal rows are added to those that show how alike rows are."""


def summarise(column: Column) -> Summary:
    """The mean with its cluster-robust standard error and interval.

    Fewer than two clusters leave the error None; fewer than `FEWEST_CLUSTERS`, and values that are
    all equal, the interval.
    """
    return estimate_terms(((column, 1.0),), int(column.present.sum()), column.missing)


def summarise_share(column: Column, lowest: float = 0.0, highest: float = 1.0) -> Summary:
    """The mean of values on a scale, with Wilson's interval for a share of the scale.

    Where each row is a cluster of its own and 0 or 1, the interval is the textbook's: for G
    clusters, with the normal quantile. Otherwise it is for as many zeros and ones as have the
    error of these values (Franco et al., Journal of Survey Statistics and Methodology 7, 2019),
    with Student's t. The error allows for rare values that did not occur: it is that with one
    value added at each end of the scale. That of rare events in clusters allows for clusters whose
    rows are more alike than those with an event show. Raises `ValueError` for values off the scale.
    """
    span = highest - lowest
    numbers = (column.numbers[column.present] - lowest) / span
    if ((numbers < 0) | (numbers > 1)).any():
        raise ValueError(f"a share of the scale is taken of values from {lowest:g} to {highest:g}")
    summary = summarise(column)
    shares = cluster_shares(column)
    if summary.mean is None or summary.stderr is None or len(shares) < FEWEST_CLUSTERS:
        return summary
    share, variance = float(numbers.mean()), float(numbers.var())
    freedom = degrees_of_freedom(shares)
    if not summary.stderr or (column.is_binary and len(shares) == summary.n):
        # no error is estimated: that of independent values follows from their mean
        size, quantile = freedom + 1, NORMAL
    else:
        size = effective_size(variance * span**2, summary, freedom)
        quantile = t_quantile(freedom)
        if column.is_binary:
            size = _cautious_size(size, share, shares, summary.n)
    low, high = _wilson(share, _count_binary(share, variance, size), quantile)
    return replace(summary, low=lowest + span * low, high=lowest + span * high)


def pair(left: Column, right: Column, names: tuple[str, str] | None = None) -> Column:
    """Right - left for every sample of either; left gives the clusters.

    A sample with one number or none has none here, and the reason begins with `UNPAIRED`; with
    `names` it also says which of the two. Raises `ValueError` if a sample has several rows: take
    `Column.per_sample` first.
    """
    lefts, rights = row_of(left), row_of(right)
    samples = tuple(lefts | rights)
    rows = [(lefts.get(sample), rights.get(sample)) for sample in samples]
    return Column(
        samples=samples,
        clusters=tuple(
            sample if row is None else left.clusters[row]
            for sample, (row, _) in zip(samples, rows, strict=True)
        ),
        numbers=np.array([_change(left, right, *each) for each in rows], dtype=np.float64),
        reasons=tuple(_unpaired(left, right, each, names) for each in rows),
    )


def paired_difference(left: Column, right: Column) -> Summary:
    """The mean of right - left over the samples that have both, see `pair`."""
    return summarise(pair(left, right))


def summarise_share_change(column: Column) -> Summary:
    """The mean of differences between values in [0, 1], with Agresti and Min's interval.

    It is the plain interval after two pairs are added, a half each of gained and lost and one
    unchanged (Statistics in Medicine 24, 2005, 729-740): with few changes the plain one is too
    narrow, and without any there is none. For clusters the pairs are added to the effective sample
    size, variance / stderr^2, at most the number of rows; where nothing varies, to the number of
    clusters. The interval may reach beyond -1 and 1, and its middle is not the mean. Raises
    `ValueError` for values outside [-1, 1].
    """
    changes = column.numbers[column.present]
    if (np.abs(changes) > 1).any():
        raise ValueError("a share changes by -1 to 1")
    summary = summarise(column)
    shares = cluster_shares(column)
    if summary.mean is None or summary.stderr is None or len(shares) < FEWEST_CLUSTERS:
        return summary
    freedom = degrees_of_freedom(shares)
    effective = effective_size(float(changes.var()), summary, freedom)
    square = float(changes @ changes) / summary.n
    size = effective + _ADDED
    centre = effective * summary.mean / size
    variance = (effective * square + _ADDED / 2) / size - centre**2
    half = t_quantile(freedom) * math.sqrt(variance / size)
    return replace(summary, low=centre - half, high=centre + half)


def adjust(column: Column, covariate: Column) -> tuple[Summary, Summary, Summary] | None:
    """The mean, the mean at a covariate of 0, and the slope, by least squares over common samples.

    The errors of both are those of the samples' influences. None if the covariate does not vary.
    """
    own, other = align(column.known, covariate.known)
    if not len(own):
        return None
    x = other.numbers
    apart, middle = x - x.mean(), float(own.numbers.mean())
    square = float(apart @ apart) / len(own)
    if square <= ROUNDING:
        return None
    slope = float(apart @ own.numbers) / len(own) / square
    left = own.numbers - middle - slope * apart
    start = middle - slope * float(x.mean()) + left * (1 - x.mean() * apart / square)
    slopes = slope + left * apart / square
    at_zero, slope_itself = (summarise(replace(own, numbers=each)) for each in (start, slopes))
    return summarise(own), at_zero, slope_itself


def average(columns: Sequence[Column], own: Sequence[Summary]) -> Summary:
    """The plain mean of the columns' means; `own` has their summaries (of a mean or a share).

    Each mean is over its own rows that have a number: columns may share samples, have none in
    common, or have different gaps. `missing` counts the samples that a column lacks, by the first
    column's reason, `n` all others. The mean is None if any column has no number.

    A mean is not more certain than its parts: it has no interval if one of them has none. Shares
    of 0 or 1 add nothing to the error, though their own intervals have a length; the interval
    holds that too. Parts share no sample, so the lengths add up as squares (Zou and Donner,
    Statistics in Medicine 27, 2008).
    """
    if len(own) == 1:
        return own[0]
    weight = 1 / len(columns)
    samples = {sample for column in columns for sample in column.samples}
    missing = count_lacking(columns)
    terms = [(column, weight) for column in columns]
    summary = estimate_terms(terms, len(samples) - missing.total(), missing)
    if any(each.low is None for each in own):
        return replace(summary, stderr=None, low=None, high=None)
    even = [each for each in own if each.stderr == 0]
    if not even or summary.mean is None:
        return summary
    below, above = (
        math.hypot(_reach(summary)[end], *(weight * _reach(each)[end] for each in even))
        for end in (0, 1)
    )
    return replace(summary, low=summary.mean - below, high=summary.mean + above)


def _reach(summary: Summary) -> tuple[float, float]:
    """How far the interval reaches below and above the mean; nowhere if there is none."""
    if summary.mean is None or summary.low is None or summary.high is None:
        return 0.0, 0.0
    return summary.mean - summary.low, summary.high - summary.mean


def count_lacking(columns: Iterable[Column]) -> Counter[str]:
    """How many samples lack a number in some column, by their first reason."""
    lacking: dict[str, str] = {}
    for column in columns:
        for sample, reason in zip(column.samples, column.reasons, strict=True):
            if reason is not None:
                lacking.setdefault(sample, reason)
    return Counter(lacking.values())


def effective_size(variance: float, summary: Summary, freedom: float) -> float:
    """How many independent values of this variance have the summary's error, at most its n.

    If all values are equal, the number of clusters, as far as they have the same size.
    """
    if not summary.stderr:
        return freedom + 1
    return min(variance / summary.stderr**2, summary.n)


def bounded(summary: Summary, lowest: float | None = None, highest: float | None = None) -> Summary:
    """The summary with its interval cut where the scale ends.

    An end that the mean itself lies beyond is none: the interval would not hold its own mean.
    """
    mean, low, high = summary.mean, summary.low, summary.high
    if mean is None or low is None or high is None:
        return summary
    if lowest is not None and lowest <= mean:
        low = max(low, lowest)
    if highest is not None and mean <= highest:
        high = min(high, highest)
    return replace(summary, low=low, high=high)


def as_cell(
    summary: Summary, scale: float = 1.0, *, signed: bool = False, share: bool = False
) -> Cell:
    """A summary as a table's cell, its numbers times `scale` (100 for percent).

    A `share` of fewer than 100 in percent has no decimals: one of them is more than a percent.
    """

    def scaled(number: float | None) -> float | None:
        return None if number is None else number * scale

    return Cell(
        value=scaled(summary.mean),
        n=summary.n,
        missing=summary.missing,
        low=scaled(summary.low),
        high=scaled(summary.high),
        signed=signed,
        digits=0 if share and scale == 100 and summary.n < 100 else None,
    )


def note_intervals(tables: Iterable[Table]) -> tuple[Table, ...]:
    """Add the note `INTERVALS` to tables with intervals, unless they have their own rule."""
    return tuple(
        replace(table, notes=(*table.notes, INTERVALS)) if _lacks_rule(table) else table
        for table in tables
    )


def _lacks_rule(table: Table) -> bool:
    """Whether a table has intervals, and no note that says what they are."""
    cells = (cell for row in table.rows.values() for cell in row.values())
    has_rule = any(note.startswith(_BRACKETS) for note in table.notes)
    return not has_rule and any(cell.low is not None for cell in cells)


def estimate_terms(
    terms: Sequence[tuple[Column, float]], n: int, missing: Mapping[str, int]
) -> Summary:
    """The weighted sum of the columns' means, by the module's formula."""
    none = Summary(mean=None, stderr=None, low=None, high=None, n=n, missing=dict(missing))
    if not all(column.present.any() for column, _ in terms):
        return none
    mean, size = 0.0, 0.0
    for column, weight in terms:
        numbers = column.numbers[column.present]
        mean += weight * float(numbers.mean())
        size += abs(weight) * float(np.abs(numbers).max())
    spread = find_spread(terms)
    if spread is None:
        return replace(none, mean=mean)
    stderr = math.sqrt(spread.variance)
    if stderr <= ROUNDING * size:
        return replace(none, mean=mean, stderr=0.0)
    if min(len(cluster_shares(column)) for column, _ in terms) < FEWEST_CLUSTERS:
        return replace(none, mean=mean, stderr=stderr)
    half = t_quantile(spread.freedom) * stderr
    return replace(none, mean=mean, stderr=stderr, low=mean - half, high=mean + half)


def _change(left: Column, right: Column, row: int | None, other: int | None) -> float:
    if row is None or other is None:
        return math.nan
    start, goal = float(left.numbers[row]), float(right.numbers[other])
    # 0.1 + 0.2 in one run equals 0.3 in the other
    return 0.0 if math.isclose(start, goal, rel_tol=ROUNDING) else goal - start


def _unpaired(
    left: Column,
    right: Column,
    rows: tuple[int | None, int | None],
    names: tuple[str, str] | None,
) -> str | None:
    """Why a row of the left and another of the right make no pair; None if they do."""
    row, other = rows
    if row is None or other is None:
        if names is None:
            return f"{UNPAIRED}only on the {'right' if row is None else 'left'}"
        return f"{UNPAIRED}only in {names[row is None]}"
    for side, reason in enumerate((left.reasons[row], right.reasons[other])):
        if reason is not None:
            bare = reason.removeprefix(UNPAIRED)
            return f"{UNPAIRED}{bare}" if names is None else f"{UNPAIRED}{names[side]}: {bare}"
    return None


def _cautious_size(size: float, share: float, shares: Numbers, n: int) -> float:
    """An effective size of n zeros and ones in clusters that knows how little few events show.

    How alike the rows of a cluster are is seen in the clusters with an event. These count against
    `_PRIOR` events of clusters whose rows are all alike.
    """
    events = len(shares) * min(share, 1 - share)
    most = n * float(shares @ shares)
    return min(size, n * (events + _PRIOR) / (events * n / size + _PRIOR * most))


def _count_binary(share: float, variance: float, size: float) -> float:
    """How many zeros and ones have the error of so many values, with one added at each end."""
    whole = size + _ADDED
    centre = (size * share + _ADDED / 2) / whole
    square = (size * (variance + share**2) + _ADDED / 2) / whole
    return size * centre * (1 - centre) / (square - centre**2)


def _wilson(share: float, n: float, quantile: float) -> tuple[float, float]:
    """Wilson's score interval for a share of `n` independent values."""
    square = quantile**2 / n
    centre = (share + square / 2) / (1 + square)
    half = math.sqrt(square * share * (1 - share) + square**2 / 4) / (1 + square)
    # rounding alone could carry the ends past the share at 0 or 1
    return min(max(0.0, centre - half), share), max(min(1.0, centre + half), share)
