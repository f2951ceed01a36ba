"""BotChat's tables and leaderboard: UniEval, GTEval, PairEval, arena, loops and lengths.

The arena's ratings are computed by evalica, with intervals by bootstrap; `RATINGS` says how.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import chain, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from judges.parsers.botchat import AUTHORS_UTTERANCES
from mmconv.benchmarks.base.compare import (
    CANDIDATE_LABEL,
    Board,
    BoardPart,
    CellPlace,
    Tables,
)
from mmconv.benchmarks.base.endings import SHARES
from mmconv.benchmarks.base.layouts import Build, Layout, Rows
from mmconv.benchmarks.botchat.dialogues import GTEVAL, HUMAN, PAIREVAL, SHORTEST_HUMAN, DupDetect
from mmconv.benchmarks.botchat.metrics import (
    AUTHORS_COLUMN,
    BAD_TIE,
    BEFORE,
    CON,
    CONDITIONS,
    DROPPED,
    DUP_FIRST,
    GOOD_TIE,
    JUDGE_ALONE,
    LOSS,
    OURS,
    OVERFLOWED,
    PERCENT,
    RATES,
    UNCON,
    WIN,
    named,
    table_of,
)
from mmconv.core.types import Axis, Cell, Table
from mmconv.stats import FEWEST_CLUSTERS, ScoreFrame

_LONG_ENOUGH = f"whose human dialogue has at least {SHORTEST_HUMAN} utterances"
UNIEVAL_NOTES = (
    "The authors' code takes a reply without an index for one that finds no AI, even after "
    f'"Choice: Yes". It takes a dialogue without AI for one of {AUTHORS_UTTERANCES} human '
    "utterances, and has no rate beyond.",
    f"Human length: N is the length of the human dialogue, for samples {_LONG_ENOUGH}.",
)
RATES_NOTE = (
    "Not bad: wins, and ties in which both are taken for human. The authors' denominator has "
    "unread replies; their win+tie adds two rounded rates."
)
HUMAN_NOTE = (
    f"{HUMAN} is the human dialogue. A run takes opponents and {HUMAN} only for samples "
    f"{_LONG_ENOUGH}."
)

_by_name = partial(Layout, columns="name", digits=1)
"""A table with a column for each metric."""


def layouts(
    dup_detect: DupDetect, *, compared: str, judge: str = "judged by {judge}"
) -> Iterator[Layout | Build]:
    """All tables, in their order.

    `compared` says which samples are compared, and `judge` ends titles.
    """
    loops = (
        f"DupDetect: an utterance repeats another by {dup_detect}. The paper publishes neither "
        "measure nor threshold; `mmconv calibrate botchat` fits the threshold."
    )
    comparisons = (
        f"Compared are samples {_LONG_ENOUGH} ({compared}), each in both orders: n counts every "
        "comparison."
    )
    title = f"UniEval: dialogues not taken for AI in their first N utterances (%), {judge}"
    yield _by_name("unieval", title, rows=_models, notes=UNIEVAL_NOTES)
    for protocol, (dup, before) in product(MATCHES, BEFORE.items()):
        yield _by_name(
            table_of(protocol, dup),
            f"{protocol}, {before} (%), {judge}",
            rows=MATCHES[protocol],
            notes=(RATES_NOTE, *((loops,) if dup == DUP_FIRST else ()), comparisons),
        )
    yield _by_name(
        "conditions",
        f"What the document changes, {CON} - {UNCON} (percentage points), {judge}",
        rows=_generated,
        notes=(
            "Differences are paired by dialogue, those of GTEval by comparison. PairEval is left "
            "out: the opponent's dialogue changes with the condition too.",
            loops,
            comparisons,
        ),
    )
    for dup, before in BEFORE.items():
        title = f"Arena of PairEval: ratings, {before}, {judge}"
        notes = (loops,) if dup == DUP_FIRST else ()
        yield partial(_arena, table_of("arena", dup), title, (*RATINGS, *notes), dup)
    yield from _comparisons(loops, comparisons)
    yield from _dialogues(loops)


def _models(frame: ScoreFrame) -> dict[str, ScoreFrame]:
    """The dialogues of each model under each condition."""
    return {
        named(model, condition): frame.only(model=model, condition=condition)
        for model, condition in product(frame.distinct("model"), frame.distinct("condition"))
    }


def _generated(frame: ScoreFrame) -> dict[str, ScoreFrame]:
    """The dialogues of each model that has new ones; stored ones are the same with a document."""
    models = frame.only(metric="dropped", condition=CON).distinct("model")
    return {model: frame.only(model=model) for model in models}


def _matches(protocol: str, frame: ScoreFrame) -> dict[str, ScoreFrame]:
    """The comparisons of each pair by a protocol.

    GTEval's have the length of each human dialogue, and one row for all of them.
    """
    compared = frame.only(metric="duel", protocol=protocol, reading=OURS, dup=JUDGE_ALONE)
    lengths = ("",) if protocol == GTEVAL else compared.distinct("length")
    rows = {}
    for model in compared.distinct("model"):
        own = compared.only(model=model)
        for opponent, length, condition in product(
            own.distinct("opponent"), lengths, frame.distinct("condition")
        ):
            where = {"model": model, "opponent": opponent, "condition": condition}
            where |= {"length": length} if length else {}
            if len(own.only(turn=None, **where)):
                versus = f" - {opponent}, N={length}" if length else ""
                name = named(f"{model}{versus}", condition)
                rows[name] = frame.only(turn=None, protocol=protocol, **where)
    return rows


MATCHES = {protocol: partial(_matches, protocol) for protocol in (GTEVAL, PAIREVAL)}
"""Protocol -> what gives the comparisons of each pair."""


def _all_matches(frame: ScoreFrame) -> dict[str, ScoreFrame]:
    return {
        f"{protocol}: {name}": part
        for protocol, matches in MATCHES.items()
        for name, part in frame.once(matches).items()
    }


def _missing_ratings(rows: Rows) -> Iterator[str]:
    if not is_available() and any(name.startswith(f"{PAIREVAL}: ") for name in rows):
        yield NOT_INSTALLED


def _comparisons(loops: str, comparisons: str) -> Iterator[Layout]:
    yield _by_name(
        "points",
        "Score of comparisons (-3 to 3)",
        rows=_all_matches,
        notes=(
            "(3 win + both taken for human - both taken for AI - 3 lose) / n. Two dialogues that "
            "loop count as both taken for AI.",
            loops,
            comparisons,
        ),
        digits=2,
    )
    yield _by_name(
        "judgements",
        "What was read of the comparisons",
        rows=_all_matches,
        notes=("A dialogue is not compared with itself: as the authors, we leave such pairs out.",),
        remarks=_missing_ratings,
        digits=0,
    )


def _dialogues(loops: str) -> Iterator[Layout]:
    yield _by_name(
        "loops",
        "Dialogues that do not begin to repeat themselves",
        rows=_models,
        notes=(
            "Non-loop utterances: the mean number up to the first that repeats another, that one "
            "included; all of them where none does.",
            loops,
            HUMAN_NOTE,
        ),
    )
    yield _by_name(
        "lengths",
        "Length of generated utterances: mean, and longest",
        rows=_models,
        notes=(
            "Tokens are those of the model's own server; the paper counts tokens of cl100k. "
            "Words are separated by blanks. The human's utterances are those after the seed.",
            HUMAN_NOTE,
        ),
    )
    yield Layout(
        "lengths_by_utterance",
        "Words by utterance",
        of="lengths",
        groups=("words",),
        rows=_models,
        columns={"turn": None},
        column_label="utterance {turn}",
        axis=Axis(title="utterance"),
        notes=(HUMAN_NOTE,),
        digits=1,
        detail=True,
    )
    title = "How the generated utterances ended, and what was dropped from full contexts"
    yield _by_name("replies", title, rows=_models, names=(*SHARES.values(), OVERFLOWED, DROPPED))


# --- leaderboard ---------------------------------------------------------------------------------


OWN_ARENA = (
    "Ratings are those of each run's own arena: they can be compared if the other models were the "
    "same."
)


def boards(runs: Sequence[Tables]) -> Iterator[Board]:
    """A board for each condition, ranked by UniEval at the largest length."""
    return (_board(runs, condition) for condition in CONDITIONS)


def _board(runs: Sequence[Tables], condition: str) -> Board:
    """Comparisons are decided by the judge alone here."""

    def place(table: str, column: str, name: str, row: str = CANDIDATE_LABEL) -> CellPlace:
        quantity = (name, PERCENT.title)
        return CellPlace(table=table, row=named(row, condition), column=column, quantity=quantity)

    columns = _names(run["unieval"].columns for run in runs if "unieval" in run)
    lengths = [name for name in columns if not name.startswith(AUTHORS_COLUMN)]
    dialogues = {
        name: place("unieval", name, named(f"UniEval, {name}", condition)) for name in lengths
    }
    loops = named("non-loop dialogues", condition)
    dialogues["non-loop (%)"] = place("loops", "non-loop (%)", loops)
    rates = {rate: place("gteval", rate, f"{named(GTEVAL, condition)}: {rate}") for rate in RATES}
    wins = {}
    for opponent in _opponents(runs, condition):
        name = f"{named(f'{PAIREVAL} against {opponent}', condition)}: win"
        row = f"{CANDIDATE_LABEL} - {opponent}"
        wins[f"win against {opponent}"] = place("paireval", "win", name, row)
    columns = _names(run["arena"].columns for run in runs if "arena" in run)
    ratings = {
        name: CellPlace(table="arena", row=CANDIDATE_LABEL, column=named(name, condition))
        for name in _of_condition(columns, condition)
    }
    numbers = [int(name[2:]) for name in lengths if name[2:].isdigit()]
    return Board(
        name=condition,
        headline=f"N={max(numbers)}" if numbers else "",
        least=("lose",),
        parts=[
            BoardPart(title=f"BotChat, UniEval (%), {condition}", columns=dialogues),
            BoardPart(name="gteval", title=f"BotChat, GTEval (%), {condition}", columns=rates),
            BoardPart(name="paireval", title=f"BotChat, PairEval (%), {condition}", columns=wins),
            BoardPart(
                name="arena",
                title=f"BotChat, ratings in PairEval's arena, {condition}",
                columns=ratings,
                notes=(OWN_ARENA,),
            ),
        ],
    )


def _opponents(runs: Sequence[Tables], condition: str) -> Iterable[str]:
    """The opponents with their lengths, from rows that are called `model - opponent, N=L`.

    Names may hold such a dash too: a part that is not an opponent has no number in any run.
    """
    rows = _names(run["paireval"].rows for run in runs if "paireval" in run)
    pairs = [name.split(" - ") for name in _of_condition(rows, condition)]
    return dict.fromkeys(" - ".join(pair[cut:]) for pair in pairs for cut in range(1, len(pair)))


def _names(lists: Iterable[Iterable[str]]) -> Iterable[str]:
    return dict.fromkeys(chain.from_iterable(lists))


def _of_condition(names: Iterable[str], condition: str) -> list[str]:
    is_con, suffix = condition == CON, named("", condition)
    return [name.removesuffix(suffix) for name in names if name.endswith(named("", CON)) == is_con]


# --- arena --------------------------------------------------------------------------------------

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


def _arena(name: str, title: str, notes: Sequence[str], dup: str, frame: ScoreFrame) -> Table:
    """The ratings of all models, by the length and condition that they are compared at.

    Without the package that computes ratings the table is empty.
    """
    by_group: dict[str, list[Game]] = {}
    for duels in frame.once(MATCHES[PAIREVAL]).values() if is_available() else ():
        places = map(duels.distinct, ("model", "opponent", "length", "condition"))
        (model,), (opponent,), (length,), (condition,) = places
        column = duels.select(metric="duel", reading=OURS, dup=dup)
        by_group.setdefault(named(f"N={length}", condition), []).extend(
            Game(left=model, right=opponent, points=points, cluster=cluster)
            for points, cluster in zip(column.values, column.clusters, strict=True)
            if points is not None
        )
    rows: dict[str, dict[str, Cell]] = {}
    for group, games in by_group.items():
        for model, cells in rate_models(games).items():
            rows.setdefault(model, {}).update((f"{k}, {group}", cell) for k, cell in cells.items())
    return Table.of(name, title, rows, digits=1, notes=tuple(notes))


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
