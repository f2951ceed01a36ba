"""Paired changes of shares, and differences between runs: formulas, coverage, gaps, corrections."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from mmconv.stats import (
    Column,
    Quantity,
    combine,
    contrast,
    holm,
    pair,
    paired_difference,
    paired_share_difference,
    summarise_share_change,
)
from mmconv.values import Summary

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
    summary = paired_share_difference(lost, won)
    assert (summary.mean, summary.high) == (1.0, 1.0)
    assert summary.low is not None
    assert 0.4 < summary.low < 1.0


def test_more_than_a_share_can_change_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 to 1"):
        summarise_share_change(Column.of([0.5, -3.0]))


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
        covered += _covers(paired_share_difference(left, right), truth)
        covered_plainly += _covers(paired_difference(left, right), truth)
    # three standard errors of the simulation below 95 %; 0.92 is the worst of a wider search
    assert covered / draws > 0.915
    assert covered_plainly / draws < plain


def test_a_contrast_of_means_is_the_paired_difference() -> None:
    left = Column.of([1.0, 2.0, None, 4.0], reasons=[None, None, "unparsed", None])
    right = Column.of([2.0, 2.5, 3.0, None], reasons=[None, None, None, "failed: server"])
    found = contrast(Quantity.of("S1", left), Quantity.of("S1", right), NAMES)
    plain = paired_difference(left, right)
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
        found = contrast(Quantity.of("x", left), Quantity.of("x", right), NAMES)
        assert found.p is not None
        assert found.summary.low is not None
        assert found.summary.high is not None
        assert (found.p < 0.05) == (found.summary.low > 0 or found.summary.high < 0)
        error = found.summary.stderr
        assert error is not None
        assert found.summary.mean is not None
        # twice the tail of Student's t
        assert stdtrit(19, found.p / 2) == pytest.approx(-abs(found.summary.mean) / error)


def test_weighted_means_are_subtracted_column_by_column() -> None:
    random = np.random.default_rng(3)
    columns = [
        {name: Column.of(random.normal(size=15).tolist()) for name in ("S1", "S2")}
        for _ in range(2)
    ]
    weights = {"S1": 0.25, "S2": 0.75}
    left, right = (Quantity(name="R", columns=each, weights=weights) for each in columns)
    found = contrast(left, right, NAMES).summary
    signed = {
        **{f"-{name}": each for name, each in columns[0].items()},
        **{f"+{name}": each for name, each in columns[1].items()},
    }
    whole = combine(signed, {"-S1": -0.25, "-S2": -0.75, "+S1": 0.25, "+S2": 0.75})
    assert found.mean == pytest.approx(whole.mean)
    assert found.stderr == pytest.approx(whole.stderr)
    assert found.n == 15


def test_what_only_one_run_has_is_left_out_and_the_rest_takes_its_weight() -> None:
    shared = _column([1.0, 3.0], "ab")
    left = Quantity.average("average", {"GR": shared, "MR": _column([9.0], "c")})
    right = Quantity.average("average", {"GR": _column([2.0, 5.0], "ab")})
    found = contrast(left, right, NAMES).summary
    assert found.mean == pytest.approx(1.5)
    assert found.n == 2
    assert found.missing == {"unpaired: only in alpha": 1}


def test_nothing_in_common_has_no_difference() -> None:
    left, right = (Quantity.of("S1", _column([1.0], name)) for name in "ab")
    found = contrast(left, right, NAMES)
    assert (found.summary.mean, found.summary.n, found.p) == (None, 0, None)
    assert found.summary.missing == {"unpaired: only in alpha": 1, "unpaired: only in beta": 1}


def test_a_change_of_changes_names_the_run_that_lacks_its_ends() -> None:
    def change(start: Sequence[float | None], why: str | None) -> Quantity:
        reasons = [why if value is None else None for value in start]
        left = Column.of(start, reasons=reasons)
        return Quantity.of("delta", pair(left, Column.of([5.0] * len(start))), change=True)

    found = contrast(change([1.0, 2.0], None), change([3.0, None], "unparsed"), NAMES).summary
    assert (found.mean, found.n) == (-2.0, 1)
    assert found.missing == {"unpaired: beta: unparsed": 1}


def test_holm_multiplies_step_by_step_and_never_falls() -> None:
    # worked by hand: 3 * 0.01, 2 * 0.02, 1 * 0.03 raised to 0.04
    corrected = holm({"b": 0.02, "a": 0.01, "c": 0.03})
    assert corrected == pytest.approx({"a": 0.03, "b": 0.04, "c": 0.04})
    assert holm({"a": 0.6, "b": 0.9}) == {"a": 1.0, "b": 1.0}
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
