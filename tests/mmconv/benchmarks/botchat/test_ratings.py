"""The arena's ratings: who is linked to whom by the games."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("evalica", reason="the arena's ratings need it")

from mmconv.benchmarks.botchat.ratings import TERRY, Game, rate_players
from mmconv.benchmarks.botchat.scoring import BAD_TIE, GOOD_TIE, LOSS, WIN


@pytest.mark.parametrize("tie", [GOOD_TIE, BAD_TIE])
@pytest.mark.parametrize(("left", "right", "points"), [("a", "b", WIN), ("b", "a", LOSS)])
def test_who_never_wins_has_a_finite_strength_by_ties_of_either_kind(
    left: str, right: str, points: float, tie: float
) -> None:
    """Of 40 games a wins 30: its odds are 35 to 5, on whichever side it plays."""
    games = [
        Game(left=left, right=right, points=each, cluster=f"MT-{place}")
        for place, each in enumerate([points] * 30 + [tie] * 10)
    ]
    rated = rate_players(games, draws=5)
    better, worse = (rated[player][TERRY].value for player in "ab")
    assert isinstance(better, float)
    assert isinstance(worse, float)
    assert better - worse == pytest.approx(400 * math.log10(35 / 5), abs=1e-3)
