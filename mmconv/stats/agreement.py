"""Measures of agreement between raters of the same units, and the consensus of raters.

All take a matrix of ratings of shape (raters, units), NaN where a rater did not rate a unit, and
are NaN where the ratings leave them undefined. The coefficients are those of scipy, statsmodels and
krippendorff, which are imported when they are used. Who is compared with whom, and intervals, are
the business of `mmconv.stats.panel`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Level: TypeAlias = Literal["nominal", "ordinal", "interval"]


def agreement_between(judges: Matrix, people: Matrix, *, pooled: bool = False) -> float:
    """The probability that a random judge and a random person rate a random unit alike.

    Source: Zheng et al. 2023 (MT-Bench), who define it so; their code (`compute_agreement.py`)
    counts all pairs of ratings alike instead (`pooled`), which weighs units by their pairs. The
    two are equal where every unit has as many pairs. Units without a pair are left out.
    """
    same = (judges[:, np.newaxis] == people[np.newaxis]).sum(axis=(0, 1))
    return _share(same, raters_per_unit(judges) * raters_per_unit(people), pooled)


def agreement_among(people: Matrix, *, pooled: bool = False) -> float:
    """The probability that two random raters, not the same one, rate a random unit alike.

    Source and `pooled`: see `agreement_between`.
    """
    tallies = _tallies(people)
    rated = raters_per_unit(people)
    return _share((tallies * (tallies - 1)).sum(axis=1) // 2, rated * (rated - 1) // 2, pooled)


def cohen_kappa(pair: Matrix) -> float:
    """Cohen's kappa of two raters (unweighted), over the units that both rated."""
    from statsmodels.stats.inter_rater import cohens_kappa

    both = pair[:, paired(pair)]
    values, codes = np.unique(both, return_inverse=True)
    if len(values) < 2:
        return math.nan
    table = np.zeros((len(values), len(values)))
    np.add.at(table, tuple(codes.reshape(both.shape)), 1)
    return float(cohens_kappa(table, return_results=False))


def fleiss_kappa(ratings: Matrix) -> float:
    """Fleiss' kappa over the units that are `evenly_rated`; of two raters it is Scott's pi."""
    from statsmodels.stats.inter_rater import fleiss_kappa as kappa

    tallies = _tallies(ratings[:, evenly_rated(ratings)])
    return float(kappa(tallies)) if tallies.shape[1] > 1 else math.nan


def krippendorff_alpha(ratings: Matrix, level: Level) -> float:
    """Krippendorff's alpha over all units that at least two rated, for ratings of this level.

    Takes memory for some numbers per unit and pair of distinct ratings.
    """
    import krippendorff

    pairable = ratings[:, paired(ratings)]
    values = np.unique(pairable[~np.isnan(pairable)])
    if len(values) < 2:
        return math.nan
    alpha = krippendorff.alpha(
        value_counts=_tallies(pairable), value_domain=values, level_of_measurement=level
    )
    return float(alpha)


def spearman_rho(pair: Matrix) -> float:
    """Spearman's rank correlation of two raters; undefined where one never varies."""
    from scipy.stats import spearmanr

    return _correlation(spearmanr, pair)


def kendall_tau(pair: Matrix) -> float:
    """Kendall's tau-b of two raters; undefined where one never varies."""
    from scipy.stats import kendalltau

    return _correlation(kendalltau, pair)


def raters_per_unit(ratings: Matrix) -> Counts:
    """How many raters rated each unit; shape (units,)."""
    counts: Counts = (~np.isnan(ratings)).sum(axis=0)
    return counts


def paired(ratings: Matrix) -> Mask:
    """Which units at least two raters rated; shape (units,)."""
    several: Mask = raters_per_unit(ratings) > 1
    return several


def evenly_rated(ratings: Matrix) -> Mask:
    """Which units have the most frequent number of ratings (of at least two); shape (units,).

    Fleiss' kappa is defined for units that have equally many. The larger number wins a draw.
    """
    counts = raters_per_unit(ratings)
    frequency = Counter(counts[counts > 1].tolist())
    usual = max(frequency, key=lambda count: (frequency[count], count), default=0)
    even: Mask = (counts == usual) & (counts > 1)
    return even


def majority(ratings: Matrix) -> Matrix:
    """The most frequent rating of each unit, NaN without one or where two are; shape (units,)."""
    values = np.unique(ratings[~np.isnan(ratings)])
    if not len(values):
        return np.full(ratings.shape[1], np.nan)
    tallies = _tallies(ratings)
    most = tallies.max(axis=1)
    # a value that nobody gave is no most frequent one, even where there is no other
    clear = ((tallies == most[:, np.newaxis]).sum(axis=1) == 1) & (most > 0)
    result = np.full(ratings.shape[1], np.nan)
    result[clear] = values[tallies[clear].argmax(axis=1)]
    return result


def mean(ratings: Matrix) -> Matrix:
    """The mean rating of each unit, NaN where nobody rated it; shape (units,)."""
    counts = raters_per_unit(ratings)
    return np.where(counts > 0, np.nansum(ratings, axis=0) / np.maximum(counts, 1), np.nan)


def _share(same: Counts, pairs: Counts, pooled: bool) -> float:
    rated = pairs > 0
    if not rated.any():
        return math.nan
    if pooled:
        return float(same.sum() / pairs.sum())
    return float((same[rated] / pairs[rated]).mean())


def _correlation(measure: Callable[[Matrix, Matrix], Any], pair: Matrix) -> float:
    left, right = pair[:, paired(pair)]
    if any(len(np.unique(ratings)) < 2 for ratings in (left, right)):
        return math.nan
    return float(measure(left, right).statistic)


def _tallies(ratings: Matrix) -> Counts:
    """How often each unit got each value, in ascending order; shape (units, values)."""
    values = np.unique(ratings[~np.isnan(ratings)])
    tallies: Counts = (ratings[:, :, np.newaxis] == values).sum(axis=0)
    return tallies
