"""How far a weighted sum of means varies: its variance, and how much is known of that.

The variance is the jackknife's over clusters (`mmconv.stats.estimates`). If cluster g has the share
s_g of a column's rows, the column has 1 / sum_g s_g^2 - 1 degrees of freedom: the clusters less one
if they have the same size, and few if one of them has most rows. Those of several columns are
combined by Satterthwaite's rule (Biometrics Bulletin 2, 1946, 110-114). No interval is made here.
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

    `freedom` need not be whole.
    """

    variance: float
    freedom: float


def find_spread(terms: Sequence[tuple[Column, float]]) -> Spread | None:
    """The spread of sum_k w_k * mean_k over columns with their weights.

    Columns that share clusters, by themselves or through others, are one group. It has the degrees
    of freedom of the column with the fewest: a mean is not more precise than its least certain
    part. None without columns, and where a column has numbers of fewer than two clusters.
    """
    present = [np.flatnonzero(column.present) for column, _ in terms]
    codes, _ = number_names(
        column.clusters[row]
        for (column, _), rows in zip(terms, present, strict=True)
        for row in rows.tolist()
    )
    ends = np.cumsum([len(rows) for rows in present])[:-1]
    of_columns = np.split(codes, ends)
    if not terms or min(len(np.unique(each)) for each in of_columns) < 2:
        return None
    freedom = [degrees_of_freedom(np.bincount(each) / len(each)) for each in of_columns]
    influences = [
        weight * find_influences(column.numbers[rows], each)
        for (column, weight), rows, each in zip(terms, present, of_columns, strict=True)
    ]
    squares = np.bincount(codes, weights=np.concatenate(influences)) ** 2
    return _satterthwaite(
        (float(squares[there].sum()), min(freedom[place] for place in group))
        for group, there in _sharing(of_columns, len(squares))
    )


def find_influences(numbers: Numbers, clusters: Codes) -> Numbers:
    """What each number adds to the error of their mean; shape (rows,), as both arguments.

    The squares of the clusters' sums add up to the jackknife's variance: without cluster g the mean
    is off by the sum of its deviations / (n * (1 - s_g)).
    """
    sizes = np.bincount(clusters)
    groups = np.count_nonzero(sizes)
    factor = math.sqrt((groups - 1) / groups) / (len(numbers) - sizes[clusters])
    influences: Numbers = factor * (numbers - numbers.mean())
    return influences


def cluster_shares(column: Column) -> Numbers:
    """The share of the column's numbers that each cluster has; shape (clusters,)."""
    codes, names = number_names(column.known.clusters)
    shares: Numbers = np.bincount(codes, minlength=len(names)) / max(len(codes), 1)
    return shares


def degrees_of_freedom(shares: Numbers) -> float:
    """The degrees of freedom of a mean over clusters with these shares of the rows."""
    return float(1 / (shares @ shares) - 1)


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


def _satterthwaite(groups: Iterable[tuple[float, float]]) -> Spread:
    """The sum of independent variances, each with its degrees of freedom."""
    known = list(groups)
    variance = math.fsum(each for each, _ in known)
    if variance == 0:
        return Spread(variance=0.0, freedom=math.fsum(freedom for _, freedom in known))
    return Spread(
        variance=variance,
        freedom=1 / math.fsum((each / variance) ** 2 / freedom for each, freedom in known),
    )
