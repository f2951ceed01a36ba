"""BotChat's tables and leaderboard: UniEval, GTEval, PairEval, arena, loops and lengths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, product

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
from mmconv.benchmarks.botchat.arena import (
    NOT_INSTALLED,
    RATINGS,
    Game,
    is_available,
    rate_models,
)
from mmconv.benchmarks.botchat.dialogues import GTEVAL, HUMAN, PAIREVAL, SHORTEST_HUMAN, DupDetect
from mmconv.benchmarks.botchat.metrics import (
    AUTHORS_COLUMN,
    BEFORE,
    CON,
    CONDITIONS,
    DROPPED,
    DUP_FIRST,
    JUDGE_ALONE,
    OURS,
    OVERFLOWED,
    PERCENT,
    RATES,
    UNCON,
    named,
    table_of,
)
from mmconv.core.types import Axis, Cell, Table
from mmconv.stats import ScoreFrame

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
