"""Ratings to check with other libraries or by hand, and how often their units come in draws."""

import numpy as np

from mmconv.stats.agreement.two_raters import Matrix


def matrix(*rows: list[float]) -> Matrix:
    """Ratings, one row for each rater; shape (raters, units)."""
    return np.array(rows, dtype=np.float64)


def once(ratings: Matrix) -> Matrix:
    """Each unit once; shape (units, 1)."""
    return np.ones((ratings.shape[1], 1))


def resampled(*, raters: int, units: int, step: float, missing: float) -> Matrix:
    """Ratings about 3 in multiples of `step`, which differ by rater; a share of them missing."""
    random = np.random.default_rng(4)
    truth = random.normal(3, 1.2, units)
    ratings = np.round((truth + random.normal(0, 0.8, (raters, units))) / step) * step
    ratings[random.random(ratings.shape) < missing] = np.nan
    return ratings


def weighing(units: int, draws: int = 5) -> list[Matrix]:
    """How often each unit comes in some draws of as many; each of shape (units,)."""
    random = np.random.default_rng(9)
    return [
        np.bincount(random.integers(units, size=units), minlength=units).astype(np.float64)
        for _ in range(draws)
    ]


def crossed(table: list[list[int]]) -> Matrix:
    """Ratings by two raters with this contingency table."""
    cells = [
        (row, column)
        for row, counts in enumerate(table)
        for column, count in enumerate(counts)
        for _ in range(count)
    ]
    return np.array(cells, dtype=np.float64).T
