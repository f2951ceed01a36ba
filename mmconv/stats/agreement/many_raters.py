"""Measures of agreement among any number of raters, and the consensus of raters.

All take a matrix of ratings of shape (raters, units), NaN where a rater did not rate a unit. The
measures also take how often each unit comes in each of some bootstrap draws, of shape (units,
draws); they have shape (draws,) and are NaN where a draw leaves them undefined.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmconv.stats.agreement.two_raters import Matrix, count, midranks, ratio

Counts: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Level: TypeAlias = Literal["nominal", "ordinal", "interval"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alike:
    """How many pairs of ratings each unit has, and how many of them are the same; shape (units,).

    Agreement is the probability that two random raters rate a random unit alike. Source: Zheng et
    al. 2023 (MT-Bench), who define it so; their code (`compute_agreement.py`) counts all pairs of
    ratings alike instead, which weighs units by their pairs. The two are equal where every unit has
    as many pairs. Units without a pair are left out.
    """

    same: Counts
    pairs: Counts

    @property
    def shares(self) -> Matrix:
        """The share of a unit's pairs that are the same, NaN without a pair; shape (units,)."""
        return ratio(self.same.astype(np.float64), self.pairs.astype(np.float64))

    def agreement(self, weights: Matrix, *, pooled: bool = False) -> Matrix:
        """The mean over units, or, `pooled`, over all pairs of ratings."""
        if pooled:
            return ratio(self.same @ weights, self.pairs @ weights)
        rated = weights[self.pairs > 0]
        return ratio(self.shares[self.pairs > 0] @ rated, rated.sum(axis=0))


def alike_between(judges: Matrix, people: Matrix) -> Alike:
    """The pairs of a judge and a person."""
    same = np.sum([(people == judge).sum(axis=0) for judge in judges], axis=0)
    return Alike(same=same, pairs=raters_per_unit(judges) * raters_per_unit(people))


def alike_among(people: Matrix) -> Alike:
    """The pairs of people."""
    rated = raters_per_unit(people)
    same = (_support(people).sum(axis=0) - rated) // 2
    return Alike(same=same, pairs=rated * (rated - 1) // 2)


def fleiss_kappa(ratings: Matrix, weights: Matrix) -> Matrix:
    """Fleiss' kappa over the units that are `evenly_rated`; of two raters it is Scott's pi."""
    even = evenly_rated(ratings)
    used = weights[even]
    observed = alike_among(ratings[:, even]).agreement(used)
    _, counts = _value_counts(ratings[:, even], used)
    total = counts.sum(axis=0)
    by_chance = (counts**2).sum(axis=0)
    return ratio(total**2 * observed - by_chance, total**2 - by_chance)


def krippendorff_alpha(ratings: Matrix, weights: Matrix, level: Level) -> Matrix:
    """Krippendorff's alpha over all units that at least two rated, for ratings of this level.

    For interval ratings disagreement is the squared distance of two ratings; for ordinal ones it is
    that of their mean ranks among all ratings, which is what Krippendorff's sum over the ranks
    between them comes to.
    """
    several = paired(ratings)
    given, used = ratings[:, several], weights[several]
    values, counts = _value_counts(given, used)
    total = counts.sum(axis=0)
    each = used / (raters_per_unit(given) - 1)[:, np.newaxis]
    if level == "nominal":
        unlike = alike_among(given)
        observed = 2 * (unlike.pairs - unlike.same) @ each
        expected = total**2 - (counts**2).sum(axis=0)
    else:
        # about the middle rank or rating, so that squares stay small and lose nothing
        middle = (total + 1) / 2 if level == "ordinal" else np.mean(values) if len(values) else 0.0
        places = (midranks(counts) if level == "ordinal" else values[:, np.newaxis]) - middle
        observed = 2 * (each * _squared_distances(given, values, places)).sum(axis=0)
        sums = (counts * places).sum(axis=0)
        expected = 2 * (total * (counts * places**2).sum(axis=0) - sums**2)
    alpha = 1 - ratio((total - 1) * observed, expected)
    alpha[(counts > 0).sum(axis=0) < 2] = np.nan
    return alpha


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
    support = _support(ratings)
    most = support.max(axis=0)
    # each of several values with that support has as many raters behind it
    clear = ((support == most).sum(axis=0) == most) & (most > 0)
    voted = np.take_along_axis(ratings, support.argmax(axis=0)[np.newaxis], axis=0)[0]
    return np.where(clear, voted, np.nan)


def mean(ratings: Matrix) -> Matrix:
    """The mean rating of each unit, NaN without ratings; shape (units,)."""
    counts = raters_per_unit(ratings)
    return np.where(counts > 0, np.nansum(ratings, axis=0) / np.maximum(counts, 1), np.nan)


def _support(ratings: Matrix) -> Counts:
    """How many raters gave a unit what each rater gave it, 0 for no rating; shape of `ratings`."""
    return np.array([(ratings == row).sum(axis=0) for row in ratings], dtype=np.int64)


def _value_counts(ratings: Matrix, weights: Matrix) -> tuple[Matrix, Matrix]:
    """The distinct ratings in ascending order, and how often each comes: (values, draws)."""
    raters, units = np.nonzero(~np.isnan(ratings))
    values, codes = np.unique(ratings[raters, units], return_inverse=True)
    return values, count(codes, units, len(values), weights)


def _squared_distances(ratings: Matrix, values: Matrix, places: Matrix) -> Matrix:
    """The sum over a unit's pairs of ratings of their squared distance; shape (units, draws).

    `places` says where each of the values is, of shape (values, draws) or (values, 1).
    """
    rated = ~np.isnan(ratings)
    codes = np.searchsorted(values, np.where(rated, ratings, np.nan))
    sums = np.zeros((ratings.shape[1], places.shape[1]))
    squares = np.zeros_like(sums)
    for row, here in zip(codes, rated, strict=True):
        place = places[row[here]]
        sums[here] += place
        squares[here] += place**2
    return raters_per_unit(ratings)[:, np.newaxis] * squares - sums**2
