"""Rates, against numbers by hand."""

from __future__ import annotations

import pytest

from mmconv.benchmarks.botchat.quantities import (
    RATES,
    mean_points,
    official_points,
    official_rates,
    official_share,
    rate,
)
from mmconv.benchmarks.botchat.scoring import BAD_TIE, GOOD_TIE, LOSS, UNKNOWN, WIN
from mmconv.core.types import SAME_TEXT
from mmconv.stats import Column


def column(
    *, win: int, good: int = 0, bad: int = 0, lose: int = 0, unknown: int = 0, same: int = 0
) -> Column:
    points = [WIN] * win + [GOOD_TIE] * good + [BAD_TIE] * bad + [LOSS] * lose
    unread = [UNKNOWN] * unknown + [SAME_TEXT] * same
    return Column.of([*points, *(None for _ in unread)], reasons=[*(None for _ in points), *unread])


def test_the_authors_rates_have_unread_replies_in_their_denominator() -> None:
    rates = official_rates(column(win=3, good=2, bad=1, lose=2, unknown=2, same=5))
    values = {name: cell.value for name, cell in rates.items()}
    assert values == {"win": 30.0, "tie": 30.0, "lose": 20.0, "win+tie": 60.0, "not bad": 50.0}
    assert {cell.n for cell in rates.values()} == {10}
    assert rates["win"].missing == {SAME_TEXT: 5}


def test_the_authors_win_and_tie_adds_rounded_rates() -> None:
    """114/444 and 202/444 are 25.68 and 45.50: 25.7 + 45.5 is 71.2, together they are 71.17."""
    whole = column(win=114, good=202, lose=128)
    assert official_rates(whole)["win+tie"].value == 71.2
    apart = column(win=1, good=1, lose=442)
    assert official_rates(apart)["win+tie"].value == 0.4
    ours = rate(apart, RATES["win+tie"])
    assert ours.value == pytest.approx(100 * 2 / 444)
    assert round(float(ours.value or 0), 1) == 0.5


def test_our_rates_are_of_what_could_be_read() -> None:
    found = column(win=3, good=2, bad=1, lose=2, unknown=2, same=5)
    cell = rate(found, RATES["tie"])
    assert (cell.value, cell.n) == (37.5, 8)
    assert cell.missing == {UNKNOWN: 2, SAME_TEXT: 5}
    assert cell.low is not None
    assert cell.high is not None
    assert cell.low < 37.5 < cell.high


def test_points() -> None:
    found = column(win=3, good=2, bad=1, lose=2, unknown=2)
    assert mean_points(found).value == pytest.approx((9 + 2 - 1 - 6) / 8)
    assert official_points(found).value == pytest.approx((9 + 2 - 1 - 6) / 10)
    assert official_points(column(win=0, same=2)).value is None


def test_unieval_rounds_to_a_tenth() -> None:
    passed = Column.of([1.0] * 360 + [0.0] * 187)
    assert official_share(passed).value == 65.8
    assert official_share(Column.of([None], reasons=["unknown"])).value is None
