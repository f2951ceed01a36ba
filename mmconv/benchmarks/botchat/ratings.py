"""The arena's ratings: Elo and Bradley-Terry by evalica, with intervals by bootstrap.

Elo starts from 1000 with K = 32 and a scale of 400, as the authors' does; the order of their games
is not public, and Elo hangs on it. So games are played in random orders, over dialogues drawn with
replacement: a rating is the median of the draws. Bradley-Terry knows no order; its ratings are
those of the data itself, put on Elo's scale with a mean of 1000. Ties are half a win for each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmconv.benchmarks.botchat.scoring import BAD_TIE, GOOD_TIE, LOSS, WIN
from mmconv.stats import Column
from mmconv.stats.estimates import FEWEST_CLUSTERS
from mmconv.values import Cell

if TYPE_CHECKING:
    from evalica import Winner

ELO = "Elo"
TERRY = "Bradley-Terry"

START = 1000.0
SCALE = 400.0
K = 32.0
DRAWS = 200

_UNBOUNDED = (
    "A Bradley-Terry rating that is not there: no finite one fits, since somebody never wins or "
    "ties against the others."
)
_UNBOUNDED_DRAWS = (
    "A Bradley-Terry rating without an interval beside an Elo rating with one: too many draws of "
    "dialogues leave somebody who never wins or ties against the others, and so no finite ratings; "
    "an end of the interval is infinite."
)

_TAIL = 0.025
_TOLERANCE = 1e-9
_ITERATIONS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """One comparison: its points for the left player, and the dialogue that it belongs to."""

    left: str
    right: str
    points: float
    cluster: str


def is_available() -> bool:
    """Whether the package that computes ratings is installed."""
    return find_spec("evalica") is not None


def games(left: str, right: str, column: Column) -> list[Game]:
    """The comparisons of two players that have points."""
    return [
        Game(left=left, right=right, points=points, cluster=cluster)
        for points, cluster in zip(column.values, column.clusters, strict=True)
        if points is not None
    ]


def rate_players(
    played: Sequence[Game], draws: int = DRAWS, seed: int = 0
) -> dict[str, dict[str, Cell]]:
    """Player -> `Elo` and `Bradley-Terry` -> cell.

    Intervals are those between the 2.5 % and 97.5 % percentiles of the draws; there is none over
    fewer dialogues than any interval needs. A draw that has no finite Bradley-Terry ratings counts
    as one below the low end and above the high one: there is none where either is infinite.
    """
    players = list(dict.fromkeys(name for game in played for name in (game.left, game.right)))
    drawn = [_draw(played, np.random.default_rng([seed, number])) for number in range(draws)]
    elo = [_elo(each, players) for each in drawn]
    terry = [found for each in drawn if (found := _bradley_terry(each, players)) is not None]
    fitted = _bradley_terry(played, players)
    unbounded = draws - len(terry)
    spread = len({game.cluster for game in played}) >= FEWEST_CLUSTERS
    counts = Counter(name for game in played for name in (game.left, game.right))
    rated = {}
    for player in players:
        by_elo = [each[player] for each in elo]
        by_terry = [each[player] for each in terry]
        value = None if fitted is None else fitted[player]
        rated[player] = {
            ELO: _cell(float(np.median(by_elo)), by_elo if spread else (), counts[player]),
            TERRY: _cell(value, by_terry if spread else (), counts[player], unbounded),
        }
    return rated


def tell_ratings(played: Sequence[Game], rated: Mapping[str, Mapping[str, Cell]]) -> Iterator[str]:
    """What a reader of these players' ratings must know: which are not finite, or say little."""
    terry = [(cells[ELO], cells[TERRY]) for cells in rated.values()]
    if any(cell.value is None for _, cell in terry):
        yield _UNBOUNDED
    if any(
        cell.value is not None and cell.low is None and elo.low is not None for elo, cell in terry
    ):
        yield _UNBOUNDED_DRAWS
    for points, did in ((LOSS, "never win or tie"), (WIN, "never lose or tie")):
        others = {player for game in played for player, won in _points(game) if won != points}
        if players := [player for player in rated if player not in others]:
            yield (
                f"Of players who {did} ({', '.join(players)}), Elo tells how far K = {K:.0f} gets "
                "in their games, and not how strong they are; nor does its interval, which is as "
                "narrow as it is because all their games ended alike."
            )


def _points(game: Game) -> tuple[tuple[str, float], tuple[str, float]]:
    """The game's players, each with the points from their own side."""
    return (game.left, game.points), (game.right, -game.points)


def _draw(played: Sequence[Game], random: np.random.Generator) -> list[Game]:
    """The games of as many dialogues, drawn with replacement, in random order."""
    members: dict[str, list[Game]] = {}
    for game in played:
        members.setdefault(game.cluster, []).append(game)
    clusters = list(members.values())
    chosen = random.integers(len(clusters), size=len(clusters))
    drawn = [game for place in chosen.tolist() for game in clusters[place]]
    return [drawn[place] for place in random.permutation(len(drawn)).tolist()]


def _elo(played: Sequence[Game], players: Sequence[str]) -> dict[str, float]:
    # pandas comes with it, and only the end of a run with an arena needs it
    import evalica

    winners = _winners()
    found = evalica.elo(
        [game.left for game in played],
        [game.right for game in played],
        [winners[game.points] for game in played],
        initial=START,
        scale=SCALE,
        k=K,
    )
    rated = found.scores.to_dict()
    return {player: float(rated.get(player, START)) for player in players}


def _bradley_terry(played: Sequence[Game], players: Sequence[str]) -> dict[str, float] | None:
    """The ratings; None where the likelihood has no maximum."""
    import evalica

    # equal games with a weight fit as fast for thousands as for a few
    counts = Counter((game.left, game.right, game.points) for game in played)
    if not _is_bounded(counts, players):
        return None
    winners = _winners()
    found = evalica.bradley_terry(
        [left for left, _, _ in counts],
        [right for _, right, _ in counts],
        [winners[points] for _, _, points in counts],
        weights=[float(count) for count in counts.values()],
        tolerance=_TOLERANCE,
        limit=_ITERATIONS,
    )
    strengths = {name: math.log10(float(each)) for name, each in found.scores.to_dict().items()}
    centre = math.fsum(strengths.values()) / len(strengths)
    return {player: START + SCALE * (strengths[player] - centre) for player in players}


def _is_bounded(results: Iterable[tuple[str, str, float]], players: Sequence[str]) -> bool:
    """Whether every player is reached from every other by wins and ties (Ford, 1957)."""
    from scipy.sparse.csgraph import connected_components

    places = {player: place for place, player in enumerate(players)}
    beats: NDArray[np.bool_] = np.zeros((len(players), len(players)), dtype=np.bool_)
    for left, right, points in results:
        beats[places[left], places[right]] |= points > LOSS
        beats[places[right], places[left]] |= points < WIN
    components, _ = connected_components(beats, directed=True, connection="strong")
    return bool(components == 1)


def _winners() -> dict[float, Winner]:
    """Who wins, by the points of the left player."""
    from evalica import Winner

    return {WIN: Winner.X, GOOD_TIE: Winner.Draw, BAD_TIE: Winner.Draw, LOSS: Winner.Y}


def _cell(value: float | None, draws: Sequence[float], n: int, unbounded: int = 0) -> Cell:
    """The cell of a rating; `unbounded` draws have none, which may be too high or too low."""
    places = len(draws) + unbounded - 1
    if value is None or len(set(draws)) < 2 or unbounded > _TAIL * places:
        return Cell(value=value, n=n)
    infinite = [math.inf] * unbounded
    low = np.quantile([*(-end for end in infinite), *draws], _TAIL)
    high = np.quantile([*draws, *infinite], 1 - _TAIL)
    return Cell(value=value, n=n, low=float(low), high=float(high))
