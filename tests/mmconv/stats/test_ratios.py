"""Ratios of two sums: Fieller's interval against its definition, at its edges, and its coverage."""

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import stdtrit

from mmconv.core.types import Summary
from mmconv.stats import Column, summarise_ratio

MENDED = [(float(first - second), float(first)) for first, second in product((0, 1), repeat=2)]
"""All pairs of (failures that go away, failures) that a sample can have."""


def ratio(pairs: NDArray[np.float64], size: int = 1) -> Summary:
    """Of pairs of shape (rows, 2); so many rows that follow each other are a cluster."""
    labels = [str(row // size) for row in range(len(pairs))]
    over, under = (Column.of(pairs[:, part].tolist(), clusters=labels) for part in (0, 1))
    return summarise_ratio(over, under, MENDED)


def drawn(
    random: np.random.Generator, clusters: int, size: int, fails: float, still: float
) -> NDArray[np.float64]:
    """Failures at one rate, that stay at another; half of the clusters' rows draw together."""
    together = np.repeat(random.random(clusters) < 0.5, size)
    first, second = (
        np.where(together, np.repeat(random.random(clusters), size), random.random(clusters * size))
        for _ in range(2)
    )
    failed = first < fails
    left = second < np.where(failed, still, still / 5)
    return np.stack([failed.astype(float) - left, failed], axis=1)


def test_ends_are_where_the_test_of_the_difference_is_undecided() -> None:
    """Of independent rows, by the textbook: the mean of over - r * under with two rows added."""
    pairs = np.array([(1, 1)] * 20 + [(0, 1)] * 10 + [(-1, 0)] * 5 + [(0, 0)] * 40, dtype=float)
    size, t = len(pairs) - 1, float(stdtrit(len(pairs) - 1, 0.975))

    def undecided(share: float) -> float:
        own, added = (each @ [1.0, -share] for each in (pairs, np.array(MENDED)))
        mean = (size * own.mean() + 2 * added.mean()) / (size + 2)
        square = (size * (own**2).mean() + 2 * (added**2).mean()) / (size + 2)
        return float(mean**2 - t**2 * (square - mean**2) / (size + 2))

    found = ratio(pairs)
    assert found.mean == pytest.approx(0.5)
    assert found.low == pytest.approx(brentq(undecided, -3.0, 0.45))
    assert found.high == pytest.approx(brentq(undecided, 0.45, 3.0))


def test_the_error_is_that_of_the_first_order() -> None:
    pairs = np.array([(1, 1)] * 30 + [(0, 1)] * 20 + [(0, 0)] * 50, dtype=float)
    off = pairs @ [1.0, -0.6]
    assert ratio(pairs).stderr == pytest.approx(off.std(ddof=1) / math.sqrt(100) / 0.5)


@pytest.mark.parametrize(
    ("clusters", "size", "fails", "still", "most"),
    [
        (60, 1, 0.5, 0.3, 0.98),
        (50, 2, 0.4, 0.8, 0.97),
        (150, 1, 0.15, 0.4, 0.98),
        (40, 1, 0.8, 0.5, 0.98),
        # where hardly a sample differs from the others, what is added makes the interval wide
        (30, 3, 0.5, 0.05, 1.0),
        (25, 2, 0.8, 1.0, 1.0),
    ],
)
def test_intervals_cover_the_truth(
    clusters: int, size: int, fails: float, still: float, most: float
) -> None:
    random = np.random.default_rng([clusters, size])
    truth = 1 - (fails * still + (1 - fails) * still / 5) / fails
    found = [ratio(drawn(random, clusters, size, fails, still), size) for _ in range(1000)]
    intervals = [(each.low, each.high) for each in found if each.low is not None]
    covered = [low <= truth <= (high or 0.0) for low, high in intervals]
    assert len(intervals) > 900
    assert 0.93 < float(np.mean(covered)) <= most


def test_repeating_rows_within_their_clusters_adds_no_certainty() -> None:
    pairs = drawn(np.random.default_rng(4), 40, 1, 0.5, 0.3)
    once, thrice = ratio(pairs), ratio(np.repeat(pairs, 3, axis=0), 3)
    assert thrice.stderr == pytest.approx(once.stderr)
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high))


def test_samples_that_are_all_alike_are_not_certain() -> None:
    for pair, share in (((1, 1), 1.0), ((0, 1), 0.0)):
        widths = []
        for count in (12, 48):
            found = ratio(np.array([pair] * count, dtype=float))
            assert (found.mean, found.stderr) == (share, 0.0)
            assert found.low is not None and found.high is not None
            assert found.low <= share <= found.high
            widths.append(found.high - found.low)
        assert 1 > widths[0] > widths[1] > 0


@pytest.mark.parametrize("clusters", [1, 2, 4])
def test_few_clusters_have_no_interval(clusters: int) -> None:
    pairs = np.array([(1, 1), (0, 1), (1, 1), (0, 0)] * 10, dtype=float)
    found = ratio(pairs, 40 // clusters)
    assert found.mean == pytest.approx(2 / 3)
    assert (found.low, found.high) == (None, None)


def test_a_denominator_that_may_be_nothing_has_no_interval() -> None:
    for failures, message in ((2, False), (20, True)):
        pairs = np.array([(1, 1), (0, 1)] * failures + [(0, 0)] * 100, dtype=float)
        assert (ratio(pairs).low is not None) == message


def test_no_interval_runs_away() -> None:
    """Whatever comes: an end is at most some times the ratio's own scale off."""
    random = np.random.default_rng(8)
    ends = []
    for fails in (0.05, 0.1, 0.3, 0.6):
        for clusters in (5, 10, 40):
            for _ in range(100):
                found = ratio(drawn(random, clusters, 2, fails, 0.5), 2)
                ends += [abs(end) for end in (found.low, found.high) if end is not None]
    assert len(ends) > 300
    assert max(ends) < 10


def test_without_a_denominator_there_is_nothing() -> None:
    none = summarise_ratio(
        Column.of([0.0, None], reasons=[None, "unparsed"]),
        Column.of([0.0, None], reasons=[None, "unparsed"]),
        MENDED,
    )
    assert (none.mean, none.stderr, none.low, none.n) == (None, None, None, 1)
    assert none.missing == {"unparsed": 1}
