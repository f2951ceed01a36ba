"""Ranks: what is told apart, what is tied, and how many comparisons are made."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from mmconv.report.comparison.differences import LEVEL
from mmconv.report.comparison.leaderboard import pair_contrasts, rank_ranges
from mmconv.stats import Column, Quantity, contrast

SAMPLES = [str(number) for number in range(40)]


def ranges(runs: Mapping[str, Quantity], *, least: bool = False) -> dict[str, tuple[int, int]]:
    return rank_ranges(runs, pair_contrasts(runs), least=least)


def scored(mean: float, seed: int, size: int = len(SAMPLES)) -> Quantity:
    """A run with the same hard and easy samples as all others, and some noise of its own."""
    noise = Random(seed)
    values = [mean + place % 5 + noise.uniform(-0.5, 0.5) for place in range(size)]
    return Quantity(name="S", columns={"S": Column.of(values, samples=SAMPLES[:size])})


def shifted(quantity: Quantity, p_wanted: float) -> Quantity:
    """A run whose difference to the other has about this p-value."""
    column = quantity.columns["S"]
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        noise = Random(9)
        values = [value + middle + noise.uniform(-0.5, 0.5) for value in column.numbers]
        moved = Quantity(name="S", columns={"S": Column.of(values, samples=column.samples)})
        p = contrast(quantity, moved, ("a", "b")).p
        assert p is not None
        low, high = (middle, high) if p > p_wanted else (low, middle)
    return moved


def test_runs_that_paired_differences_tell_apart_have_ranks_of_their_own() -> None:
    runs = {"low": scored(2.0, 1), "high": scored(4.0, 2), "mid": scored(3.0, 3)}
    assert ranges(runs) == {"high": (1, 1), "mid": (2, 2), "low": (3, 3)}
    assert ranges(runs, least=True) == {"high": (3, 3), "mid": (2, 2), "low": (1, 1)}


def test_runs_that_are_not_told_apart_share_their_ranks() -> None:
    runs = {"a": scored(3.0, 1), "b": scored(3.0, 2), "last": scored(1.0, 3), "c": scored(3.0, 4)}
    found = ranges(runs)
    assert found == {"a": (1, 3), "b": (1, 3), "c": (1, 3), "last": (4, 4)}


def test_all_pairs_are_corrected_for() -> None:
    first = scored(3.0, 1)
    second = shifted(first, 0.02)
    p = contrast(first, second, ("a", "b")).p
    assert p is not None
    assert p == pytest.approx(0.02, rel=0.1)
    assert ranges({"a": first, "b": second}) == {"a": (2, 2), "b": (1, 1)}
    # one of three comparisons, of which it has the least p-value
    third = Quantity(
        name="S",
        columns={
            "S": Column.of(
                [
                    (left + right) / 2 + (1 if place % 2 else -1)
                    for place, (left, right) in enumerate(
                        zip(first.columns["S"].values, second.columns["S"].values, strict=True)
                    )
                    if left is not None and right is not None
                ],
                samples=SAMPLES,
            )
        },
    )
    assert 3 * p > LEVEL
    assert set(ranges({"a": first, "b": second, "c": third}).values()) == {(1, 3)}


def test_a_difference_without_a_p_value_tells_nothing_apart() -> None:
    few = {"a": scored(1.0, 1, size=4), "b": scored(9.0, 2, size=4)}
    assert ranges(few) == {"a": (1, 2), "b": (1, 2)}
