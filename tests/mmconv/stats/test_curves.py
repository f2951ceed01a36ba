"""Where a curve falls below a line, and the interval of the place."""

import pytest

from mmconv.stats.curves import CurvePoint, find_fall, never_rising


def curve(*means: float, half: float = 0.1, n: int = 20) -> list[CurvePoint]:
    return [CurvePoint(at, mean, mean - half, mean + half, n) for at, mean in enumerate(means, 1)]


def test_a_curve_falls_between_two_places() -> None:
    fall = find_fall(curve(0.9, 0.7, 0.3, 0.1), 0.5)
    assert fall.place == pytest.approx(2.5)
    # the lower ends are 0.6 and 0.2, the upper ones 0.8 and 0.4
    assert [fall.low, fall.high] == pytest.approx([2.25, 2.75])


def test_a_curve_may_fall_before_or_after_all_places() -> None:
    assert find_fall(curve(0.3, 0.2, 0.1), 0.5) == (0, 0, 0)
    assert find_fall(curve(0.9, 0.8, 0.7), 0.5) == (4, 4, 4)
    unsure = find_fall(curve(0.55, 0.45, 0.2, half=0.2), 0.5)
    assert [unsure.low, unsure.high] == pytest.approx([0, 2.6])


def test_neighbours_that_rise_are_pooled_by_weight() -> None:
    assert never_rising([1.0, 0.2, 0.5, 0.1], [1, 2, 1, 1]) == pytest.approx([1.0, 0.3, 0.3, 0.1])
    assert never_rising([0.1, 0.2, 0.6], [1, 1, 1]) == pytest.approx([0.3, 0.3, 0.3])


def test_a_dip_does_not_end_a_curve() -> None:
    fall = find_fall(curve(0.9, 0.45, 0.9, 0.8, 0.2), 0.5)
    assert 4 < fall.place < 5
