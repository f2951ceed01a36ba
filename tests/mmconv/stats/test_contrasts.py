"""Paired changes of shares, and differences between runs: formulas, coverage, gaps, corrections."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from mmconv.core.types import Summary
from mmconv.stats import (
    Column,
    Quantity,
    average,
    bounded,
    contrast,
    holm,
    pair,
    paired_difference,
    summarise,
    summarise_share,
    summarise_share_change,
)
from tests.mmconv.stats.intervals import ends
from tests.mmconv.stats.sums import combine

NAMES = ("alpha", "beta")


def test_unclustered_changes_have_agresti_and_mins_interval() -> None:
    # 20 gained, 8 lost, 72 unchanged
    changes = [1.0] * 20 + [-1.0] * 8 + [0.0] * 72
    summary = summarise_share_change(Column.of(changes))
    # the effective size of independent rows is n - 1, as for shares
    n, gained, lost = 99, 0.20 * 99 + 0.5, 0.08 * 99 + 0.5
    centre = (gained - lost) / (n + 2)
    error = math.sqrt(gained + lost - (gained - lost) ** 2 / (n + 2)) / (n + 2)
    t = float(stdtrit(99, 0.975))
    assert summary.mean == pytest.approx(0.12)
    assert (summary.low, summary.high) == pytest.approx((centre - t * error, centre + t * error))


def test_no_change_at_all_has_an_interval_and_it_narrows_with_clusters() -> None:
    for groups in (10, 40):
        column = Column.of([0.0] * 80, clusters=[str(row % groups) for row in range(80)])
        summary = summarise_share_change(column)
        half = float(stdtrit(groups - 1, 0.975)) / (groups + 2)
        assert (summary.mean, summary.stderr) == (0.0, 0.0)
        assert (summary.low, summary.high) == pytest.approx((-half, half))


def test_a_change_of_everything_stays_on_the_scale_and_holds_the_mean() -> None:
    lost, won = Column.of([0.0] * 12), Column.of([1.0] * 12)
    summary = bounded(summarise_share_change(pair(lost, won)), -1.0, 1.0)
    assert (summary.mean, summary.high) == (1.0, 1.0)
    assert summary.low is not None
    assert 0.4 < summary.low < 1.0


def test_more_than_a_share_can_change_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 to 1"):
        summarise_share_change(Column.of([0.5, -3.0]))


def test_clusters_that_cancel_out_are_worth_no_more_than_their_rows() -> None:
    """One gains where another loses in the same picture: their sums hardly vary."""
    changes = [1.0, -1.0] * 20 + [1.0, 0.0]
    pictures = [f"picture {row // 2}" for row in range(len(changes))]
    rows = summarise_share_change(Column.of(changes))
    found = summarise_share_change(Column.of(changes, clusters=pictures))
    assert (found.stderr or 1) < (rows.stderr or 0) / 3
    (low, high), (lower, higher) = ends(found), ends(rows)
    assert high - low > 0.95 * (higher - lower)


@pytest.mark.parametrize(
    ("clusters", "size", "shares", "plain"),
    [
        # (before, after), and what the plain interval covers at most
        (10, 1, (0.90, 0.98), 0.75),
        (20, 1, (0.90, 0.98), 0.90),
        (20, 1, (0.50, 0.70), 0.97),
        (40, 1, (0.80, 0.90), 0.97),
        (25, 2, (0.90, 0.98), 0.95),
        (30, 3, (0.50, 0.70), 0.97),
    ],
)
def test_intervals_cover_the_true_change(
    clusters: int, size: int, shares: tuple[float, float], plain: float
) -> None:
    """Simulated with correlated pairs and, in clusters, changes that go together."""
    random = np.random.default_rng([clusters, size])
    labels = [str(row // size) for row in range(clusters * size)]
    covered, covered_plainly = 0, 0
    draws = 1000
    for _ in range(draws):
        before, after = _draw(random, clusters, size, shares)
        left, right = (Column.of(each, clusters=labels) for each in (before, after))
        truth = shares[1] - shares[0]
        covered += _covers(summarise_share_change(pair(left, right)), truth)
        covered_plainly += _covers(paired_difference(left, right), truth)
    # three standard errors of the simulation below 95 %; 0.92 is the worst of a wider search
    assert covered / draws > 0.915
    assert covered_plainly / draws < plain


def test_a_contrast_of_means_is_the_paired_difference() -> None:
    left = Column.of([1.0, 2.0, 3.0, 5.0, 4.0, None, 4.0], reasons=[*[None] * 5, "unparsed", None])
    right = Column.of([2.0, 2.5, 3.0, 4.0, 9.0, 3.0, None], reasons=[*[None] * 6, "failed: server"])
    found = contrast(alone("S1", left), alone("S1", right), NAMES)
    plain = paired_difference(left, right)
    assert plain.low is not None
    assert (found.summary.mean, found.summary.low) == (plain.mean, plain.low)
    assert found.summary.missing == {
        "unpaired: alpha: unparsed": 1,
        "unpaired: beta: failed: server": 1,
    }


def test_a_p_value_is_below_five_percent_exactly_where_zero_is_outside() -> None:
    random = np.random.default_rng(2)
    for shift in (0.2, 0.5, 0.6, 0.7, 1.5):
        left = Column.of(random.normal(size=20).tolist())
        right = Column.of((left.numbers + random.normal(shift, 1.5, size=20)).tolist())
        found = contrast(alone("x", left), alone("x", right), NAMES)
        assert found.p is not None
        low, high = ends(found.summary)
        assert (found.p < 0.05) == (low > 0 or high < 0)
        error = found.summary.stderr
        assert error is not None
        assert found.summary.mean is not None
        # twice the tail of Student's t
        assert stdtrit(19, found.p / 2) == pytest.approx(-abs(found.summary.mean) / error)


def test_means_of_means_are_subtracted_column_by_column() -> None:
    random = np.random.default_rng(3)
    columns = [
        {name: Column.of(random.normal(size=15).tolist()) for name in ("S1", "S2")}
        for _ in range(2)
    ]
    left, right = (Quantity(name="R", columns=each) for each in columns)
    found = contrast(left, right, NAMES).summary
    signed = {
        **{f"-{name}": each for name, each in columns[0].items()},
        **{f"+{name}": each for name, each in columns[1].items()},
    }
    whole = combine(signed, {"-S1": -0.5, "-S2": -0.5, "+S1": 0.5, "+S2": 0.5})
    assert found.mean == pytest.approx(whole.mean)
    assert found.stderr == pytest.approx(whole.stderr)
    assert found.n == 15


def test_a_mean_of_which_a_part_has_no_pair_is_not_subtracted() -> None:
    shared = _column([1.0, 3.0], "ab")
    whole = Quantity(name="average", columns={"GR": shared, "MR": _column([9.0], "c")})
    for right, missing in (
        ({}, {"unpaired: only in alpha": 1}),
        ({"MR": _column([2.0], "d")}, {"unpaired: only in alpha": 1, "unpaired: only in beta": 1}),
    ):
        other = Quantity(name="average", columns={"GR": _column([2.0, 5.0], "ab"), **right})
        found = contrast(whole, other, NAMES)
        assert (found.summary.mean, found.summary.low, found.summary.n, found.p) == (
            None,
            None,
            0,
            None,
        )
        assert found.summary.missing == missing
        assert contrast(other, whole, NAMES).summary.mean is None
    twice = Quantity(
        name="average",
        columns={
            "GR": Column.of([None], samples=["a"], reasons=["unparsed"]),
            "MR": Column.of([None], samples=["a"], reasons=["failed: server"]),
        },
    )
    # a sample counts once, by the first of its reasons
    assert contrast(twice, twice, NAMES).summary.missing == {"unpaired: alpha: unparsed": 1}


def alone(name: str, column: Column) -> Quantity:
    return Quantity(name=name, columns={name: column})


def quantity(shares: Sequence[str] = (), **columns: Column) -> Quantity:
    return Quantity(name="q", columns=columns, shares=shares)


def test_a_mean_of_means_has_no_interval_where_a_part_of_it_has_none() -> None:
    varied, alike = Column.of([0.0, 0.5, 1.0, 0.5, 0.5]), Column.of([0.5] * 5)
    assert combine({"a": varied, "b": alike}, {"a": 0.5, "b": 0.5}).low is not None
    found = average([varied, alike], [summarise(varied), summarise(alike)])
    assert (found.mean, found.stderr, found.low) == (0.5, None, None)
    changed = quantity(a=Column.of([0.5, 0.5, 0.0, 0.5, 0.5]), b=Column.of([0.7] * 5))
    difference = contrast(quantity(a=varied, b=alike), changed, NAMES)
    assert difference.summary.mean == pytest.approx(0.5 * (-1 / 10) + 0.5 * 0.2)
    assert (difference.summary.low, difference.p) == (None, None)


def test_shares_that_do_not_change_widen_a_difference_by_their_own_interval() -> None:
    """Agresti and Min's for no change of 6 shares; the lengths add up as squares."""
    left = {"a": Column.of([0.0, 0.5, 1.0, 1.0, 0.0]), "b": Column.of([1.0] * 6)}
    right = {"a": Column.of([0.5, 0.5, 0.0, 1.0, 0.5]), "b": Column.of([1.0] * 6)}
    found = contrast(quantity(["b"], **left), quantity(["b"], **right), NAMES).summary
    pairs = {name: pair(left[name], right[name]) for name in left}
    plain = combine(pairs, {"a": 0.5, "b": 0.5})
    even = summarise_share_change(pairs["b"])
    assert found.mean is not None and plain.mean is not None
    half = math.hypot(ends(plain)[1] - plain.mean, 0.5 * ends(even)[1])
    assert ends(found) == pytest.approx((found.mean - half, found.mean + half))


def test_every_part_without_spread_widens_a_mean_of_means() -> None:
    parts = {"a": Column.of([1.0] * 8), "b": Column.of([0.0] * 8), "c": Column.of([0.0, 1.0] * 6)}
    own = [summarise_share(each) for each in parts.values()]
    found, plain = average([*parts.values()], own), combine(parts, dict.fromkeys(parts, 1 / 3))
    below, above, _ = own
    assert found.mean is not None and found.low is not None and found.high is not None
    assert plain.high is not None and below.low is not None and above.high is not None
    half = plain.high - found.mean
    assert found.mean - found.low == pytest.approx(math.hypot(half, (1 - below.low) / 3))
    assert found.high - found.mean == pytest.approx(math.hypot(half, above.high / 3))


@pytest.mark.parametrize(("count", "before", "after"), [(20, 0.5, 0.8), (77, 7.0, 7.3)])
def test_equal_differences_have_no_interval_or_p(count: int, before: float, after: float) -> None:
    """Their mean is a rounding off, so that an error of 1e-17 came of it, and a p of 2e-158."""
    left, right = Column.of([before] * count), Column.of([after] * count)
    found = contrast(alone("S1", left), alone("S1", right), NAMES)
    assert found.summary.mean == pytest.approx(0.3)
    assert (found.summary.stderr, found.summary.low, found.p) == (0.0, None, None)


def test_what_rounding_makes_of_no_change_is_no_change() -> None:
    left = Column.of([0.1 + 0.2, 0.7 + 0.1, 0.3, 0.8, 0.1 * 3])
    right = Column.of([0.3, 0.8, 0.1 + 0.2, 0.1 + 0.7, 0.3])
    assert pair(left, right).values == [0.0] * 5
    assert contrast(alone("S1", left), alone("S1", right), NAMES).p is None


@pytest.mark.parametrize("count", [10, 77])
@pytest.mark.parametrize("change", [1 / 3, -0.05, 0.3, 0.0])
def test_equal_changes_have_one_interval_however_rounded(change: float, count: int) -> None:
    found = summarise_share_change(Column.of([change] * count))
    size = count + 2
    centre, square = count * change / size, (count * change**2 + 1) / size
    half = float(stdtrit(count - 1, 0.975)) * math.sqrt((square - centre**2) / size)
    assert found.stderr == 0.0
    assert (found.low, found.high) == pytest.approx((centre - half, centre + half))


@pytest.mark.parametrize("share", [False, True])
def test_fewer_than_five_clusters_have_no_difference_with_an_interval(share: bool) -> None:
    for groups, message in ((4, False), (5, True)):
        labels = [str(row % groups) for row in range(40)]
        left = Column.of([0.0, 1.0, 1.0, 0.0] * 10, clusters=labels)
        right = Column.of([1.0, 1.0, 0.0, 0.0, 1.0] * 8, clusters=labels)
        shares = ("S1",) if share else ()
        before, after = (
            Quantity(name="S1", columns={"S1": each}, shares=shares) for each in (left, right)
        )
        found = contrast(before, after, NAMES)
        assert (found.summary.low is not None, found.p is not None) == (message, message)


def test_intervals_of_differences_end_where_the_scale_does() -> None:
    left = Column.of([1.0, 1.0, 1.0, 10.0, 1.0])
    right = Column.of([10.0, 10.0, 10.0, 1.0, 10.0])
    before, after = (Quantity(name="S1", columns={"S1": each}, reach=9.0) for each in (left, right))
    found = contrast(before, after, NAMES)
    endless = paired_difference(left, right)
    assert endless.high is not None and endless.high > 9
    assert (found.summary.low, found.summary.high) == (endless.low, 9.0)
    assert found.p == contrast(alone("S1", left), alone("S1", right), NAMES).p


def test_nothing_in_common_has_no_difference() -> None:
    left, right = (alone("S1", _column([1.0], name)) for name in "ab")
    found = contrast(left, right, NAMES)
    assert (found.summary.mean, found.summary.n, found.p) == (None, 0, None)
    assert found.summary.missing == {"unpaired: only in alpha": 1, "unpaired: only in beta": 1}


def test_a_change_of_changes_names_the_run_that_lacks_its_ends() -> None:
    def change(start: Sequence[float | None], why: str | None) -> Quantity:
        reasons = [why if value is None else None for value in start]
        left = Column.of(start, reasons=reasons)
        return alone("delta", pair(left, Column.of([5.0] * len(start))))

    found = contrast(change([1.0, 2.0], None), change([3.0, None], "unparsed"), NAMES).summary
    assert (found.mean, found.n) == (-2.0, 1)
    assert found.missing == {"unpaired: beta: unparsed": 1}


def test_differences_are_made_of_the_same_numbers_whatever_these_are_called() -> None:
    def made_of(name: str, *columns: Sequence[float]) -> int | None:
        named = {f"{name}{place}": Column.of(each) for place, each in enumerate(columns)}
        other = {key: Column.of([1.0, 2.0, 4.0]) for key in named}
        before, after = (Quantity(name=name, columns=each) for each in (named, other))
        return contrast(before, after, NAMES).made_of

    found = made_of("CM", [1.0, 2.0, 3.0])
    assert found == made_of("memory", [1.0, 2.0, 3.0])
    # neither the same difference nor a part is the same
    assert found != made_of("CM", [1.0, 2.0, 3.5])
    assert found != made_of("CM", [1.0, 2.0, 3.0], [1.0, 2.0, 3.0])


def test_holm_multiplies_step_by_step_and_never_falls() -> None:
    # worked by hand: 3 * 0.01, 2 * 0.02, 1 * 0.03 raised to 0.04
    corrected = holm({"b": 0.02, "a": 0.01, "c": 0.03})
    assert corrected == pytest.approx({"a": 0.03, "b": 0.04, "c": 0.04})
    assert holm({("a", 1): 0.6, ("b", 1): 0.9}) == {("a", 1): 1.0, ("b", 1): 1.0}
    assert holm({}) == {}


def _column(values: list[float], samples: str) -> Column:
    return Column.of(values, samples=tuple(samples))


def _covers(summary: Summary, truth: float) -> bool:
    low, high = summary.low, summary.high
    return low is not None and high is not None and low <= truth + 1e-12 and truth - 1e-12 <= high


def _draw(
    random: np.random.Generator, clusters: int, size: int, shares: tuple[float, float]
) -> NDArray[np.float64]:
    """Shape (2, rows): successes before and after, by thresholds on correlated normal numbers."""
    of_row = random.normal(size=(1, clusters * size))
    of_cluster = np.repeat(random.normal(size=(2, clusters)), size, axis=1)
    own = random.normal(size=(2, clusters * size))
    shared = 0.2 if size > 1 else 0.0
    numbers = np.sqrt([0.4, shared, 0.6 - shared]) @ np.stack(
        [np.broadcast_to(of_row, own.shape).ravel(), of_cluster.ravel(), own.ravel()]
    )
    limits = ndtri(np.array(shares, dtype=np.float64))[:, np.newaxis]
    drawn: NDArray[np.float64] = np.where(numbers.reshape(own.shape) < limits, 1.0, 0.0)
    return drawn


def test_the_detectable_difference_is_found_in_80_of_100_cases() -> None:
    """Of 50 pairs with an error of 0.1: (2.010 + 0.842) errors at the 5 % level."""
    errors = [0.1 * math.sqrt(50) * (1 if place % 2 else -1) for place in range(50)]
    scaled = [error * math.sqrt(49 / 50) for error in errors]
    before, after = Column.of([0.0] * 50), Column.of(scaled)
    left, right = (Quantity(name="S", columns={"S": column}) for column in (before, after))
    found = contrast(left, right, ("a", "b"))
    assert found.detectable(0.05) == pytest.approx(0.1 * (2.0096 + 0.8416), rel=1e-3)
    assert (found.detectable(0.01) or 0) > (found.detectable(0.05) or 0)


def test_a_difference_at_the_margin_is_called_equivalent_in_at_most_5_of_100_cases() -> None:
    random = np.random.default_rng(12)
    claims = {0.0: 0, 0.3: 0}
    for _ in range(500):
        left, change = random.normal(6, 1, 120), random.normal(0, 1, 120)
        for true in claims:
            first, second = (
                alone("score", Column.of(values.tolist()))
                for values in (left, left + change + true)
            )
            claims[true] += contrast(first, second, NAMES).is_within(0.3)
    assert claims[0.3] <= 0.08 * 500
    assert claims[0.0] >= 0.8 * 500
