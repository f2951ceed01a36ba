"""The measures against closed forms and the examples of the papers and textbooks they come from."""

import math
from itertools import permutations, product

import numpy as np
import pytest

from mmconv.stats.agreement import many_raters
from mmconv.stats.agreement.many_raters import (
    Level,
    alike_among,
    alike_between,
    evenly_rated,
    majority,
    mean,
)
from mmconv.stats.agreement.two_raters import Matrix
from tests.mmconv.stats.agreement.draws import crossed, matrix, once, resampled, weighing

NONE = math.nan

FLEISS = """
00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031 00501
30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006
"""
"""Fleiss 1971, table 1: how many of 6 psychiatrists gave each of 30 patients 5 diagnoses."""

KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NONE, NONE, NONE],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NONE, 3],
        [NONE, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NONE],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NONE],
    ]
)
"""Krippendorff 2011 (Computing Krippendorff's Alpha-Reliability), section C: 4 observers."""


def tallied(counts: list[list[int]]) -> Matrix:
    """Ratings with these numbers of each value, a list of counts per unit."""
    units = [[value for value, count in enumerate(unit) for _ in range(count)] for unit in counts]
    return np.array(units, dtype=np.float64).T


def fleiss_kappa(ratings: Matrix) -> float:
    return float(many_raters.fleiss_kappa(ratings, once(ratings))[0])


def krippendorff_alpha(ratings: Matrix, level: Level) -> float:
    return float(many_raters.krippendorff_alpha(ratings, once(ratings), level)[0])


def agreement_between(judges: Matrix, people: Matrix, *, pooled: bool = False) -> float:
    return float(alike_between(judges, people).agreement(once(people), pooled=pooled)[0])


def agreement_among(people: Matrix, *, pooled: bool = False) -> float:
    return float(alike_among(people).agreement(once(people), pooled=pooled)[0])


def test_fleiss_kappa_of_his_own_example() -> None:
    ratings = tallied([[int(digit) for digit in unit] for unit in FLEISS.split()])
    assert ratings.shape == (6, 30)
    assert fleiss_kappa(ratings) == pytest.approx(0.430, abs=5e-4)


def test_fleiss_kappa_of_two_raters_is_scotts_pi() -> None:
    """Observed 0.7; both raters together say 0 in 22 of 40 cases."""
    expected = (22 / 40) ** 2 + (18 / 40) ** 2
    pi = (0.7 - expected) / (1 - expected)
    assert fleiss_kappa(crossed([[8, 4], [2, 6]])) == pytest.approx(pi)


def test_fleiss_kappa_takes_units_with_the_usual_number_of_ratings() -> None:
    even = tallied([[3, 0], [0, 3], [2, 1], [1, 2]])
    odd = np.concatenate((even, matrix([1, 1], [0, NONE], [NONE, NONE])), axis=1)
    assert evenly_rated(odd).tolist() == [True] * 4 + [False] * 2
    assert fleiss_kappa(odd) == fleiss_kappa(even)


def test_of_two_numbers_of_ratings_that_are_as_usual_the_larger_counts() -> None:
    ratings = matrix([1, 2, 3, 4], [1, 2, 3, 4], [NONE, 2, NONE, 4])
    assert evenly_rated(ratings).tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_krippendorffs_alpha_of_his_own_example(level: Level, alpha: float) -> None:
    assert krippendorff_alpha(KRIPPENDORFF, level) == pytest.approx(alpha, abs=5e-4)


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_krippendorffs_alpha_of_incomplete_ratings_by_its_definition(level: Level) -> None:
    """From the matrix of coincidences (Krippendorff 2011), a fourth of the ratings missing."""
    random = np.random.default_rng(0)
    ratings = random.integers(1, 6, (4, 60)).astype(np.float64)
    ratings[random.random(ratings.shape) < 0.25] = np.nan
    values = np.arange(1.0, 6.0)
    coincidences = np.zeros((5, 5))
    for unit in ratings.T:
        given = unit[~np.isnan(unit)].astype(int) - 1
        for left, right in permutations(given.tolist(), 2):
            coincidences[left, right] += 1 / (len(given) - 1)
    counts = coincidences.sum(axis=0)

    def difference(left: int, right: int) -> float:
        if level == "nominal":
            return float(left != right)
        if level == "interval":
            return float(values[left] - values[right]) ** 2
        low, high = sorted((left, right))
        between = counts[low : high + 1].sum() - (counts[low] + counts[high]) / 2
        return float(between) ** 2

    cells = list(product(range(5), repeat=2))
    observed = sum(coincidences[cell] * difference(*cell) for cell in cells)
    expected = sum(counts[a] * counts[b] * difference(a, b) for a, b in cells)
    alpha = 1 - observed * (counts.sum() - 1) / expected
    assert krippendorff_alpha(ratings, level) == pytest.approx(alpha)


def test_krippendorffs_alpha_of_binary_data_in_closed_form() -> None:
    """Krippendorff 2011, section A: 10 units, 4 of them rated differently, 6 ones of 20 values."""
    ratings = matrix([0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0])
    alpha = 1 - (20 - 1) * 4 / (14 * 6)
    assert round(alpha, 3) == 0.095
    assert krippendorff_alpha(ratings, "nominal") == pytest.approx(alpha)


VOTES = matrix([1, 1, 2, 0, NONE], [1, 2, 2, NONE, NONE], [1, 2, 1, NONE, 0])
"""Three people; the third unit of the judge below is a tie (0)."""

JUDGE = matrix([1, 2, 0, 0, 0])


def test_agreement_is_a_mean_over_units() -> None:
    assert agreement_between(JUDGE, VOTES) == pytest.approx((1 + 2 / 3 + 0 + 1 + 1) / 5)
    assert agreement_among(VOTES) == pytest.approx((1 + 1 / 3 + 1 / 3) / 3)


def test_pooled_agreement_counts_pairs() -> None:
    assert agreement_between(JUDGE, VOTES, pooled=True) == pytest.approx((3 + 2 + 0 + 1 + 1) / 11)
    assert agreement_among(VOTES, pooled=True) == pytest.approx((3 + 1 + 1) / 9)


def test_what_ratings_leave_undefined_is_nan() -> None:
    nobody, same = matrix([1, NONE], [NONE, 1]), matrix([2, 2], [2, 2])
    for ratings in (nobody, same):
        assert math.isnan(fleiss_kappa(ratings))
        assert math.isnan(krippendorff_alpha(ratings, "ordinal"))
    assert math.isnan(agreement_among(nobody))
    assert math.isnan(agreement_between(nobody[:1], nobody[1:]))


def test_draws_of_one_value_leave_alpha_undefined_however_numbers_are_rounded() -> None:
    ratings = matrix(*[[0.1, 0.7, 1.1, 2.3]] * 3)
    alpha = many_raters.krippendorff_alpha(ratings, 5 * np.eye(4), "interval")
    assert np.isnan(alpha).all()


def test_nobody_has_no_majority_whatever_others_say() -> None:
    """One value in all, which the second and third unit did not get: they once got it."""
    np.testing.assert_array_equal(majority(matrix([1, NONE, NONE])), [1, NONE, NONE])
    np.testing.assert_array_equal(majority(matrix([NONE, NONE])), [NONE, NONE])


def test_consensus_is_the_majority_or_the_mean() -> None:
    people = matrix([1, 1, 1, NONE, 3], [1, 2, 2, NONE, NONE], [5, 5, 2, NONE, NONE])
    np.testing.assert_array_equal(majority(people), [1, NONE, 2, NONE, 3])
    np.testing.assert_allclose(mean(people), [7 / 3, 8 / 3, 5 / 3, NONE, 3])


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_krippendorffs_alpha_of_draws_is_that_of_krippendorff(level: Level) -> None:
    krippendorff = pytest.importorskip("krippendorff")
    ratings = resampled(raters=4, units=40, step=0.5, missing=0.3)
    for weights in weighing(40):
        [alpha] = many_raters.krippendorff_alpha(ratings, weights[:, np.newaxis], level)
        drawn = np.repeat(ratings, weights.astype(int), axis=1)
        known = krippendorff.alpha(drawn, level_of_measurement=level)
        assert alpha == pytest.approx(known, abs=1e-12)


def test_fleiss_kappa_of_draws_is_that_of_statsmodels() -> None:
    rater = pytest.importorskip("statsmodels.stats.inter_rater")
    ratings = resampled(raters=5, units=40, step=1.0, missing=0.0)
    for weights in weighing(40):
        [kappa] = many_raters.fleiss_kappa(ratings, weights[:, np.newaxis])
        drawn = np.repeat(ratings, weights.astype(int), axis=1)
        known = rater.fleiss_kappa(rater.aggregate_raters(drawn.T)[0])
        assert kappa == pytest.approx(known, abs=1e-12)


def test_a_draw_without_any_pair_leaves_all_undefined() -> None:
    weights = np.zeros((5, 1))
    alike = alike_among(VOTES)
    found = [
        alike.agreement(weights),
        alike.agreement(weights, pooled=True),
        many_raters.fleiss_kappa(VOTES, weights),
        many_raters.krippendorff_alpha(VOTES, weights, "ordinal"),
    ]
    assert np.isnan(found).all()
