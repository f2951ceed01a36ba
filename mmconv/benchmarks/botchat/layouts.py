"""BotChat's tables and leaderboard: UniEval, GTEval, PairEval, arena, loops and lengths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TypeAlias

from judges.parsers.botchat import AUTHORS_UTTERANCES
from mmconv.benchmarks.botchat.arena import NOT_INSTALLED, Arena, is_available
from mmconv.benchmarks.botchat.dialogues import (
    CON,
    CONDITIONS,
    GTEVAL,
    HUMAN,
    PAIREVAL,
    SHORTEST_HUMAN,
    UNCON,
    named,
)
from mmconv.benchmarks.botchat.loops import DupDetect
from mmconv.benchmarks.botchat.metrics import (
    AUTHORS_COLUMN,
    BEFORE,
    HUMAN_LENGTH,
    PERCENT,
    RATES,
    table_of,
)
from mmconv.benchmarks.botchat.scoring import DUP_FIRST, JUDGE_ALONE, OURS
from mmconv.benchmarks.layouts import Build, Layout, Parts, Rows
from mmconv.benchmarks.shared.leaderboard import (
    CANDIDATE_LABEL,
    Board,
    BoardPart,
    CellPlace,
    Tables,
)
from mmconv.stats import ScoreFrame

Matches: TypeAlias = Mapping[str, Mapping[str, Mapping[str, str]]]
"""Protocol -> name of a row -> the tags of its comparisons."""

OWN_ARENA = (
    "Ratings are those of each run's own arena: they can be compared if the other models were the "
    "same."
)

_by_name = partial(Layout, columns="name", digits=1)
"""A table with a column for each metric."""

_LONG_ENOUGH = f"whose human dialogue has at least {SHORTEST_HUMAN} utterances"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What notes say of a run: how loops were found, and which samples are compared.

    `cut` is the length that longer human dialogues are cut to, None if none is longer. `judge` ends
    titles.
    """

    dup_detect: DupDetect
    compared: str
    cut: int | None = None
    judge: str = "judged by {judge}"

    @property
    def loops(self) -> str:
        """The settings of DupDetect."""
        return (
            f"DupDetect: an utterance repeats another by {self.dup_detect}. The paper publishes "
            "neither measure nor threshold; `mmconv calibrate botchat` fits the threshold."
        )

    @property
    def comparisons(self) -> str:
        """The reason why comparisons have another n than dialogues."""
        return (
            f"Compared are samples {_LONG_ENOUGH} ({self.compared}), each in both orders: n counts "
            "every comparison."
        )

    def unieval(self, rows: Rows) -> Iterator[str]:
        """What the lengths in these columns are."""
        columns = {column for row in rows.values() for column in row}
        if any(f"{AUTHORS_COLUMN}{name}" not in columns for name in columns if name[:2] == "N="):
            yield (
                "The authors' code takes a dialogue without AI for one of "
                f"{AUTHORS_UTTERANCES} human utterances, and has no rate beyond."
            )
        if HUMAN_LENGTH in columns:
            most = "" if self.cut is None else f", {self.cut} at most"
            yield (
                f"Human length: N is the length of the human dialogue{most}, for samples "
                f"{_LONG_ENOUGH} ({self.compared})."
            )

    def dialogues(self, rows: Rows) -> Iterator[str]:
        """What the row of GT is, and which samples it and opponents have."""
        if {HUMAN, named(HUMAN, CON)} & rows.keys():
            whole = "of whatever length it has"
            cut = whole if self.cut is None else f"cut after {self.cut} utterances"
            yield (
                f"{HUMAN} is the human dialogue, {cut}. A run takes opponents and {HUMAN} only for "
                f"samples {_LONG_ENOUGH}."
            )


def layouts(frame: ScoreFrame, provenance: Provenance) -> Iterator[Layout | Build]:
    """All tables of these scores, in their order."""
    matches = {protocol: _matches(frame, protocol) for protocol in (GTEVAL, PAIREVAL)}
    dialogues = Parts(
        {
            named(model, condition): {"model": model, "condition": condition}
            for model in frame.distinct("model")
            for condition in frame.distinct("condition")
        }
    )
    yield from _rate_tables(frame, matches, dialogues, provenance)
    for dup, before in BEFORE.items():
        title = f"Arena of PairEval: ratings, {before}, {provenance.judge}"
        notes = (provenance.loops,) if dup == DUP_FIRST else ()
        yield Arena(table_of("arena", dup), title, dup, matches[PAIREVAL], notes)
    yield from _comparison_tables(matches, provenance)
    yield from _dialogue_tables(dialogues, provenance)


def _matches(frame: ScoreFrame, protocol: str) -> dict[str, dict[str, str]]:
    """The rows of a protocol's table: pairs with comparisons, by their names.

    GTEval's comparisons have the length of each human dialogue, and one row for all of them.
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
            if len(own.select(turn=None, **where)):
                versus = f" - {opponent}, N={length}" if length else ""
                rows[named(f"{model}{versus}", condition)] = where
    return rows


def _rate_tables(
    frame: ScoreFrame, matches: Matches, dialogues: Parts, provenance: Provenance
) -> Iterator[Layout]:
    """UniEval's rates, those of each protocol without and with DupDetect, and their changes."""
    yield _by_name(
        "unieval",
        f"UniEval: dialogues not taken for AI in their first N utterances (%), {provenance.judge}",
        rows=dialogues,
        notes=(
            "The authors' code takes a reply without an index for one that finds no AI, even "
            'after "Choice: Yes".',
        ),
        remarks=provenance.unieval,
    )
    for protocol, rows in matches.items():
        for dup, before in BEFORE.items():
            yield _by_name(
                table_of(protocol, dup),
                f"{protocol}, {before} (%), {provenance.judge}",
                rows=Parts(rows),
                notes=(
                    "Not bad: wins, and ties in which both are taken for human. The authors' "
                    "denominator has unread replies; their win+tie adds two rounded rates.",
                    *((provenance.loops,) if dup == DUP_FIRST else ()),
                    provenance.comparisons,
                ),
            )
    # stored dialogues are the same under both conditions
    generated = frame.only(metric="dropped", condition=CON).distinct("model")
    yield _by_name(
        "conditions",
        f"What the document changes, {CON} - {UNCON} (percentage points), {provenance.judge}",
        rows=Parts({model: {"model": model} for model in generated}),
        notes=(
            "Differences are paired by dialogue, those of GTEval by comparison. PairEval is left "
            "out: the opponent's dialogue changes with the condition too.",
            provenance.loops,
            provenance.comparisons,
        ),
    )


def _comparison_tables(matches: Matches, provenance: Provenance) -> Iterator[Layout]:
    """The Score of comparisons, and what was read of them."""
    rows = Parts(
        {
            f"{protocol}: {name}": {**where, "protocol": protocol}
            for protocol, rows in matches.items()
            for name, where in rows.items()
        }
    )
    yield _by_name(
        "points",
        "Score of comparisons (-3 to 3)",
        rows=rows,
        notes=(
            "(3 win + both taken for human - both taken for AI - 3 lose) / n. Two dialogues that "
            "loop count as both taken for AI.",
            provenance.loops,
            provenance.comparisons,
        ),
        digits=2,
    )
    is_unrated = bool(matches[PAIREVAL]) and not is_available()
    yield _by_name(
        "judgements",
        "What was read of the comparisons",
        rows=rows,
        notes=(
            "A dialogue is not compared with itself: as the authors, we leave such pairs out.",
            *((NOT_INSTALLED,) if is_unrated else ()),
        ),
        digits=0,
    )


def _dialogue_tables(rows: Parts, provenance: Provenance) -> Iterator[Layout]:
    """Loops, lengths, and how utterances ended; no judgement is read here."""
    yield _by_name(
        "loops",
        "Dialogues that do not begin to repeat themselves",
        rows=rows,
        notes=(
            "Non-loop utterances: the mean number up to the first that repeats another, that one "
            "included; all of them where none does.",
            provenance.loops,
        ),
        remarks=provenance.dialogues,
    )
    yield _by_name(
        "lengths",
        "Length of generated utterances: mean, and longest",
        rows=rows,
        notes=(
            "Tokens are those of the model's own server; the paper counts tokens of cl100k. "
            "Words are separated by blanks. The human's utterances are those after the seed.",
        ),
        remarks=provenance.dialogues,
    )
    yield Layout(
        "lengths_by_utterance",
        "Words by utterance",
        of="lengths",
        groups=("words",),
        rows=rows,
        columns={"turn": None},
        column_label="utterance {turn}",
        remarks=provenance.dialogues,
        digits=1,
        detail=True,
    )
    title = "How the generated utterances ended, and what was dropped from full contexts"
    yield _by_name("replies", title, rows=rows)


def boards(runs: Sequence[Tables]) -> Iterator[Board]:
    """A board for each condition, ranked by UniEval at the largest length."""
    return (_board(runs, condition) for condition in CONDITIONS)


def _board(runs: Sequence[Tables], condition: str) -> Board:
    """Comparisons are decided by the judge alone here."""

    def place(table: str, column: str, name: str, row: str = CANDIDATE_LABEL) -> CellPlace:
        quantity = (name, PERCENT.title)
        return CellPlace(table=table, row=named(row, condition), column=column, quantity=quantity)

    columns = [name for run in runs if "unieval" in run for name in run["unieval"].columns]
    lengths = [name for name in dict.fromkeys(columns) if not name.startswith(AUTHORS_COLUMN)]
    dialogues = {
        name: place("unieval", name, named(f"UniEval, {name}", condition)) for name in lengths
    }
    loops = named("non-loop dialogues", condition)
    dialogues["non-loop (%)"] = place("loops", "non-loop (%)", loops)
    rates = {rate: place("gteval", rate, f"{named(GTEVAL, condition)}: {rate}") for rate in RATES}
    wins = {
        f"win against {opponent}": place(
            "paireval",
            "win",
            f"{named(f'{PAIREVAL} against {opponent}', condition)}: win",
            row=f"{CANDIDATE_LABEL} - {opponent}",
        )
        for opponent in _opponents(runs, condition)
    }
    columns = [name for run in runs if "arena" in run for name in run["arena"].columns]
    ratings = {
        name: CellPlace(table="arena", row=CANDIDATE_LABEL, column=named(name, condition))
        for name in _of_condition(columns, condition)
    }
    parts = {
        "": ("UniEval (%)", dialogues),
        "gteval": ("GTEval (%)", rates),
        "paireval": ("PairEval (%)", wins),
        "arena": ("ratings in PairEval's arena", ratings),
    }
    numbers = [int(name[2:]) for name in lengths if name[2:].isdigit()]
    return Board(
        name=condition,
        headline=f"N={max(numbers)}" if numbers else "",
        parts=[
            BoardPart(
                name=name,
                title=f"BotChat, {title}, {condition}",
                columns=places,
                notes=(OWN_ARENA,) if name == "arena" else (),
            )
            for name, (title, places) in parts.items()
        ],
    )


def _opponents(runs: Sequence[Tables], condition: str) -> Iterable[str]:
    """The opponents with their lengths, from rows that are called `model - opponent, N=L`.

    Names may hold such a dash too: a part that is not an opponent has no number in any run.
    """
    rows = [name for run in runs if "paireval" in run for name in run["paireval"].rows]
    pairs = [name.split(" - ") for name in _of_condition(rows, condition)]
    return dict.fromkeys(" - ".join(pair[cut:]) for pair in pairs for cut in range(1, len(pair)))


def _of_condition(names: Iterable[str], condition: str) -> list[str]:
    """The names that `named` gave a condition, without it."""
    is_con, suffix = condition == CON, named("", condition)
    return [
        name.removesuffix(suffix)
        for name in dict.fromkeys(names)
        if name.endswith(named("", CON)) == is_con
    ]
