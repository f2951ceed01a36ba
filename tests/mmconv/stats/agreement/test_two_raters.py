"""Measures of two raters: closed forms, and scipy's and statsmodels' numbers for the same draws."""

import math

import numpy as np
import pytest
from scipy import sparse, stats

from mmconv.stats.agreement import two_raters
from mmconv.stats.agreement.two_raters import Matrix, Measure
from tests.mmconv.stats.agreement.draws import crossed, matrix, once, resampled, weighing

NONE = math.nan

MEASURES = (
    two_raters.cohen_kappa,
    two_raters.quadratic_kappa,
    two_raters.pearson_r,
    two_raters.spearman_rho,
    two_raters.kendall_tau,
    two_raters.mean_difference,
)


def measured(measure: Measure, ratings: Matrix) -> float:
    left, right = ratings
    return float(measure(two_raters.cross(left, right, once(ratings)))[0])


def cohen_kappa(ratings: Matrix) -> float:
    return measured(two_raters.cohen_kappa, ratings)


def spearman_rho(ratings: Matrix) -> float:
    return measured(two_raters.spearman_rho, ratings)


def kendall_tau(ratings: Matrix) -> float:
    return measured(two_raters.kendall_tau, ratings)


def test_cohens_kappa_in_closed_form() -> None:
    """50 proposals: observed agreement 0.7, by chance 0.5 * 0.6 + 0.5 * 0.4 = 0.5."""
    assert cohen_kappa(crossed([[20, 5], [10, 15]])) == pytest.approx((0.7 - 0.5) / (1 - 0.5))


def test_cohens_kappa_is_over_units_that_both_rated() -> None:
    pair = crossed([[20, 5], [10, 15]])
    more = np.concatenate((pair, matrix([3, NONE], [NONE, 4])), axis=1)
    assert cohen_kappa(more) == pytest.approx(0.4)


def test_cohens_kappa_of_a_rater_who_never_varies_is_zero() -> None:
    assert cohen_kappa(matrix([1, 1, 1, 1], [1, 2, 1, 2])) == pytest.approx(0)


def test_rank_correlations_in_closed_form() -> None:
    """Ten people's IQ and hours of TV: sum of squared rank differences 194, rho = -29 / 165."""
    pair = matrix(
        [106, 100, 86, 101, 99, 103, 97, 113, 112, 110], [7, 27, 2, 50, 28, 29, 20, 12, 6, 17]
    )
    assert spearman_rho(pair) == pytest.approx(-29 / 165)


def test_kendalls_tau_b_corrects_for_ties() -> None:
    """Of 6 pairs 4 are concordant, none discordant; one is tied on the left, one on the right."""
    pair = matrix([1, 2, 2, 3], [1, 2, 3, 3])
    assert kendall_tau(pair) == pytest.approx(4 / math.sqrt(5 * 5))


def test_what_ratings_leave_undefined_is_nan() -> None:
    nobody, same = matrix([1, NONE], [NONE, 1]), matrix([2.1, 2.1, 2.1], [2.1, 2.1, 2.1])
    for measure in MEASURES:
        assert math.isnan(measured(measure, nobody))
        assert math.isnan(measured(measure, same)) == (measure is not two_raters.mean_difference)
    one = matrix([0.1, 0.1, 0.1], [1, 2, 3])
    for measure in (two_raters.pearson_r, two_raters.spearman_rho, two_raters.kendall_tau):
        assert math.isnan(measured(measure, one))
    assert measured(two_raters.quadratic_kappa, one) == pytest.approx(0)


def test_quadratic_weights_count_a_step_by_its_square() -> None:
    """Off by 1 and by 2 of ratings 1 to 3; by chance each meets each: 8 / 6 on average."""
    ratings = matrix([1, 2, 3, 1, 2, 3], [1, 2, 3, 2, 3, 1])
    assert measured(two_raters.quadratic_kappa, ratings) == pytest.approx(1 - (6 / 6) / (8 / 6))


def test_the_mean_difference_is_left_less_right() -> None:
    assert measured(two_raters.mean_difference, matrix([5, 4, NONE], [3, 1, 9])) == 2.5


def of_statsmodels(left: Matrix, right: Matrix, wt: str | None) -> float:
    """Over all half points there may be, so that its weights are those of the numbers."""
    rater = pytest.importorskip("statsmodels.stats.inter_rater")
    values = np.arange(-4, 12, 0.5)
    table = (left[:, np.newaxis] == values).astype(float).T @ (right[:, np.newaxis] == values)
    if wt is None:
        table = table[np.ix_(*[(table.sum(0) + table.sum(1)) > 0] * 2)]
    return float(rater.cohens_kappa(table, wt=wt, return_results=False))


def test_measures_of_draws_are_those_of_scipy_and_statsmodels() -> None:
    ratings = resampled(raters=2, units=60, step=0.5, missing=0.1)
    seen = ~np.isnan(ratings).any(axis=0)
    for weights in weighing(60):
        table = two_raters.cross(ratings[0], ratings[1], weights[:, np.newaxis])
        left, right = np.repeat(ratings[:, seen], weights[seen].astype(int), axis=1)
        known = (
            of_statsmodels(left, right, None),
            of_statsmodels(left, right, "quadratic"),
            stats.pearsonr(left, right).statistic,
            stats.spearmanr(left, right).statistic,
            stats.kendalltau(left, right).statistic,
            np.mean(left - right),
        )
        found = [float(measure(table)[0]) for measure in MEASURES]
        assert found == pytest.approx(known, abs=1e-12)


@pytest.mark.parametrize(
    ("ratings", "size", "draws"), [(0, 0, 3), (0, 4, 3), (1, 1, 1), (500, 40, 7)]
)
def test_counts_are_those_of_a_sparse_product(ratings: int, size: int, draws: int) -> None:
    """Also of codes that no unit has, of units with no code and of those with several."""
    random = np.random.default_rng(2)
    codes = random.integers(max(1, size - 1), size=ratings)
    units = random.integers(300, size=ratings)
    weights = random.random((300, draws))
    table = sparse.csr_array((np.ones(ratings), (codes, units)), shape=(size, 300))
    counts = two_raters.count(codes, units, size, weights)
    assert counts.shape == (size, draws)
    assert counts.dtype == np.float64
    np.testing.assert_allclose(counts, table @ weights, rtol=0, atol=1e-12)


def test_kendalls_tau_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    ratings = resampled(raters=2, units=60, step=0.01, missing=0.0)
    whole = kendall_tau(ratings)
    assert whole == pytest.approx(stats.kendalltau(*ratings).statistic)
    monkeypatch.setattr(two_raters, "_SIGNS", 100)
    assert kendall_tau(ratings) == pytest.approx(whole, abs=1e-12)
