"""The arena's ratings, against closed forms, and which models are linked by games."""

import math

import numpy as np
import pytest

pytest.importorskip("evalica", reason="the arena's ratings need it")

from mmconv.benchmarks.botchat import arena
from mmconv.benchmarks.botchat.arena import ELO, TERRY, Game, rate_models
from mmconv.benchmarks.botchat.metrics import BAD_TIE, GOOD_TIE, LOSS, WIN


def played(left: str, right: str, *, wins: int, ties: int = 0, losses: int = 0) -> list[Game]:
    points = [WIN] * wins + [GOOD_TIE] * ties + [LOSS] * losses
    return [
        Game(left=left, right=right, points=each, cluster=f"MT-{place % 40}")
        for place, each in enumerate(points)
    ]


def strengths(games: list[Game], draws: int = 5) -> list[float]:
    rated = rate_models(games, draws=draws)
    return [float(rated[player][TERRY].value or 0) for player in sorted(rated)]


def test_bradley_terry_of_two_players_is_their_odds() -> None:
    rated = rate_models(played("a", "b", wins=60, ties=20, losses=20), draws=20)
    better, worse = (float(rated[player][TERRY].value or 0) for player in "ab")
    assert better - worse == pytest.approx(400 * math.log10(70 / 30), abs=1e-3)
    for cell in (*rated["a"].values(), *rated["b"].values()):
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
    step = 400 * math.log10(2)
    assert strengths(games) == pytest.approx([1000 + step, 1000, 1000 - step], abs=1e-2)


@pytest.mark.parametrize("tie", [GOOD_TIE, BAD_TIE])
@pytest.mark.parametrize(("left", "right", "points"), [("a", "b", WIN), ("b", "a", LOSS)])
def test_a_model_that_never_wins_has_a_finite_strength_by_ties_of_either_kind(
    left: str, right: str, points: float, tie: float
) -> None:
    """Of 40 games a wins 30: its odds are 35 to 5, on whichever side it plays."""
    games = [
        Game(left=left, right=right, points=each, cluster=f"MT-{place}")
        for place, each in enumerate([points] * 30 + [tie] * 10)
    ]
    better, worse = strengths(games)
    assert better - worse == pytest.approx(400 * math.log10(35 / 5), abs=1e-3)


def test_a_model_that_always_wins_has_no_finite_strength() -> None:
    rated = rate_models(played("a", "b", wins=30), draws=5)
    cell = rated["a"][TERRY]
    assert (cell.value, cell.low, cell.n, cell.missing) == (None, None, 30, {})
    assert float(rated["a"][ELO].value or 0) > 1100


@pytest.mark.parametrize(("dialogues", "has_interval"), [(4, False), (5, True)])
def test_few_dialogues_have_no_interval(dialogues: int, has_interval: bool) -> None:
    games = [
        Game(left="a", right="b", points=points, cluster=str(number))
        for number in range(dialogues)
        for points in [WIN] * (number + 1) + [LOSS] * 3
    ]
    rated = rate_models(games, draws=20)["a"]
    assert [rated[name].low is not None for name in (ELO, TERRY)] == [has_interval] * 2


@pytest.mark.parametrize(("losses", "has_interval"), [(3, False), (6, True)])
def test_draws_without_finite_strengths_widen_the_interval(losses: int, has_interval: bool) -> None:
    """Of 40 dialogues b wins 3, which 8 of these 200 draws lack: more than a tail of 2.5 %."""
    rated = rate_models(played("a", "b", wins=40 - losses, losses=losses), seed=1)
    for player in "ab":
        cell = rated[player][TERRY]
        assert cell.value is not None
        assert (cell.low is not None, cell.high is not None) == (has_interval, has_interval)


def test_a_few_draws_without_finite_strengths_move_the_ends_outwards() -> None:
    draws = [float(number) for number in range(196)]
    plain, moved = arena._cell(100.0, draws, 9), arena._cell(100.0, draws, 9, unbounded=4)
    assert (plain.low, plain.high) == pytest.approx((195 * 0.025, 195 * 0.975))
    assert (moved.low, moved.high) == pytest.approx((199 * 0.025 - 4, 199 * 0.975))
    assert arena._cell(100.0, draws[:-1], 9, unbounded=5).low is None


def test_elo_is_that_of_the_drawn_games_one_after_another() -> None:
    games = [
        *played("a", "b", wins=20, ties=5, losses=10),
        *played("c", "a", wins=9, ties=2, losses=30),
    ]
    rated = rate_models(games, draws=3, seed=7)
    assert rated == rate_models(games, draws=3, seed=7)
    finals = [_plain_elo(games, np.random.default_rng([7, number])) for number in range(3)]
    for player in "abc":
        middle = sorted(final[player] for final in finals)[1]
        assert rated[player][ELO].value == pytest.approx(middle, abs=1e-9)


def test_elo_of_one_game_and_of_none() -> None:
    rated = rate_models([Game(left="a", right="b", points=WIN, cluster="MT-1")], draws=3)
    assert (rated["a"][ELO].value, rated["b"][ELO].value) == (1016.0, 984.0)
    assert rate_models([], draws=2) == {}


def _plain_elo(games: list[Game], random: np.random.Generator) -> dict[str, float]:
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
