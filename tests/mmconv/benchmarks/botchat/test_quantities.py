"""Rates and ratings, against numbers by hand and closed forms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
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
from mmconv.stats import Column
from mmconv.values import SAME_TEXT


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


evalica = pytest.importorskip("evalica", reason="the arena's ratings need it")

from mmconv.benchmarks.botchat import ratings  # noqa: E402
from mmconv.benchmarks.botchat.ratings import (  # noqa: E402
    Game,
    rate_players,
    tell_ratings,
)


def played(left: str, right: str, *, wins: int, ties: int = 0, losses: int = 0) -> list[Game]:
    points = [WIN] * wins + [GOOD_TIE] * ties + [LOSS] * losses
    return [
        Game(left=left, right=right, points=each, cluster=f"MT-{place % 40}")
        for place, each in enumerate(points)
    ]


def test_bradley_terry_of_two_players_is_their_odds() -> None:
    rated = rate_players(played("a", "b", wins=60, ties=20, losses=20), draws=20)
    gap = float(rated["a"]["Bradley-Terry"].value or 0) - float(
        rated["b"]["Bradley-Terry"].value or 0
    )
    assert gap == pytest.approx(400 * math.log10(70 / 30), abs=1e-3)
    for player in "ab":
        for cell in rated[player].values():
            assert cell.n == 100
            assert cell.low is not None
            assert cell.high is not None
            assert cell.low <= float(cell.value or 0) <= cell.high


def test_strengths_of_three_players_are_recovered() -> None:
    """Expected wins of strengths 4 : 2 : 1, which a maximum likelihood fit gives back exactly."""
    games = (
        played("a", "b", wins=40, losses=20)
        + played("b", "c", wins=40, losses=20)
        + played("a", "c", wins=48, losses=12)
    )
    rated = rate_players(games, draws=10)
    values = [float(rated[player]["Bradley-Terry"].value or 0) for player in "abc"]
    step = 400 * math.log10(2)
    assert values == pytest.approx([1000 + step, 1000, 1000 - step], abs=1e-2)


def test_elo_of_one_game() -> None:
    rated = rate_players([Game(left="a", right="b", points=WIN, cluster="MT-1")], draws=3)
    assert (rated["a"]["Elo"].value, rated["b"]["Elo"].value) == (1016.0, 984.0)
    assert rated["a"]["Elo"].low is None


@pytest.mark.parametrize(("dialogues", "told"), [(4, False), (5, True)])
def test_few_dialogues_have_no_interval(dialogues: int, told: bool) -> None:
    games = [
        Game(left="a", right="b", points=points, cluster=str(number))
        for number in range(dialogues)
        for points in [WIN] * (number + 1) + [LOSS] * 3
    ]
    rated = rate_players(games, draws=20)["a"]
    assert (rated["Elo"].low is not None) == (rated["Bradley-Terry"].low is not None) == told


def test_who_always_wins_has_no_finite_strength() -> None:
    games = played("a", "b", wins=30)
    rated = rate_players(games, draws=5)
    cell = rated["a"]["Bradley-Terry"]
    assert (cell.value, cell.low, cell.n, cell.missing) == (None, None, 30, {})
    assert float(rated["a"]["Elo"].value or 0) > 1100
    unbounded, loser, winner = tell_ratings(games, rated)
    assert unbounded.startswith("A Bradley-Terry rating that is not there: no finite one fits")
    assert loser.startswith("Of players who never win or tie (b), Elo tells how far K = 32 gets")
    assert winner.startswith("Of players who never lose or tie (a), Elo")


@pytest.mark.parametrize(("losses", "told"), [(3, False), (6, True)])
def test_draws_without_finite_strengths_lie_beyond_the_interval(losses: int, told: bool) -> None:
    """Of 40 dialogues b wins 3, which 8 of these 200 draws lack: more than a tail of 2.5 %."""
    games = played("a", "b", wins=40 - losses, losses=losses)
    rated = rate_players(games, seed=1)
    for player in "ab":
        cell = rated[player]["Bradley-Terry"]
        assert cell.value is not None
        assert (cell.low is not None, cell.high is not None) == (told, told)
    notes = [*tell_ratings(games, rated)]
    assert [note.startswith("A Bradley-Terry rating without") for note in notes] == [True] * (
        not told
    )


def test_a_few_draws_without_finite_strengths_move_the_ends_outwards() -> None:
    draws = [float(number) for number in range(196)]
    plain, moved = ratings._cell(100.0, draws, 9), ratings._cell(100.0, draws, 9, unbounded=4)
    assert (plain.low, plain.high) == pytest.approx((195 * 0.025, 195 * 0.975))
    assert (moved.low, moved.high) == pytest.approx((199 * 0.025 - 4, 199 * 0.975))
    assert ratings._cell(100.0, draws[:-1], 9, unbounded=5).low is None


def test_nobody_is_rated_where_nothing_was_played() -> None:
    assert rate_players([], draws=2) == {}


def test_ordinary_ratings_need_no_word() -> None:
    games = played("a", "b", wins=20, losses=20)
    assert [*tell_ratings(games, rate_players(games, draws=20))] == []


def test_ratings_hang_on_nothing_but_the_games() -> None:
    games = played("a", "b", wins=20, ties=5, losses=10)
    assert rate_players(games, draws=20) == rate_players(games, draws=20)


def test_elo_is_that_of_the_drawn_games_one_after_another() -> None:
    games = [
        *played("a", "b", wins=20, ties=5, losses=10),
        *played("c", "a", wins=9, ties=2, losses=30),
    ]
    rated = rate_players(games, draws=3, seed=7)
    finals = [_plain_elo(games, np.random.default_rng([7, number])) for number in range(3)]
    for player in "abc":
        middle = sorted(final[player] for final in finals)[1]
        assert rated[player]["Elo"].value == pytest.approx(middle, abs=1e-9)


def _plain_elo(games: Sequence[Game], random: np.random.Generator) -> dict[str, float]:
    """Elo from 1000 with K = 32, over dialogues drawn with replacement, in random order."""
    dialogues: dict[str, list[Game]] = {}
    for game in games:
        dialogues.setdefault(game.cluster, []).append(game)
    members = list(dialogues.values())
    chosen = random.integers(len(members), size=len(members))
    drawn = [game for place in chosen for game in members[place]]
    ratings = dict.fromkeys("abc", 1000.0)
    for place in random.permutation(len(drawn)):
        game = drawn[place]
        gap = ratings[game.right] - ratings[game.left]
        won = {WIN: 1.0, LOSS: 0.0}.get(game.points, 0.5)
        change = 32 * (won - 1 / (1 + 10 ** (gap / 400)))
        ratings[game.left] += change
        ratings[game.right] -= change
    return ratings
