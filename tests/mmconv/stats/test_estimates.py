"""The estimates against closed forms and simulations."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.special import stdtrit

from mmconv.core.types import Summary
from mmconv.stats import (
    Column,
    as_cell,
    average,
    bounded,
    paired_difference,
    summarise,
    summarise_share,
    summarise_share_change,
)
from tests.mmconv.stats.sums import combine


def test_independent_rows_have_the_textbook_error_and_t_interval() -> None:
    values = [1.0, 2.0, 4.0, 7.0, 11.0]
    summary = summarise(Column.of(values))
    error = float(np.std(values, ddof=1)) / math.sqrt(5)
    assert summary.mean == 5.0
    assert summary.stderr == pytest.approx(error)
    assert summary.low == pytest.approx(5.0 - stdtrit(4, 0.975) * error)
    assert summary.high == pytest.approx(5.0 + stdtrit(4, 0.975) * error)
    assert (summary.n, summary.missing) == (5, {})


def test_an_interval_ends_where_the_scale_does_and_holds_its_estimate() -> None:
    values = [1.0, 2.0, 4.0, 7.0, 11.0]
    summary = summarise(Column.of(values))
    cut = bounded(summary, 1.0, 8.0)
    assert (cut.low, cut.high) == (1.0, 8.0)
    # values off the scale: the end that the mean is beyond says nothing of it
    assert bounded(summary, 1.0, 3.0).high == summary.high
    assert bounded(summary, 6.0, 8.0).low == summary.low


def test_repeating_every_row_within_its_cluster_adds_no_certainty() -> None:
    values = [1.0, 2.0, 4.0, 7.0]
    once = summarise(Column.of(values, clusters=list("abcd")))
    thrice = summarise(Column.of(values * 3, clusters=list("abcd") * 3))
    assert thrice.stderr == pytest.approx(once.stderr)
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high))
    assert thrice.n == 12


def test_clusters_of_unequal_size_follow_the_formula() -> None:
    """The jackknife: the means without a cluster, 5, 1.25 and 2 / 3, against the mean of all."""
    summary = summarise(Column.of([0.0, 0.0, 0.0, 5.0, 2.0], clusters=list("aaabb")))
    assert summary.stderr == pytest.approx(math.sqrt((2.1**2 + 1.4**2) / 2))
    summary = summarise(Column.of([0.0, 1.0, 5.0, 5.0, 2.0], clusters=list("aabbc")))
    without = [12 / 3, 3 / 3, 11 / 4]
    assert summary.stderr == pytest.approx(
        math.sqrt(2 / 3 * sum((mean - 13 / 5) ** 2 for mean in without))
    )


@pytest.mark.parametrize(
    ("values", "clusters", "mean"),
    [([1.0, 3.0], ["a", "a"], 2.0), ([5.0], ["a"], 5.0), ([], [], None)],
)
def test_fewer_than_two_clusters_leave_the_error_undefined(
    values: list[float], clusters: list[str], mean: float | None
) -> None:
    for estimate in (summarise, summarise_share):
        column = Column.of([value / 10 for value in values], clusters=clusters)
        summary = estimate(column)
        assert summary.mean == (None if mean is None else pytest.approx(mean / 10))
        assert (summary.stderr, summary.low, summary.high) == (None, None, None)
        assert summary.n == len(values)


@pytest.mark.parametrize("groups", [2, 3, 4, 5])
def test_fewer_than_five_clusters_have_no_interval(groups: int) -> None:
    labels = [str(row % groups) for row in range(20)]
    column = Column.of([0.0, 1.0, 0.5, 1.0, 0.0] * 4, clusters=labels)
    found = [
        summarise(column),
        summarise_share(column),
        summarise_share_change(column),
        combine({"a": column, "b": Column.of([0.0, 1.0] * 5)}, {"a": 0.5, "b": 0.5}),
    ]
    for summary in found:
        assert summary.stderr is not None
        assert (summary.low is None, summary.high is None) == (groups < 5, groups < 5)


@pytest.mark.parametrize("count", [3, 6, 7, 10, 49, 77, 101])
@pytest.mark.parametrize("value", [0.05, 0.1, 1 / 3, 0.7, 1.1 / 3])
def test_equal_numbers_have_no_spread_however_a_sum_is_rounded(value: float, count: int) -> None:
    column = Column.of([value] * count)
    plain, share = summarise(column), summarise_share(column)
    assert plain.mean == pytest.approx(value, rel=1e-15)
    assert (plain.stderr, plain.low, plain.high) == (0.0, None, None)
    assert share.stderr == 0.0
    assert (share.low is None) == (count < 5)
    if share.low is not None and share.high is not None:
        assert 0 < share.low < value < share.high < 1


def test_clusters_that_balance_have_no_spread_either() -> None:
    labels = [str(row // 2) for row in range(20)]
    balanced = Column.of([0.1, 0.7] * 10, clusters=labels)
    assert summarise(balanced).stderr == 0.0
    opposed = Column.of([0.1, 0.3, 0.6, 0.7, 0.9]), Column.of([0.9, 0.7, 0.4, 0.3, 0.1])
    weights = {"a": 0.5, "b": 0.5}
    found = combine(dict(zip("ab", opposed, strict=True)), weights)
    assert (found.stderr, found.low) == (0.0, None)


def test_a_small_spread_is_a_spread() -> None:
    summary = summarise(Column.of([7.0] * 99_999 + [7.0 + 1e-6]))
    assert summary.stderr == pytest.approx(1e-6 / 1e5)
    assert summary.low is not None


def test_missing_rows_are_counted_by_reason_and_change_nothing_else() -> None:
    summary = summarise(
        Column.of(
            [1.0, None, 3.0, None, None], reasons=[None, "timeout", None, "unparsed", "timeout"]
        )
    )
    assert (summary.mean, summary.n) == (2.0, 2)
    assert summary.missing == {"timeout": 2, "unparsed": 1}


def test_paired_difference_is_that_of_the_pairs_whatever_their_order() -> None:
    left = Column.of(
        [1.0, 2.0, None, 4.0, 9.0],
        samples=["a", "b", "c", "d", "only-left"],
        reasons=[None, None, "timeout", None, None],
    )
    right = Column.of(
        [5.0, 4.0, None, 1.5, 8.0],
        samples=["d", "b", "a", "a2", "c"],
        reasons=[None, None, "unparsed", None, None],
    )
    summary = paired_difference(left, right)
    pairs = summarise(Column.of([2.0, 1.0]))
    assert (summary.mean, summary.stderr, summary.n) == (1.5, pairs.stderr, 2)
    assert summary.missing == {
        "unpaired: timeout": 1,
        "unpaired: unparsed": 1,
        "unpaired: only on the left": 1,
        "unpaired: only on the right": 1,
    }


def test_pairing_refuses_samples_with_several_rows() -> None:
    twice = Column.of([1.0, 2.0], samples=["a", "a"])
    with pytest.raises(ValueError, match="per_sample"):
        paired_difference(twice, twice)


def test_combining_complete_columns_equals_the_mean_of_row_sums() -> None:
    rng = np.random.default_rng(5)
    first, second, third = rng.normal(size=(3, 40)).tolist()
    columns = {"S1": Column.of(first), "S2": Column.of(second), "S3": Column.of(third)}
    combined = combine(columns, dict.fromkeys(columns, 1 / 3))
    rows = summarise(Column.of(np.mean([first, second, third], axis=0).tolist()))
    assert combined.mean == pytest.approx(rows.mean)
    assert combined.stderr == pytest.approx(rows.stderr)
    assert (combined.low, combined.high) == pytest.approx((rows.low, rows.high))
    assert combined.n == 40


def test_a_weight_of_minus_one_makes_a_paired_difference() -> None:
    left, right = Column.of([1.0, 2.0, 4.0]), Column.of([2.0, 2.0, 7.0])
    combined = combine({"l": left, "r": right}, {"l": -1.0, "r": 1.0})
    paired = paired_difference(left, right)
    assert combined.mean == pytest.approx(paired.mean)
    assert combined.stderr == pytest.approx(paired.stderr)


def test_combining_keeps_each_columns_own_gaps() -> None:
    gaps = Column.of([1.0, None, 3.0], reasons=[None, "unparsed", None])
    whole = Column.of([1.0, 1.0, 4.0])
    combined = combine({"a": gaps, "b": whole}, {"a": 0.5, "b": 0.5})
    mean = average([gaps, whole], [summarise_share(gaps, 1, 4), summarise_share(whole, 1, 4)])
    assert (mean.mean, mean.n, mean.missing) == (combined.mean, combined.n, combined.missing)
    # 2 of 3 samples have both, though each mean is over all that its column has
    assert (combined.mean, combined.n, combined.missing) == (2.0, 2, {"unparsed": 1})
    # influences by sample: those in the column of 2 clusters, and those in the column of 3
    of_two, of_three = math.sqrt(2) * 0.5 / 2, math.sqrt(3 / 2) * 0.5 / 3
    squares = (-of_two - of_three) ** 2 + of_three**2 + (of_two + 2 * of_three) ** 2
    assert combined.stderr == pytest.approx(math.sqrt(squares))
    empty = combine({"a": Column.of([]), "b": whole}, {"a": 0.5, "b": 0.5})
    assert (empty.mean, empty.stderr, empty.n) == (None, None, 3)


def test_as_cell_scales_every_number_and_keeps_what_is_missing() -> None:
    summary = Summary(mean=0.5, stderr=0.1, low=0.3, high=0.7, n=9, missing={"unparsed": 1})
    cell = as_cell(summary, 100)
    assert (cell.value, cell.low, cell.high, cell.n) == pytest.approx((50.0, 30.0, 70.0, 9))
    assert cell.missing == {"unparsed": 1}
    assert as_cell(summarise(Column.of([]))).value is None


def _coverage(truth: float, simulate: Callable[[np.random.Generator], Summary]) -> float:
    rng = np.random.default_rng(20240)
    summaries = [simulate(rng) for _ in range(2000)]
    return float(
        np.mean([s.low is not None and s.low <= truth <= (s.high or 0) for s in summaries])
    )


CLUSTERS = [str(cluster) for cluster in range(40) for _ in range(3)]
SAMPLES = [str(row) for row in range(120)]


def _clustered(rng: np.random.Generator, shared: float) -> Sequence[float]:
    numbers: list[float] = (
        np.repeat(rng.normal(size=40), 3) * shared + rng.normal(size=120)
    ).tolist()
    return numbers


def test_intervals_of_means_cover_the_truth() -> None:
    coverage = _coverage(
        3.0,
        lambda rng: summarise(Column.of([3 + x for x in _clustered(rng, 1.0)], clusters=CLUSTERS)),
    )
    assert 0.92 < coverage < 0.98


@pytest.mark.parametrize("share", [0.05, 0.4])
def test_intervals_of_shares_cover_the_truth(share: float) -> None:
    def simulate(rng: np.random.Generator) -> Summary:
        rates = np.repeat(rng.beta(share * 6, (1 - share) * 6, size=40), 3)
        wins = (rng.random(120) < rates).astype(float).tolist()
        return summarise_share(Column.of(wins, clusters=CLUSTERS))

    # of rare events rather more: few of them show how alike the rows of a cluster are
    assert 0.92 < _coverage(share, simulate) < 0.99


def test_intervals_of_paired_differences_cover_the_truth() -> None:
    def simulate(rng: np.random.Generator) -> Summary:
        base = _clustered(rng, 2.0)
        gains = _clustered(rng, 0.7)
        after = [x + gain + 0.5 for x, gain in zip(base, gains, strict=True)]
        return paired_difference(
            Column.of(base, samples=SAMPLES, clusters=CLUSTERS),
            Column.of(after, samples=SAMPLES, clusters=CLUSTERS),
        )

    assert 0.92 < _coverage(0.5, simulate) < 0.98
