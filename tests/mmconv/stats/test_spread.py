"""Means over several columns: closed forms where they share all clusters or none, and coverage."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from scipy.special import stdtrit

from mmconv.stats import Column, Quantity, contrast, pair, summarise
from mmconv.stats.spread import find_spread
from tests.mmconv.stats.intervals import covers
from tests.mmconv.stats.sums import combine

FB_BENCH = (64, 53, 47, 24, 45, 27, 12, 9)
"""The samples of its tasks of error correction."""

DRAWS = 3000


def column(numbers: Sequence[float], mark: str = "") -> Column:
    """Every row a sample of its own; columns of one mark share their samples."""
    return Column.of(numbers, samples=[f"{mark}{row}" for row in range(len(numbers))])


def equal_weights(columns: Mapping[str, Column]) -> dict[str, float]:
    return dict.fromkeys(columns, 1 / len(columns))


def coverage(
    truth: float,
    draw: Callable[[np.random.Generator], dict[str, Column]],
    weights: Mapping[str, float] | None = None,
) -> float:
    """How often the interval of the weighted, or plain, mean of the columns' means holds it."""
    random = np.random.default_rng(15)
    held = 0
    for _ in range(DRAWS):
        columns = draw(random)
        found = combine(columns, weights or equal_weights(columns))
        held += covers(found, truth)
    return held / DRAWS


def test_columns_without_a_common_cluster_have_the_error_of_a_stratified_mean() -> None:
    numbers = {"a": [1.0, 2.0, 4.0, 7.0, 11.0], "b": [0.0, 5.0, 5.0, 8.0, 2.0, 4.0, 4.0]}
    columns = {name: column(each, name) for name, each in numbers.items()}
    found = combine(columns, {"a": 0.25, "b": 0.75})
    parts = [
        (weight**2 * float(np.var(numbers[name], ddof=1)) / len(numbers[name]), len(numbers[name]))
        for name, weight in (("a", 0.25), ("b", 0.75))
    ]
    variance = sum(part for part, _ in parts)
    # Welch's and Satterthwaite's degrees of freedom
    freedom = variance**2 / sum(part**2 / (n - 1) for part, n in parts)
    assert found.stderr == pytest.approx(math.sqrt(variance))
    half = float(stdtrit(freedom, 0.975)) * math.sqrt(variance)
    assert found.mean is not None
    assert (found.low, found.high) == pytest.approx((found.mean - half, found.mean + half))


def test_columns_over_the_same_clusters_have_one_degree_less_than_clusters() -> None:
    random = np.random.default_rng(4)
    columns = {name: column(random.normal(size=9).tolist()) for name in "abc"}
    found = find_spread([(each, 1 / 3) for each in columns.values()])
    assert found is not None
    whole = summarise(column(np.mean([each.numbers for each in columns.values()], 0).tolist()))
    assert found.freedom == pytest.approx(8)
    assert math.sqrt(found.variance) == pytest.approx(whole.stderr)


def test_columns_that_a_third_one_links_are_one_group_as_sure_as_its_smallest() -> None:
    left = Column.of([1.0, 2.0, 4.0, 3.0], samples=list("abcd"))
    right = Column.of([3.0, 9.0, 1.0], samples=list("efg"))
    link = Column.of([2.0, 5.0, 1.0, 1.0, 7.0], samples=list("cdefh"))
    found = find_spread([(left, 0.2), (right, 0.2), (link, 0.6)])
    assert found is not None
    assert found.freedom == pytest.approx(2)
    apart = find_spread([(left, 0.5), (right, 0.5)])
    assert apart is not None
    assert 2 < apart.freedom < 5


def test_a_column_of_one_cluster_tells_of_no_error() -> None:
    single, several = column([3.0], "x"), column([1.0, 2.0, 2.0, 4.0, 5.0])
    found = combine({"a": single, "b": several}, {"a": 0.5, "b": 0.5})
    assert (found.mean, found.stderr, found.low) == (2.9, None, None)
    assert find_spread([]) is None


def test_a_p_value_of_a_mean_over_small_tasks_belongs_to_its_interval() -> None:
    """With as many degrees of freedom as samples in all, p = 0.05 fell inside the interval."""
    random = np.random.default_rng(6)
    names = [f"task {number}" for number in range(4)]
    left = {name: column(random.normal(size=5).tolist(), name) for name in names}
    right = {
        name: column((each.numbers + random.normal(size=5)).tolist(), name)
        for name, each in left.items()
    }
    pairs = {name: pair(left[name], right[name]) for name in names}
    plain = combine(pairs, equal_weights(pairs))
    assert plain.mean is not None and plain.high is not None
    # the whole difference is moved until its interval just ends at 0, then a little on
    for beyond in (0.999, 1.001):
        shift = beyond * (plain.high - plain.mean) - plain.mean
        moved = {
            name: column((each.numbers + shift).tolist(), name) for name, each in right.items()
        }
        before, after = (Quantity(name="average", columns=each) for each in (left, moved))
        found = contrast(before, after, ("alpha", "beta"))
        assert found.p is not None and found.summary.low is not None
        assert (found.p < 0.05) == (found.summary.low > 0) == (beyond > 1)


@pytest.mark.parametrize(
    ("sizes", "least"),
    [
        # with one correction for all clusters 92.4, 89.9 and 93.8 % of the intervals held it
        ((5,) * 8, 0.940),
        ((20, 5), 0.917),
        (FB_BENCH, 0.944),
    ],
)
def test_intervals_over_small_tasks_hold_the_true_mean(sizes: Sequence[int], least: float) -> None:
    scores = np.linspace(0, 1, 5)

    def draw(random: np.random.Generator) -> dict[str, Column]:
        return {
            f"task {place}": column(random.choice(scores, size=size).tolist(), f"{place}-")
            for place, size in enumerate(sizes)
        }

    assert least < coverage(0.5, draw) < 0.965


def test_intervals_hold_the_true_mean_where_one_column_lacks_most_samples() -> None:
    """Of 40 conversations 6 have the fourth score: with 39 degrees of freedom 90 % held it."""

    def draw(random: np.random.Generator) -> dict[str, Column]:
        rows = random.normal(size=(1, 40)) * math.sqrt(0.3) + random.normal(size=(4, 40))
        *whole, last = rows.tolist()
        return {str(place): column(each) for place, each in enumerate(whole)} | {
            "last": column(last[:6])
        }

    weights = {"0": 1 / 6, "1": 1 / 6, "2": 1 / 6, "last": 1 / 2}
    assert 0.935 < coverage(0.0, draw, weights) < 0.97
