"""Student's t against scipy's, over the degrees of freedom that data have."""

import math

import numpy as np
import pytest
from scipy.special import stdtr, stdtrit

from mmconv.stats.student_t import NORMAL, t_quantile, two_sided

FREEDOMS = [1.0, 1.3, 2.0, 4.0, 4.7, 9.0, 29.5, 99.0, 576.0, 5769.0, 1e5]


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_the_tails_are_scipys(freedom: float) -> None:
    for t in (1e-6, 0.01, 0.5, 1.0, 1.96, 3.0, 10.0, 50.0):
        assert two_sided(t, freedom) == pytest.approx(2 * stdtr(freedom, -t), rel=1e-9, abs=1e-300)
        assert two_sided(-t, freedom) == two_sided(t, freedom)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_the_quantile_is_scipys(freedom: float) -> None:
    assert t_quantile(freedom) == pytest.approx(stdtrit(freedom, 0.975), rel=1e-10)


def test_the_tails_are_scipys_wherever_the_numbers_fall() -> None:
    random = np.random.default_rng(2026)
    for freedom, t in zip(10 ** random.uniform(0, 4, 500), random.normal(0, 4, 500), strict=True):
        expected = 2 * stdtr(freedom, -abs(t))
        assert two_sided(float(t), float(freedom)) == pytest.approx(expected, rel=1e-9)


def test_nothing_is_as_probable_as_being_at_least_zero_away() -> None:
    assert two_sided(0.0, 7.0) == 1.0
    assert two_sided(math.inf, 7.0) == 0.0


def test_many_degrees_of_freedom_are_the_normal_distribution() -> None:
    assert t_quantile(1e7) == pytest.approx(NORMAL, rel=1e-6)
