"""The arena's ratings: Elo and Bradley-Terry by evalica, with intervals by bootstrap.

Elo starts from 1000 with K = 32 and a scale of 400, as the authors' does; the order of their games
is not public, and Elo depends on it. So games are played in random orders, over dialogues drawn
with replacement: a rating is the median of the draws. Bradley-Terry ratings do not depend on the
order; they are those of the data itself, put on Elo's scale with a mean of 1000. Ties are half a
win for each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmconv.benchmarks.botchat.dialogues import PAIREVAL, named
from mmconv.benchmarks.botchat.scoring import BAD_TIE, GOOD_TIE, LOSS, OURS, WIN
from mmconv.core.types import Cell, Table
from mmconv.stats import FEWEST_CLUSTERS, ScoreFrame

Places: TypeAlias = NDArray[np.intp]

ELO = "Elo"
TERRY = "Bradley-Terry"

START = 1000.0
SCALE = 400.0
K = 32.0
DRAWS = 200

NOT_INSTALLED = "Elo and Bradley-Terry ratings need the package evalica, which is not installed."
RATINGS = (
    "Elo: from 1000, K = 32, scale 400; the median over draws of dialogues, played in random "
    "orders (the authors' order is not public). Bradley-Terry: on Elo's scale with a mean of 1000. "
    "A tie is half a win for each. Computed by evalica.",
    "Brackets hold the middle 95 % of the draws of dialogues.",
    "A Bradley-Terry rating or interval is not there if no finite one fits: a model never wins or "
    "ties against the others, in the data or in too many draws. Of a model whose games all end "
    f"alike, Elo shows how far K = {K:.0f} gets, not its strength.",
)

_TAIL = 0.025
_TOLERANCE = 1e-9
_ITERATIONS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """One comparison: its points for the left model, and the dialogue that it belongs to."""

    left: str
    right: str
    points: float
    cluster: str


@dataclass(frozen=True, slots=True)
class Arena:
    """The table of all models' ratings, by the length and condition that they are compared at.

    `matches` are the pairs that are compared, each by the tags of its scores.
    """

    name: str
    title: str
    dup: str
    matches: Mapping[str, Mapping[str, str]]
    notes: tuple[str, ...]

    def __call__(self, frame: ScoreFrame) -> Table:
        """A row for each model; none without the package that computes ratings."""
        rows: dict[str, dict[str, Cell]] = {}
        for group, games in self._games(frame).items() if is_available() else ():
            for model, cells in rate_models(games).items():
                row = {f"{name}, {group}": cell for name, cell in cells.items()}
                rows.setdefault(model, {}).update(row)
        return Table(
            name=self.name,
            title=self.title,
            columns=tuple(dict.fromkeys(name for row in rows.values() for name in row)),
            rows=rows,
            digits=1,
            notes=(*RATINGS, *self.notes),
        )

    def _games(self, frame: ScoreFrame) -> dict[str, list[Game]]:
        """The comparisons that have points, by length and condition."""
        by_group: dict[str, list[Game]] = {}
        for where in self.matches.values():
            column = frame.select(
                turn=None, metric="duel", protocol=PAIREVAL, reading=OURS, dup=self.dup, **where
            )
            games = by_group.setdefault(named(f"N={where['length']}", where["condition"]), [])
            games += [
                Game(left=where["model"], right=where["opponent"], points=points, cluster=cluster)
                for points, cluster in zip(column.values, column.clusters, strict=True)
                if points is not None
            ]
        return by_group


def is_available() -> bool:
    """Whether the package that computes ratings is installed."""
    return find_spec("evalica") is not None


def rate_models(
    games: Sequence[Game], draws: int = DRAWS, seed: int = 0
) -> dict[str, dict[str, Cell]]:
    """Model -> `Elo` and `Bradley-Terry` -> cell.

    Intervals are those between the 2.5 % and 97.5 % percentiles of the draws; there is none over
    fewer dialogues than any interval needs. A draw that has no finite Bradley-Terry ratings counts
    as one below the low end and above the high one: there is none if either is infinite.
    """
    if not games:
        return {}
    played = _Games.of(games)
    elo, terry = [], []
    for number in range(draws):
        drawn = played.draw(np.random.default_rng([seed, number]))
        elo.append(_elo(drawn))
        if (ratings := _bradley_terry(drawn)) is not None:
            terry.append(ratings)
    fitted = _bradley_terry(played)
    counts = Counter(name for game in games for name in (game.left, game.right))
    cells = {}
    for place, model in enumerate(played.models):
        by_elo, by_terry = ([each[place] for each in ratings] for ratings in (elo, terry))
        median, value = float(np.median(by_elo)), None if fitted is None else fitted[place]
        if len(played.dialogues) < FEWEST_CLUSTERS:
            by_elo, by_terry = [], []
        cells[model] = {
            ELO: _cell(median, by_elo, counts[model]),
            TERRY: _cell(value, by_terry, counts[model], draws - len(terry)),
        }
    return cells


@dataclass(frozen=True, slots=True, kw_only=True)
class _Games:
    """Games as arrays: models by their place in `models`, and evalica's `winners`.

    `dialogues` holds the places of each dialogue's games.
    """

    models: tuple[str, ...]
    lefts: Places
    rights: Places
    winners: Places
    dialogues: tuple[Places, ...]

    @staticmethod
    def of(games: Sequence[Game]) -> _Games:
        from evalica import Winner

        winners = {WIN: Winner.X, GOOD_TIE: Winner.Draw, BAD_TIE: Winner.Draw, LOSS: Winner.Y}
        names = dict.fromkeys(name for game in games for name in (game.left, game.right))
        place_of = {name: place for place, name in enumerate(names)}
        dialogues: dict[str, list[int]] = {}
        for place, game in enumerate(games):
            dialogues.setdefault(game.cluster, []).append(place)
        return _Games(
            models=tuple(names),
            lefts=np.array([place_of[game.left] for game in games]),
            rights=np.array([place_of[game.right] for game in games]),
            winners=np.array([winners[game.points] for game in games]),
            dialogues=tuple(map(np.array, dialogues.values())),
        )

    def draw(self, random: np.random.Generator) -> _Games:
        """The games of as many dialogues, drawn with replacement, in random order."""
        chosen = random.integers(len(self.dialogues), size=len(self.dialogues))
        drawn = np.concatenate([self.dialogues[place] for place in chosen.tolist()])
        drawn = drawn[random.permutation(len(drawn))]
        lefts, rights, winners = (each[drawn] for each in (self.lefts, self.rights, self.winners))
        return replace(self, lefts=lefts, rights=rights, winners=winners, dialogues=())


def _elo(games: _Games) -> list[float]:
    # pandas comes with it, and only the end of a run with an arena needs it
    import evalica

    index = evalica.indexing(range(len(games.models)), ())[-1]
    winners = games.winners.tolist()
    result = evalica.elo(
        games.lefts, games.rights, winners, index=index, initial=START, scale=SCALE, k=K
    )
    ratings: list[float] = result.scores.sort_index().tolist()
    return ratings


def _bradley_terry(games: _Games) -> list[float] | None:
    """The ratings; None if the likelihood has no maximum."""
    import evalica

    # equal games with a weight fit as fast for thousands as for a few
    kinds = len(games.models), len(games.models), len(evalica.Winner)
    counts = np.bincount(np.ravel_multi_index((games.lefts, games.rights, games.winners), kinds))
    different = np.flatnonzero(counts)
    lefts, rights, winners = np.unravel_index(different, kinds)
    if not _is_bounded(lefts, rights, winners, len(games.models)):
        return None
    result = evalica.bradley_terry(
        lefts,
        rights,
        winners.tolist(),
        index=evalica.indexing(range(len(games.models)), ())[-1],
        weights=counts[different].astype(float),
        tolerance=_TOLERANCE,
        limit=_ITERATIONS,
    )
    strengths = [math.log10(score) for score in result.scores.sort_index()]
    centre = math.fsum(strengths) / len(strengths)
    return [START + SCALE * (strength - centre) for strength in strengths]


def _is_bounded(lefts: Places, rights: Places, winners: Places, models: int) -> bool:
    """Whether every model is reached from every other by wins and ties (Ford, 1957)."""
    from evalica import Winner

    reached = np.eye(models, dtype=np.bool_)
    reached[lefts[winners != Winner.Y], rights[winners != Winner.Y]] = True
    reached[rights[winners != Winner.X], lefts[winners != Winner.X]] = True
    for _ in range(models.bit_length()):
        reached = reached @ reached
    return bool(reached.all())


def _cell(value: float | None, draws: Sequence[float], n: int, unbounded: int = 0) -> Cell:
    """The cell of a rating; `unbounded` draws have none, which may be too high or too low."""
    places = len(draws) + unbounded - 1
    if value is None or len(set(draws)) < 2 or unbounded > _TAIL * places:
        return Cell(value=value, n=n)
    infinite = [math.inf] * unbounded
    low = np.quantile([*(-end for end in infinite), *draws], _TAIL)
    high = np.quantile([*draws, *infinite], 1 - _TAIL)
    return Cell(value=value, n=n, low=float(low), high=float(high))
