"""What BotChat measures, and its tables: UniEval, GTEval, PairEval, arena, loops and lengths.

Comparisons are shown twice: by the judge alone, as on the authors' leaderboard, and with DupDetect
first, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, TypeAlias

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
    UTTERANCES,
    checkpoints,
    named,
)
from mmconv.benchmarks.botchat.judging import (
    AUTHORS,
    BAD_TIE,
    DUP,
    GOOD_TIE,
    JUDGE,
    LOSS,
    OURS,
    UNKNOWN,
    WIN,
    DupDetect,
)
from mmconv.benchmarks.layouts import Build, Context, Layout, Parts, Rows, make_tables
from mmconv.benchmarks.metrics import (
    ColumnOf,
    Delta,
    Group,
    Mean,
    Metric,
    Official,
    Select,
    share,
)
from mmconv.benchmarks.shared.endings import SHARES, TOKENS
from mmconv.core.types import SAME_TEXT, Cell, Table
from mmconv.stats import Column, ScoreFrame

RATES: dict[str, tuple[float, ...]] = {
    "win": (WIN,),
    "tie": (GOOD_TIE, BAD_TIE),
    "lose": (LOSS,),
    "win+tie": (WIN, GOOD_TIE, BAD_TIE),
    "not bad": (WIN, GOOD_TIE),
}
"""Rate -> the points that count for it. Not bad: the judge takes the model's for human."""

PERCENT = share("%")
CHANGE = replace(PERCENT, title=f"{CON} - {UNCON} (points)")
POINTS = Group(title="-3 to 3", lowest=LOSS, highest=WIN)

AUTHORS_COLUMN = "authors: "
"""What the columns of the authors' convention begin with."""

HUMAN_LENGTH = "human length"
LENGTHS = (TOKENS, "words", "characters")

_by_name = partial(Layout, columns="name", digits=1)
"""A table with a column for each metric."""

_LONG_ENOUGH = f"whose human dialogue has at least {SHORTEST_HUMAN} utterances"
_BEFORE = {JUDGE: "the judge alone", DUP: "DupDetect before the judge"}
_Matches: TypeAlias = Mapping[str, Mapping[str, Mapping[str, str]]]
"""Protocol -> name of a row -> the tags of its comparisons."""


def metrics(options: Mapping[str, Any]) -> Iterator[Metric]:
    """All metrics of a run with these options; a run has a part of them."""
    lengths = checkpoints(int(options.get("utterances", UTTERANCES)))
    for condition in CONDITIONS:
        for mean in _shares(condition, lengths):
            yield replace(mean, name=named(mean.name, condition))
    for protocol in (GTEVAL, PAIREVAL):
        for condition in CONDITIONS:
            for dup in (JUDGE, DUP):
                yield from _rates(protocol, condition, dup)
    yield from _changes(lengths)
    for dup in (JUDGE, DUP):
        yield Mean(dup, of=_comparisons(dup=dup), group=POINTS, table="points", compare=None)
    yield from _official(lengths)
    yield from _counts()
    yield from _lengths_and_endings()


def _shares(condition: str, lengths: tuple[int, ...]) -> Iterator[Mean]:
    """UniEval at each length, and dialogues without a loop."""
    passed = Select("pass", condition=condition, where={"reading": OURS}, reduce="rows")
    selects = {f"N={length}": replace(passed, turn=length) for length in lengths}
    selects[HUMAN_LENGTH] = replace(passed, score="pass_at_human_length")
    for label, of in selects.items():
        yield Mean(f"UniEval, {label}", of=of, group=PERCENT, table="unieval", label=label)
    of = Select("non_loop", condition=condition, reduce="rows")
    label = "non-loop (%)"
    yield Mean("non-loop dialogues", of=of, group=PERCENT, table="loops", label=label)


def _rates(protocol: str, condition: str, dup: str) -> Iterator[Mean]:
    """The rates of comparisons; those of PairEval are of one opponent and length each."""
    is_paired = protocol == PAIREVAL
    versus = " against {opponent}, N={length}" if is_paired else ""
    before = "" if dup == JUDGE else f", {_BEFORE[DUP]}"
    name = named(f"{protocol}{versus}{before}", condition)
    for rate, points in RATES.items():
        yield Mean(
            f"{name}: {rate}",
            of=_comparisons(protocol, dup=dup, condition=condition, points=points),
            group=PERCENT,
            table=_table(protocol, dup),
            label=rate,
            tags=("opponent", "length") if is_paired else (),
        )


def _changes(lengths: tuple[int, ...]) -> Iterator[Delta]:
    """What the document changes, paired by dialogue, or by comparison.

    Both conditions go on from the same seeds and are judged by the same prompts against the same
    human dialogues. PairEval has no such difference: its opponent's dialogue changes too.
    """
    sides = []
    for condition in (UNCON, CON):
        sides.append([*_shares(condition, lengths)])
        for dup, before in ((JUDGE, ""), (DUP, ", DupDetect first")):
            of = _comparisons(GTEVAL, dup=dup, condition=condition, points=RATES["win+tie"])
            sides[-1].append(Mean(f"{GTEVAL} win+tie{before}", of=of, group=PERCENT))
    for start, goal in zip(*sides, strict=True):
        change = Delta(start.name, start=start, goal=goal, group=CHANGE, table="conditions")
        yield replace(change, sides=(UNCON, CON))


def _official(lengths: tuple[int, ...]) -> Iterator[Official]:
    """The authors' columns of UniEval, of rates and of points."""
    for length in lengths:
        passed = Select("pass", turn=length, where={"reading": AUTHORS}, reduce="rows")
        yield _column(f"{AUTHORS_COLUMN}N={length}", "unieval", passed, official_share)
    for dup in (JUDGE, DUP):
        for protocol in (GTEVAL, PAIREVAL):
            of = _comparisons(protocol, reading=AUTHORS, dup=dup)
            for rate in RATES:
                convention = partial(official_rate, rate)
                yield _column(f"{AUTHORS_COLUMN}{rate}", _table(protocol, dup), of, convention)
        of = _comparisons(reading=AUTHORS, dup=dup)
        yield _column(f"{AUTHORS_COLUMN}{dup}", "points", of, official_points)


def _counts() -> Iterator[Official]:
    """How many comparisons there are, were read and were not read."""
    ours, theirs = _comparisons(), _comparisons(reading=AUTHORS)

    def read(column: Column) -> Cell:
        return Cell(value=float(column.present.sum()), missing=dict(column.missing))

    yield _column("comparisons", "judgements", ours, lambda column: Cell(value=float(len(column))))
    yield _column("read", "judgements", ours, read)
    unread, same = partial(_count_missing, UNKNOWN), partial(_count_missing, SAME_TEXT)
    yield _column("unread by the authors", "judgements", theirs, unread)
    yield _column("of the same text", "judgements", ours, same)


def _lengths_and_endings() -> Iterator[Metric]:
    """How long dialogues and utterances are, how utterances ended, and what was dropped."""
    means = {"non-loop utterances": ("non_loop_utterances", "loops")}
    means |= {score: (score, "lengths") for score in LENGTHS}
    for name, (score, table) in means.items():
        of, group = Select(score, reduce="rows"), Group(title=name, lowest=0.0)
        yield Mean(name, of=of, group=group, table=table, compare=None)
    for score in LENGTHS:
        yield _column(f"longest ({score})", "lengths", Select(score, reduce="rows"), _longest)
    for score, title in SHARES.items():
        of = Select(score, reduce="rows")
        yield Mean(title, of=of, group=PERCENT, table="replies", compare=None)
    dropped = Select("dropped", reduce="rows")
    yield _column("prompts that overflowed", "replies", dropped, _overflows)
    yield _column(
        "utterances dropped",
        "replies",
        dropped,
        lambda column: Cell(value=sum(_numbers(column), 0.0)),
    )


def _comparisons(
    protocol: str | tuple[str, ...] = (GTEVAL, PAIREVAL),
    *,
    reading: str = OURS,
    dup: str = JUDGE,
    condition: str | None = None,
    points: tuple[float, ...] = (),
) -> Select:
    """Points of comparisons, or 0 and 1 for those in `points`; both orders of a pair count."""
    return Select(
        "duel",
        condition=condition,
        where={"protocol": protocol, "reading": reading, "dup": dup},
        reduce="rows",
        apart="order",
        value=(lambda number: float(number in points)) if points else None,
    )


def _table(protocol: str, dup: str) -> str:
    return protocol.lower() if dup == JUDGE else f"{protocol.lower()}_dupdetect"


def _column(name: str, table: str, of: ColumnOf, count: Callable[[Column], Cell]) -> Official:
    """A number that a function counts in a column, in a table's column of this name."""

    def compute(frame: ScoreFrame) -> Cell | None:
        column = of(frame)
        return count(column) if len(column) else None

    return Official(name, compute=compute, group=Group(title=name), table=table)


def official_share(column: Column) -> Cell:
    """The authors' UniEval rate: in percent, rounded to 0.1, over what their code can read."""
    numbers = _numbers(column)
    value = round(100 * sum(numbers) / len(numbers), 1) if numbers else None
    return Cell(value=value, n=len(numbers), missing=dict(column.missing))


def official_rate(name: str, column: Column) -> Cell:
    """The authors' rate: of all comparisons, unread ones included, rounded to 0.1 %.

    Their win+tie is the sum of two rounded rates, so it can be 0.1 off. Pairs of the same text are
    dropped, and so is what was never judged.
    """
    n, dropped = _authors_count(column)
    parts = ("win", "tie") if name == "win+tie" else (name,)
    counts = [sum(points in RATES[part] for points in _numbers(column)) for part in parts]
    value = round(sum(round(100 * count / n, 1) for count in counts), 1) if n else None
    return Cell(value=value, n=n, missing=dropped)


def official_points(column: Column) -> Cell:
    """The authors' Score: over all comparisons, unread ones included."""
    n, dropped = _authors_count(column)
    return Cell(value=sum(_numbers(column)) / n if n else None, n=n, missing=dropped)


def _authors_count(column: Column) -> tuple[int, dict[str, int]]:
    """How many comparisons the authors count, the unread ones among them, and what they drop."""
    dropped = dict(column.missing)
    return int(column.present.sum()) + dropped.pop(UNKNOWN, 0), dropped


def _count_missing(reason: str, column: Column) -> Cell:
    return Cell(value=float(column.missing[reason]))


def _longest(column: Column) -> Cell:
    return Cell(value=max(_numbers(column), default=None))


def _overflows(column: Column) -> Cell:
    overflowed = [float(dropped > 0) for dropped in _numbers(column)]
    return Cell(value=sum(overflowed), n=len(overflowed), missing=dict(column.missing))


def _numbers(column: Column) -> list[float]:
    numbers: list[float] = column.numbers[column.present].tolist()
    return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What notes say of a run: how loops were found, and which samples are compared.

    `cut` is the length that longer human dialogues are cut to, None if none is longer.
    """

    dup_detect: DupDetect
    compared: str
    cut: int | None = None

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

    def rows(self, frame: ScoreFrame, score: str) -> Iterator[str]:
        """Who GT is, if it has a row, and whether rows are of different samples."""
        samples = {
            model: frozenset(column.samples)
            for model in frame.distinct("model")
            if len(column := frame.select(metric=score, model=model))
        }
        if HUMAN in samples:
            whole = "of whatever length it has"
            cut = whole if self.cut is None else f"cut after {self.cut} utterances"
            yield f"{HUMAN} is the human dialogue, {cut}."
        if len({*samples.values()}) > 1:
            yield (
                f"Rows are not of the same samples: a run takes opponents and {HUMAN} only for "
                f"samples {_LONG_ENOUGH}."
            )


def build_tables(
    frame: ScoreFrame, options: Mapping[str, Any], provenance: Provenance, context: Context
) -> list[Table]:
    """All tables that the scores have something for."""
    matches = {protocol: _matches(frame, protocol) for protocol in (GTEVAL, PAIREVAL)}
    dialogues = Parts(
        {
            named(model, condition): {"model": model, "condition": condition}
            for model in frame.distinct("model")
            for condition in frame.distinct("condition")
        }
    )
    arranged: list[Layout | Build] = [
        *_rate_tables(frame, matches, dialogues, provenance, context.judge)
    ]
    for dup, before in _BEFORE.items():
        title = f"Arena of PairEval: ratings, {before}, {context.judge}"
        notes = (provenance.loops,) if dup == DUP else ()
        arranged.append(Arena(_table("arena", dup), title, dup, matches[PAIREVAL], notes))
    arranged += _comparison_tables(matches, provenance)
    arranged += _dialogue_tables(frame, dialogues, provenance)
    return make_tables(arranged, [*metrics(options)], {context.candidate: frame}, context)


def _matches(frame: ScoreFrame, protocol: str) -> dict[str, dict[str, str]]:
    """The rows of a protocol's table: pairs with comparisons, by their names.

    GTEval's comparisons have the length of each human dialogue, and one row for all of them.
    """
    compared = frame.only(metric="duel", protocol=protocol, reading=OURS, dup=JUDGE)
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
    frame: ScoreFrame, matches: _Matches, dialogues: Parts, provenance: Provenance, judge: str
) -> Iterator[Layout]:
    """UniEval's rates, those of each protocol without and with DupDetect, and their changes."""
    yield _by_name(
        "unieval",
        f"UniEval: dialogues not taken for AI in their first N utterances (%), {judge}",
        rows=dialogues,
        notes=(
            "The authors' code takes a reply without an index for one that finds no AI, even "
            'after "Choice: Yes".',
        ),
        remarks=provenance.unieval,
    )
    for protocol, rows in matches.items():
        for dup, before in _BEFORE.items():
            yield _by_name(
                _table(protocol, dup),
                f"{protocol}, {before} (%), {judge}",
                rows=Parts(rows),
                notes=(
                    "Not bad: wins, and ties in which both are taken for human. The authors' "
                    "denominator has unread replies; their win+tie adds two rounded rates.",
                    *((provenance.loops,) if dup == DUP else ()),
                    provenance.comparisons,
                ),
            )
    # stored dialogues are the same under both conditions
    generated = frame.only(metric="dropped", condition=CON).distinct("model")
    yield _by_name(
        "conditions",
        f"What the document changes, {CON} - {UNCON} (percentage points), {judge}",
        rows=Parts({model: {"model": model} for model in generated}),
        notes=(
            "Differences are paired by dialogue, those of GTEval by comparison. PairEval is left "
            "out: the opponent's dialogue changes with the condition too.",
            provenance.loops,
            provenance.comparisons,
        ),
    )


def _comparison_tables(matches: _Matches, provenance: Provenance) -> Iterator[Layout]:
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


def _dialogue_tables(frame: ScoreFrame, rows: Parts, provenance: Provenance) -> Iterator[Layout]:
    """Loops, lengths, and how utterances ended; no judgement is read here."""
    samples = (*provenance.rows(frame, "words"),)
    yield _by_name(
        "loops",
        "Dialogues that do not begin to repeat themselves",
        rows=rows,
        notes=(
            "Non-loop utterances: the mean number up to the first that repeats another, that one "
            "included; all of them where none does.",
            *provenance.rows(frame, "non_loop"),
            provenance.loops,
        ),
    )
    yield _by_name(
        "lengths",
        "Length of generated utterances: mean, and longest",
        rows=rows,
        notes=(
            "Tokens are those of the model's own server; the paper counts tokens of cl100k. "
            "Words are separated by blanks. The human's utterances are those after the seed.",
            *samples,
        ),
    )
    yield Layout(
        "lengths_by_utterance",
        "Words by utterance",
        of="lengths",
        groups=("words",),
        rows=rows,
        columns={"turn": None},
        column_label="utterance {turn}",
        notes=samples,
        digits=1,
        detail=True,
    )
    title = "How the generated utterances ended, and what was dropped from full contexts"
    yield _by_name("replies", title, rows=rows)
