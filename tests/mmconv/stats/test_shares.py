"""Wilson's intervals of shares: the textbook's, over clusters, and at the ends of the scale."""

import math

import numpy as np
import pytest
from scipy.special import stdtrit

from mmconv.core.types import Summary
from mmconv.stats import Column, summarise_share
from tests.mmconv.stats.intervals import covers, ends


def test_shares_at_the_ends_keep_an_interval_of_some_width_inside_zero_and_one() -> None:
    none = summarise_share(Column.of([0.0] * 20, clusters=list("abcde") * 4))
    square = 1.959964**2
    assert (none.mean, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(square / (5 + square))
    every = summarise_share(Column.of([1.0] * 20, clusters=list("abcde") * 4))
    assert (every.mean, every.high) == (1.0, 1.0)
    assert every.low == pytest.approx(5 / (5 + square))


@pytest.mark.parametrize(
    ("wins", "rows", "low", "high"),
    [(4, 8, 21.52, 78.48), (0, 8, 0.0, 32.44), (16, 17, 73.02, 98.95), (30, 100, 21.89, 39.58)],
)
def test_an_independent_share_has_the_wilson_interval_of_textbooks(
    wins: int, rows: int, low: float, high: float
) -> None:
    summary = summarise_share(Column.of([1.0] * wins + [0.0] * (rows - wins)))
    assert [100 * end for end in ends(summary)] == pytest.approx([low, high], abs=0.005)


def test_a_share_of_clusters_that_are_each_of_one_kind_is_over_as_many_values() -> None:
    """Wilson's for 10 - 1 values, with Student's t of 9 degrees of freedom."""
    labels = [str(row // 3) for row in range(30)]
    summary = summarise_share(Column.of([1.0] * 12 + [0.0] * 18, clusters=labels))
    t, n, p = float(stdtrit(9, 0.975)), 9, 0.4
    for end in ends(summary):
        # the ends solve |end - p| = t * sqrt(end * (1 - end) / n)
        assert abs(end - p) == pytest.approx(t * math.sqrt(end * (1 - end) / n))


def test_equal_values_between_the_ends_allow_for_one_at_each_end() -> None:
    summary = summarise_share(Column.of([0.5] * 50))
    z = 1.959964
    size = 50 * 0.25 / (2 * 0.25 / 52)  # so many zeros and ones have that error
    assert summary.stderr == 0.0
    assert summary.high == pytest.approx(0.5 + z / 2 / math.sqrt(size + z**2))


def test_equal_ratings_at_the_end_of_the_scale_have_an_interval() -> None:
    best = summarise_share(Column.of([10.0] * 80), 1, 10)
    assert best.low == pytest.approx(1 + 9 * 80 / (80 + 1.959964**2))
    assert (best.mean, best.high) == (10.0, 10.0)
    # one rating a little lower makes it neither much wider nor much narrower
    nearly = summarise_share(Column.of([10.0] * 79 + [9.0]), 1, 10)
    assert best.low is not None and nearly.low is not None
    assert 9.5 < nearly.low < 9.7


def test_a_cluster_with_most_rows_leaves_little_certainty() -> None:
    """Of 20 clusters one has 60 % of the rows: as certain as 2.7 clusters."""
    labels = ["most"] * 30 + [f"{row}" for row in range(20)]
    all_won = summarise_share(Column.of([1.0] * 50, clusters=labels))
    effective = 1 / (0.6**2 + 20 * 0.02**2)
    assert all_won.low == pytest.approx(effective / (effective + 1.959964**2))


@pytest.mark.parametrize(
    "ratings",
    [
        {2: 0.02, 10: 0.98},
        {2: 0.02, 9: 0.2, 10: 0.78},
        {2: 0.05, 8: 0.1, 9: 0.3, 10: 0.55},
        {1: 0.98, 9: 0.02},
        {5: 0.1, 6: 0.2, 7: 0.4, 8: 0.3},
    ],
)
def test_intervals_of_ratings_near_an_end_hold_the_true_mean(ratings: dict[int, float]) -> None:
    random = np.random.default_rng(21)
    truth = sum(rating * rate for rating, rate in ratings.items())
    draws = random.choice([*ratings], p=[*ratings.values()], size=(800, 80)).astype(float)
    held = [_holds(summarise_share(Column.of(row), 1, 10), truth) for row in draws.tolist()]
    assert np.mean(held) > 0.93


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_trials_that_all_end_alike_neither_narrow_nor_widen_a_share(value: float) -> None:
    once = summarise_share(Column.of([value] * 6))
    thrice = summarise_share(Column.of([value] * 18, clusters=list("abcdef") * 3))
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high))


@pytest.mark.parametrize("clusters", [6, 12, 30])
@pytest.mark.parametrize("alike", [0.2, 0.95])
@pytest.mark.parametrize("share", [0.03, 0.3, 0.5])
def test_intervals_over_trials_hold_the_true_share_as_often_as_over_one(
    clusters: int, alike: float, share: float
) -> None:
    """Each sample wins at a rate of its own in three trials; `alike` is their correlation."""
    random = np.random.default_rng(clusters)
    labels = [str(row // 3) for row in range(3 * clusters)]
    held, held_of_one = 0, 0
    draws = 400
    for _ in range(draws):
        rates = random.beta(share * (1 / alike - 1), (1 - share) * (1 / alike - 1), clusters)
        wins = (random.random((clusters, 3)) < rates[:, None]).astype(float)
        held += _holds(summarise_share(Column.of(wins.ravel().tolist(), clusters=labels)), share)
        held_of_one += _holds(summarise_share(Column.of(wins[:, 0].tolist())), share)
    # two standard errors of the simulation
    assert held / draws > min(0.95, held_of_one / draws) - 0.022


def _holds(summary: Summary, truth: float) -> bool:
    return summary.low is not None and summary.low <= truth <= (summary.high or 0.0)


def test_means_of_two_verdicts_are_worth_more_than_one_each() -> None:
    """A sample that was judged in both orders; the interval is near Student's t."""
    values = [0.0] * 36 + [0.5] * 48 + [1.0] * 16
    judged = summarise_share(Column.of(values))
    t, p = float(stdtrit(99, 0.975)), 0.4
    assert judged.stderr == pytest.approx(math.sqrt(0.12 / 99))
    assert judged.low is not None and judged.high is not None
    centre = (99 * p + 1) / 101
    variance = (99 * (0.12 + p**2) + 1) / 101 - centre**2
    size = 99 * centre * (1 - centre) / variance
    assert 190 < size < 198
    for end in (judged.low, judged.high):
        assert abs(end - p) == pytest.approx(t * math.sqrt(end * (1 - end) / size))


def test_a_share_of_wins_is_over_no_more_than_the_number_of_rows() -> None:
    # a win and a loss in nearly every cluster: the error is that of many more rows
    wins = [0.0, 1.0] * 24 + [1.0, 1.0]
    paired = summarise_share(Column.of(wins, clusters=[str(row // 2) for row in range(50)]))
    t, p = float(stdtrit(24, 0.975)), 26 / 50
    assert paired.high is not None
    error = math.sqrt(paired.high * (1 - paired.high) / 50)
    # slightly wider: clusters without an event say little of how alike their rows are
    assert paired.high - p == pytest.approx(t * error, rel=0.01)
    assert paired.high - p >= t * error


def test_a_share_refuses_values_beyond_one() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        summarise_share(Column.of([0.2, 7.0]))


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_rare_events_in_clusters_are_covered(share: float) -> None:
    """In 3 of 10 clusters all rows are alike, and few runs have an event in one of these."""
    held, runs, labels = 0, 600, [str(row // 6) for row in range(180)]
    for seed in range(runs):
        random = np.random.default_rng([17, seed])
        alike = (random.random(30) < 0.3)[:, None]
        numbers = np.where(alike, random.random((30, 1)), random.random((30, 6)))
        summary = summarise_share(
            Column.of((numbers < share).ravel().astype(float).tolist(), clusters=labels)
        )
        held += covers(summary, share)
    assert 0.93 <= held / runs <= 0.99
