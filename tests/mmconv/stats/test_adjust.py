"""A mean at equal length: what remains of a change if a covariate does not change."""

import numpy as np

from mmconv.stats import Column, adjust


def share_that_holds(runs: int) -> tuple[float, float]:
    """How often the intervals hold the mean at 0 and the slope that were planted."""
    held = np.zeros(2)
    for seed in range(runs):
        random = np.random.default_rng([8, seed])
        lengths = random.normal(0.7, 0.5, 80)
        clusters = [str(row // 2) for row in range(80)]
        noise = random.normal(0, 1, 80) + random.normal(0, 0.5, 40)[np.arange(80) // 2]
        change = Column.of((0.4 + 0.6 * lengths + noise).tolist(), clusters=clusters)
        found = adjust(change, Column.of(lengths.tolist(), clusters=clusters))
        assert found is not None
        for place, truth in enumerate((0.4, 0.6)):
            low, high = found[place + 1].low, found[place + 1].high
            assert low is not None and high is not None
            held[place] += low <= truth <= high
    return float(held[0] / runs), float(held[1] / runs)


def test_the_change_at_equal_length_and_the_slope_are_found() -> None:
    at_zero, slope = share_that_holds(400)
    assert 0.92 <= at_zero <= 0.975
    assert 0.92 <= slope <= 0.975


def test_only_samples_with_both_numbers_count_and_a_constant_length_says_nothing() -> None:
    change = Column.of([1.0, 2.0, 3.0], samples=["a", "b", "c"])
    lengths = Column.of(
        [1.0, None, 2.0], samples=["c", "b", "a"], reasons=[None, "not reported", None]
    )
    found = adjust(change, lengths)
    assert found is not None
    mean, at_zero, slope = found
    assert (mean.n, mean.mean, slope.mean, at_zero.mean) == (2, 2.0, -2.0, 5.0)
    assert adjust(change, Column.of([1.0, 1.0, 1.0], samples=["a", "b", "c"])) is None
