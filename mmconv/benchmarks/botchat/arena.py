"""The arena's ratings: Elo and Bradley-Terry by evalica, with intervals by bootstrap.

Elo starts from 1000 with K = 32 and a scale of 400, as the authors' does; the order of their games
is not public, and Elo hangs on it. So games are played in random orders, over dialogues drawn with
replacement: a rating is the median of the draws. Bradley-Terry knows no order; its ratings are
those of the data itself, put on Elo's scale with a mean of 1000. Ties are half a win for each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmconv.benchmarks.botchat.scoring import BAD_TIE, GOOD_TIE, LOSS, WIN
from mmconv.core.types import Cell
from mmconv.stats import Column
from mmconv.stats.estimates import FEWEST_CLUSTERS

Places: TypeAlias = NDArray[np.intp]

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
    if not played:
        return {}
    arena = _Arena.of(played)
    elo, terry = [], []
    for number in range(draws):
        drawn = arena.draw(np.random.default_rng([seed, number]))
        elo.append(_elo(drawn))
        if (found := _bradley_terry(drawn)) is not None:
            terry.append(found)
    fitted = _bradley_terry(arena)
    unbounded = draws - len(terry)
    spread = len(arena.dialogues) >= FEWEST_CLUSTERS
    counts = Counter(name for game in played for name in (game.left, game.right))
    rated = {}
    for place, player in enumerate(arena.players):
        by_elo = [each[place] for each in elo]
        by_terry = [each[place] for each in terry]
        value = None if fitted is None else fitted[place]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arena:
    """Games as arrays, a place for each: players by their place in `players`, and who won.

    `dialogues` holds the places of each dialogue's games.
    """

    players: tuple[str, ...]
    lefts: Places
    rights: Places
    winners: Places
    dialogues: tuple[Places, ...]

    @staticmethod
    def of(played: Sequence[Game]) -> _Arena:
        from evalica import Winner

        won = {WIN: Winner.X, GOOD_TIE: Winner.Draw, BAD_TIE: Winner.Draw, LOSS: Winner.Y}
        names = dict.fromkeys(name for game in played for name in (game.left, game.right))
        place_of = {name: place for place, name in enumerate(names)}
        members: dict[str, list[int]] = {}
        for place, game in enumerate(played):
            members.setdefault(game.cluster, []).append(place)
        return _Arena(
            players=tuple(names),
            lefts=np.array([place_of[game.left] for game in played]),
            rights=np.array([place_of[game.right] for game in played]),
            winners=np.array([won[game.points] for game in played]),
            dialogues=tuple(map(np.array, members.values())),
        )

    def draw(self, random: np.random.Generator) -> _Arena:
        """The games of as many dialogues, drawn with replacement, in random order."""
        chosen = random.integers(len(self.dialogues), size=len(self.dialogues))
        drawn = np.concatenate([self.dialogues[place] for place in chosen.tolist()])
        drawn = drawn[random.permutation(len(drawn))]
        return replace(
            self,
            lefts=self.lefts[drawn],
            rights=self.rights[drawn],
            winners=self.winners[drawn],
            dialogues=(),
        )


def _elo(arena: _Arena) -> Sequence[float]:
    # pandas comes with it, and only the end of a run with an arena needs it
    import evalica

    found = evalica.elo(
        arena.lefts,
        arena.rights,
        arena.winners.tolist(),
        index=_index(arena),
        initial=START,
        scale=SCALE,
        k=K,
    )
    return _in_order(found.scores)


def _bradley_terry(arena: _Arena) -> Sequence[float] | None:
    """The ratings; None where the likelihood has no maximum."""
    import evalica

    # equal games with a weight fit as fast for thousands as for a few
    kinds = len(arena.players), len(arena.players), len(evalica.Winner)
    counts = np.bincount(np.ravel_multi_index((arena.lefts, arena.rights, arena.winners), kinds))
    different = np.flatnonzero(counts)
    lefts, rights, winners = np.unravel_index(different, kinds)
    if not _is_bounded(lefts, rights, winners, len(arena.players)):
        return None
    found = evalica.bradley_terry(
        lefts,
        rights,
        winners.tolist(),
        index=_index(arena),
        weights=counts[different].astype(float),
        tolerance=_TOLERANCE,
        limit=_ITERATIONS,
    )
    strengths = [math.log10(each) for each in _in_order(found.scores)]
    centre = math.fsum(strengths) / len(strengths)
    return [START + SCALE * (strength - centre) for strength in strengths]


def _is_bounded(lefts: Places, rights: Places, winners: Places, players: int) -> bool:
    """Whether every player is reached from every other by wins and ties (Ford, 1957)."""
    from evalica import Winner
    from scipy.sparse.csgraph import connected_components

    beats: NDArray[np.bool_] = np.zeros((players, players), dtype=np.bool_)
    beats[lefts[winners != Winner.Y], rights[winners != Winner.Y]] = True
    beats[rights[winners != Winner.X], lefts[winners != Winner.X]] = True
    components, _ = connected_components(beats, directed=True, connection="strong")
    return bool(components == 1)


def _index(arena: _Arena) -> Any:
    """The players' places as evalica has them."""
    import evalica

    return evalica.indexing(range(len(arena.players)), ())[-1]


def _in_order(scores: Any) -> list[float]:
    """Scores that evalica has sorted, by the players' places."""
    return [float(score) for _, score in sorted(scores.items())]


def _cell(value: float | None, draws: Sequence[float], n: int, unbounded: int = 0) -> Cell:
    """The cell of a rating; `unbounded` draws have none, which may be too high or too low."""
    places = len(draws) + unbounded - 1
    if value is None or len(set(draws)) < 2 or unbounded > _TAIL * places:
        return Cell(value=value, n=n)
    infinite = [math.inf] * unbounded
    low = np.quantile([*(-end for end in infinite), *draws], _TAIL)
    high = np.quantile([*draws, *infinite], 1 - _TAIL)
    return Cell(value=value, n=n, low=float(low), high=float(high))
