"""The ends of intervals, for tests of numbers that must have one."""

from mmconv.core.types import Summary


def ends(summary: Summary) -> tuple[float, float]:
    assert summary.low is not None and summary.high is not None
    return summary.low, summary.high


def covers(summary: Summary, truth: float) -> bool:
    low, high = ends(summary)
    return low <= truth <= high
