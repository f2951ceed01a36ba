"""Measures of agreement between two raters, over many bootstrap draws of units at once.

The ratings of two raters are tabulated once (`cross`); a draw only changes how often each pair of
ratings comes, so each measure is one computation for all draws. Measures have shape (draws,) and
are NaN where a draw leaves them undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmconv.stats.column import Codes
from mmconv.stats.estimates import ROUNDING

Matrix: TypeAlias = NDArray[np.float64]

_SIGNS = 4_000_000
"""How many pairs of pairs of ratings Kendall's tau looks at in one go, to save memory."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crossed:
    """The distinct pairs of ratings that two raters gave, and how often each comes in each draw.

    `left` and `right` have shape (pairs,), `counts` (pairs, draws).
    """

    left: Matrix
    right: Matrix
    counts: Matrix


Measure: TypeAlias = Callable[[Crossed], Matrix]


def cross(left: Matrix, right: Matrix, weights: Matrix) -> Crossed:
    """Tabulate the ratings of two raters, of shape (units,), over the units that both rated.

    `weights` says how often each unit comes in each draw; shape (units, draws).
    """
    both = np.flatnonzero(~np.isnan(left) & ~np.isnan(right))
    lefts, left_codes = np.unique(left[both], return_inverse=True)
    rights, right_codes = np.unique(right[both], return_inverse=True)
    # one number for each pair of ratings: numpy sorts those many times faster than pairs
    pairs, codes = np.unique(left_codes * len(rights) + right_codes, return_inverse=True)
    left_places, right_places = np.divmod(pairs, max(1, len(rights)))
    return Crossed(
        left=lefts[left_places],
        right=rights[right_places],
        counts=count(codes, both, len(pairs), weights),
    )


def count(codes: Codes, units: NDArray[np.intp], size: int, weights: Matrix) -> Matrix:
    """How often each of `size` codes comes in each draw; shape (size, draws).

    Each code is one rating of the unit at its place in `units`.
    """
    draws = weights.shape[1]
    places = codes[:, np.newaxis] * draws + np.arange(draws)
    sums = np.bincount(places.ravel(), weights[units].ravel(), minlength=size * draws)
    # numpy counts nothing in integers, whatever the weights are
    return sums.reshape(size, draws).astype(np.float64, copy=False)


def ratio(over: Matrix, under: Matrix) -> Matrix:
    """The quotient, NaN where that is 0 / 0 or a division by 0."""
    quotient = np.full_like(under, np.nan)
    np.divide(over, under, out=quotient, where=under != 0)
    return quotient


def cohen_kappa(crossed: Crossed) -> Matrix:
    """Cohen's kappa (unweighted)."""
    alike = crossed.counts[crossed.left == crossed.right].sum(axis=0)
    values, codes = np.unique(np.stack((crossed.left, crossed.right)), return_inverse=True)
    left, right = (_by_value(each, len(values), crossed) for each in codes.reshape(2, -1))
    total = crossed.counts.sum(axis=0)
    by_chance = (left * right).sum(axis=0)
    return ratio(total * alike - by_chance, total**2 - by_chance)


def quadratic_kappa(crossed: Crossed) -> Matrix:
    """Cohen's kappa with weights that grow with the square of the difference between two ratings.

    The difference is that of the numbers, even if no rating lies between them. So it is also Lin's
    coefficient of concordance.
    """
    moments = _moments(*_as_columns(crossed), crossed.counts)
    apart = moments.total * (moments.left_mean - moments.right_mean) ** 2
    return ratio(2 * moments.product, moments.left_square + moments.right_square + apart)


def pearson_r(crossed: Crossed) -> Matrix:
    """Pearson's correlation; undefined where one rater never varies."""
    return _correlation(*_as_columns(crossed), crossed.counts)


def spearman_rho(crossed: Crossed) -> Matrix:
    """Spearman's rank correlation; undefined where one rater never varies."""
    left, right = (
        midranks(_by_value(codes, len(values), crossed))[codes]
        for values, codes in _codes_of_both(crossed)
    )
    return _correlation(left, right, crossed.counts)


def kendall_tau(crossed: Crossed) -> Matrix:
    """Kendall's tau-b; undefined where one rater never varies."""
    counts = crossed.counts
    concordant = np.zeros(counts.shape[1])
    rows = max(1, _SIGNS // max(1, len(counts)))
    # counts are whole and far below 2**24: single precision adds them up exactly, and faster
    single = counts.astype(np.float32)
    for start in range(0, len(counts), rows):
        here = slice(start, start + rows)
        signs = np.sign(crossed.left[here, np.newaxis] - crossed.left)
        signs *= np.sign(crossed.right[here, np.newaxis] - crossed.right)
        concordant += (counts[here] * (signs.astype(np.float32) @ single)).sum(axis=0)
    untied = [
        counts.sum(axis=0) ** 2 - (_by_value(codes, len(values), crossed) ** 2).sum(axis=0)
        for values, codes in _codes_of_both(crossed)
    ]
    return ratio(concordant, np.sqrt(untied[0] * untied[1]))


def mean_difference(crossed: Crossed) -> Matrix:
    """The mean of left - right."""
    return ratio((crossed.left - crossed.right) @ crossed.counts, crossed.counts.sum(axis=0))


def midranks(counts: Matrix) -> Matrix:
    """The mean rank of each value, from how often it comes; shape (values, draws), ascending."""
    ranks: Matrix = counts.cumsum(axis=0) - (counts - 1) / 2
    return ranks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Moments:
    """Of each draw: how many pairs, the means, and sums of squares and products about them."""

    total: Matrix
    left_mean: Matrix
    right_mean: Matrix
    left_square: Matrix
    right_square: Matrix
    product: Matrix


def _moments(left: Matrix, right: Matrix, counts: Matrix) -> _Moments:
    """`left` and `right` have shape (pairs, draws), or (pairs, 1) where draws do not differ."""
    total = counts.sum(axis=0)
    means, apart = [], []
    for ratings in (left, right):
        mean = ratio((counts * ratings).sum(axis=0), total)
        off = ratings - mean
        off[np.abs(off) <= ROUNDING * np.abs(ratings)] = 0.0
        means.append(mean)
        apart.append(off)
    return _Moments(
        total=total,
        left_mean=means[0],
        right_mean=means[1],
        left_square=(counts * apart[0] ** 2).sum(axis=0),
        right_square=(counts * apart[1] ** 2).sum(axis=0),
        product=(counts * apart[0] * apart[1]).sum(axis=0),
    )


def _correlation(left: Matrix, right: Matrix, counts: Matrix) -> Matrix:
    moments = _moments(left, right, counts)
    return ratio(moments.product, np.sqrt(moments.left_square * moments.right_square))


def _as_columns(crossed: Crossed) -> tuple[Matrix, Matrix]:
    return crossed.left[:, np.newaxis], crossed.right[:, np.newaxis]


def _codes_of_both(crossed: Crossed) -> tuple[tuple[Matrix, Codes], ...]:
    """Of left and right: the distinct ratings in ascending order, and the place of each pair's."""
    return tuple(
        np.unique(ratings, return_inverse=True) for ratings in (crossed.left, crossed.right)
    )


def _by_value(codes: Codes, values: int, crossed: Crossed) -> Matrix:
    """How often one of the two gave each value; shape (values, draws)."""
    return count(codes, np.arange(len(codes)), values, crossed.counts)
