"""The arena of PairEval: Elo and Bradley-Terry ratings by evalica, with intervals by bootstrap."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmconv.benchmarks.botchat.metrics import BAD_TIE, GOOD_TIE, LOSS, WIN
from mmconv.core.types import Cell
from mmconv.stats import FEWEST_CLUSTERS

Places: TypeAlias = NDArray[np.intp]

ELO, TERRY = "Elo", "Bradley-Terry"
START, SCALE, K = 1000.0, 400.0, 32.0
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """One comparison: its points for the left model, and the dialogue that it belongs to."""

    left: str
    right: str
    points: float
    cluster: str


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
    from evalica import Winner

    winners = {WIN: Winner.X, GOOD_TIE: Winner.Draw, BAD_TIE: Winner.Draw, LOSS: Winner.Y}
    counts = Counter(name for game in games for name in (game.left, game.right))
    place_of = {name: place for place, name in enumerate(counts)}
    rows = np.array([(place_of[g.left], place_of[g.right], winners[g.points]) for g in games])
    dialogues: dict[str, list[int]] = {}
    for row, game in enumerate(games):
        dialogues.setdefault(game.cluster, []).append(row)
    members = [np.array(each) for each in dialogues.values()]
    elo, terry = [], []
    for number in range(draws):
        random = np.random.default_rng([seed, number])
        chosen = random.integers(len(members), size=len(members))
        drawn = np.concatenate([members[place] for place in chosen.tolist()])
        played = rows[drawn[random.permutation(len(drawn))]]
        elo.append(_elo(played, len(counts)))
        if (ratings := _bradley_terry(played, len(counts))) is not None:
            terry.append(ratings)
    fitted = _bradley_terry(rows, len(counts))
    cells = {}
    for place, (model, count) in enumerate(counts.items()):
        by_elo, by_terry = ([each[place] for each in ratings] for ratings in (elo, terry))
        median, value = float(np.median(by_elo)), None if fitted is None else fitted[place]
        if len(members) < FEWEST_CLUSTERS:
            by_elo, by_terry = [], []
        cells[model] = {
            ELO: _cell(median, by_elo, count),
            TERRY: _cell(value, by_terry, count, draws - len(terry)),
        }
    return cells


def _elo(games: Places, models: int) -> list[float]:
    """The ratings after `games`: an array[n, 3] of left model, right model and evalica's winner."""
    # pandas comes with it, and only the end of a run with an arena needs it
    import evalica

    lefts, rights, winners = games.T
    index = evalica.indexing(range(models), ())[-1]
    result = evalica.elo(
        lefts, rights, winners.tolist(), index=index, initial=START, scale=SCALE, k=K
    )
    ratings: list[float] = result.scores.sort_index().tolist()
    return ratings


def _bradley_terry(games: Places, models: int) -> list[float] | None:
    """The ratings by `games`, as of `_elo`; None if the likelihood has no maximum."""
    import evalica

    # equal games with a weight fit as fast for thousands as for a few
    kinds, counts = np.unique(games, axis=0, return_counts=True)
    lefts, rights, winners = kinds.T
    if not _is_bounded(lefts, rights, winners, models):
        return None
    result = evalica.bradley_terry(
        lefts,
        rights,
        winners.tolist(),
        index=evalica.indexing(range(models), ())[-1],
        weights=counts.astype(float),
        tolerance=1e-9,
        limit=10_000,
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
