"""How many samples, trials, verdicts or labels show a difference, by the errors of a pilot.

A test at the 5 % level finds a difference with 80 % power if it is as large as its error times the
sum of the quantiles of both (`mmconv.stats.contrasts.Contrast.detectable`). An error falls with the
root of the number of clusters; more trials lower only the part that varies within samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mmconv.core.plans import read_trial
from mmconv.stats.column import Column, number_names
from mmconv.stats.contrasts import POWER
from mmconv.stats.corrections import Correction
from mmconv.stats.estimates import FEWEST_CLUSTERS, summarise
from mmconv.stats.spread import cluster_shares, degrees_of_freedom, find_spread
from mmconv.stats.student_t import t_quantile

MOST = 1e6
"""How many times the pilot's numbers are tried."""


def detectable(column: Column) -> float | None:
    """The least true mean that differs from 0 in 80 % of tests; None without an error."""
    error, freedom = _error(column)
    return error * _quantiles(freedom) if error else None


def count_samples(column: Column, effect: float) -> int | None:
    """How many samples show a mean of this size; a trial is none. None without an error."""
    error, freedom = _error(column)
    if not error:
        return None
    more = _least(lambda more: _quantiles(more * freedom) * error / math.sqrt(more) <= effect)
    keys = {read_trial(sample).key for sample in column.samples}
    return None if more is None else math.ceil(more * len(keys))


def count_trials(column: Column, effect: float) -> int | None:
    """How many trials of the same samples show a mean of this size.

    None without two trials in the pilot, and if no number of trials would do.
    """
    return _count_repeats(column, [read_trial(sample).key for sample in column.samples], effect)


def count_verdicts(judges: Sequence[Column], effect: float) -> int | None:
    """How many verdicts on each answer show a mean of this size; the columns are of each judge.

    What a judge gives all answers alike does not count. None with fewer than two judges, and if no
    number of verdicts would do.
    """
    if len(judges) < 2:
        return None
    centred = [replace(each, numbers=each.numbers - np.nanmean(each.numbers)) for each in judges]
    joined = Column.joined(centred)
    return _count_repeats(joined, joined.samples, effect)


def _count_repeats(column: Column, keys: Sequence[str], effect: float) -> int | None:
    """How many numbers of each key show a mean of this size, if a key has two or more now."""
    error, freedom = _error(column)
    codes, found = number_names(key for key, here in zip(keys, column.present, strict=True) if here)
    repeats, free = len(codes) / max(len(found), 1), len(codes) - len(found)
    if not error or not free:
        return None
    numbers = column.numbers[column.present]
    means = np.bincount(codes, weights=numbers) / np.bincount(codes)
    within = float(((numbers - means[codes]) ** 2).sum()) / free
    whole = float(means.var(ddof=1))
    between = max(0.0, whole - within / repeats)
    for count in range(1, 101):
        share = math.sqrt((between + within / count) / whole) if whole else 0.0
        if error * share * _quantiles(freedom) <= effect:
            return count
    return None


def count_labels(correction: Correction, effect: float) -> int | None:
    """How many labels show a corrected mean of this size; None if only more samples would do."""
    spread, own = find_spread(correction.terms()), summarise(correction.labelled)
    if spread is None or not own.stderr:
        return None
    variance, labels = spread.variance, own.stderr**2

    def does(more: float) -> bool:
        error = math.sqrt(max(variance + (1 / more - 1) * labels, 0.0))
        return error * _quantiles(more * spread.freedom) <= effect

    more = _least(does)
    return None if more is None else math.ceil(more * len(correction.people))


def _error(column: Column) -> tuple[float, float]:
    """The standard error of the mean and its degrees of freedom; 0 if there are too few."""
    shares = cluster_shares(column)
    if len(shares) < FEWEST_CLUSTERS:
        return 0.0, 0.0
    return summarise(column).stderr or 0.0, degrees_of_freedom(shares)


def _quantiles(freedom: float) -> float:
    return t_quantile(max(freedom, 1.0)) + POWER


def _least(does: Callable[[float], bool]) -> float | None:
    """The least multiple of a pilot with which a test does what it should."""
    low, high = 1 / MOST, MOST
    if not does(high):
        return None
    while high / low > 1.0005:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if does(middle) else (middle, high)
    return high
