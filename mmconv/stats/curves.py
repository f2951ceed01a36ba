"""Where a curve over an ordered axis, such as shares over levels of difficulty, falls below a line.

The curve is the closest one that never rises: neighbours that rise are pooled. The interval is
from where the curve of the lower ends of the points' intervals falls below the line to where that
of the upper ends does. This needs no model of the curve. `python -m tests.bench.breaks` measures
how often the interval holds the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class CurvePoint(NamedTuple):
    """A mean of `n` values with its 95 % interval, at a place on the axis."""

    place: float
    mean: float
    low: float
    high: float
    n: int


class Fall(NamedTuple):
    """Where a curve falls below a line, with a 95 % interval.

    A number one less than the first place, or one more than the last, means before or after all
    places.
    """

    place: float
    low: float
    high: float


def find_fall(points: Sequence[CurvePoint], line: float) -> Fall:
    """Where the curve through at least one point, sorted by place, falls below the line."""
    places, means, lows, highs, weights = zip(*points, strict=True)
    return Fall(*(_fall(places, heights, weights, line) for heights in (means, lows, highs)))


def never_rising(heights: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The closest heights, by weighted squares, that never rise."""
    pools: list[tuple[float, float, int]] = []
    for height, weight in zip(heights, weights, strict=True):
        pool = (height, weight, 1)
        while pools and pools[-1][0] < pool[0]:
            before = pools.pop()
            total = before[1] + pool[1]
            mean = (before[0] * before[1] + pool[0] * pool[1]) / total
            pool = (mean, total, before[2] + pool[2])
        pools.append(pool)
    return [height for height, _, count in pools for _ in range(count)]


def _fall(
    places: Sequence[float], heights: Sequence[float], weights: Sequence[float], line: float
) -> float:
    """Where straight lines between the points of the curve first fall below the line."""
    curve = never_rising(heights, weights)
    above = sum(height >= line for height in curve)
    if above == 0:
        return places[0] - 1
    if above == len(places):
        return places[-1] + 1
    start, end = curve[above - 1], curve[above]
    part = (start - line) / (start - end)
    return places[above - 1] + part * (places[above] - places[above - 1])
