"""How far a weighted sum of means varies: its variance, and how much is known of that.

The variance is the cluster-robust one of `mmconv.stats.estimates`, the degrees of freedom are
Satterthwaite's (Biometrics Bulletin 2, 1946, 110-114). No interval is made here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmconv.stats.column import Codes, Column, Numbers, number_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The variance of a weighted sum of means, and the degrees of freedom that it was found with.

    `freedom` need not be whole, and is at least 1.
    """

    variance: float
    freedom: float


def find_spread(terms: Sequence[tuple[Column, float]]) -> Spread | None:
    """The spread of sum_k w_k * mean_k over columns with their weights.

    Columns that share clusters, by themselves or through others, are one group, whose degrees of
    freedom are the clusters of its smallest column less one: a mean is not more precise than
    its part with the fewest clusters. None without columns, and where a column has numbers of fewer
    than two clusters.
    """
    present = [np.flatnonzero(column.present) for column, _ in terms]
    codes, _ = number_names(
        column.clusters[row]
        for (column, _), rows in zip(terms, present, strict=True)
        for row in rows.tolist()
    )
    ends = np.cumsum([len(rows) for rows in present])[:-1]
    of_columns = np.split(codes, ends)
    sizes = [len(np.unique(each)) for each in of_columns]
    if not terms or min(sizes) < 2:
        return None
    influences = [
        weight * math.sqrt(size / (size - 1)) * _deviations(column.numbers[rows])
        for (column, weight), rows, size in zip(terms, present, sizes, strict=True)
    ]
    squares = np.bincount(codes, weights=np.concatenate(influences)) ** 2
    return _satterthwaite(
        (float(squares[there].sum()), min(sizes[place] for place in group) - 1)
        for group, there in _sharing(of_columns, len(squares))
    )


def _deviations(numbers: Numbers) -> Numbers:
    """What each number adds to the error of their mean."""
    deviations: Numbers = (numbers - numbers.mean()) / len(numbers)
    return deviations


def _sharing(
    of_columns: Sequence[Codes], clusters: int
) -> list[tuple[tuple[int, ...], NDArray[np.bool_]]]:
    """Groups of columns that share clusters: (their places, which of the clusters are theirs)."""
    groups: list[tuple[tuple[int, ...], NDArray[np.bool_]]] = []
    for place, codes in enumerate(of_columns):
        places: tuple[int, ...] = (place,)
        there = np.zeros(clusters, dtype=np.bool_)
        there[codes] = True
        apart = []
        for group in groups:
            if (group[1] & there).any():
                places, there = group[0] + places, group[1] | there
            else:
                apart.append(group)
        groups = [*apart, (places, there)]
    return groups


def _satterthwaite(groups: Iterable[tuple[float, int]]) -> Spread:
    """The sum of independent variances, each with its degrees of freedom."""
    known = list(groups)
    variance = math.fsum(each for each, _ in known)
    if variance == 0:
        return Spread(variance=0.0, freedom=float(sum(freedom for _, freedom in known)))
    return Spread(
        variance=variance,
        freedom=1 / math.fsum((each / variance) ** 2 / freedom for each, freedom in known),
    )
