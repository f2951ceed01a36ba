"""What BotChat measures: UniEval, GTEval, PairEval, loops and lengths.

Comparisons are measured twice: by the judge alone, as on the authors' leaderboard, and with
DupDetect first, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from mmconv.benchmarks.botchat.dialogues import (
    CON,
    CONDITIONS,
    GTEVAL,
    PAIREVAL,
    UNCON,
    checkpoints,
    named,
)
from mmconv.benchmarks.botchat.scoring import (
    AUTHORS,
    BAD_TIE,
    DUP_FIRST,
    GOOD_TIE,
    JUDGE_ALONE,
    LOSS,
    OURS,
    UNKNOWN,
    WIN,
)
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
from mmconv.core.types import SAME_TEXT, Cell
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

BEFORE = {JUDGE_ALONE: "the judge alone", DUP_FIRST: "DupDetect before the judge"}
"""What decides a comparison, in words."""


def metrics(utterances: int) -> Iterator[Metric]:
    """All metrics of runs with dialogues of this length; a run has a part of them."""
    lengths = checkpoints(utterances)
    for condition in CONDITIONS:
        for mean in _shares(condition, lengths):
            yield replace(mean, name=named(mean.name, condition))
    for protocol in (GTEVAL, PAIREVAL):
        for condition in CONDITIONS:
            for dup in (JUDGE_ALONE, DUP_FIRST):
                yield from _rates(protocol, condition, dup)
    yield from _changes(lengths)
    for dup in (JUDGE_ALONE, DUP_FIRST):
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
    before = "" if dup == JUDGE_ALONE else f", {BEFORE[DUP_FIRST]}"
    name = named(f"{protocol}{versus}{before}", condition)
    for rate, points in RATES.items():
        yield Mean(
            f"{name}: {rate}",
            of=_comparisons(protocol, dup=dup, condition=condition, points=points),
            group=PERCENT,
            table=table_of(protocol, dup),
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
        for dup, before in ((JUDGE_ALONE, ""), (DUP_FIRST, ", DupDetect first")):
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
    for dup in (JUDGE_ALONE, DUP_FIRST):
        for protocol in (GTEVAL, PAIREVAL):
            of = _comparisons(protocol, reading=AUTHORS, dup=dup)
            for rate in RATES:
                convention = partial(official_rate, rate)
                yield _column(f"{AUTHORS_COLUMN}{rate}", table_of(protocol, dup), of, convention)
        of = _comparisons(reading=AUTHORS, dup=dup)
        yield _column(f"{AUTHORS_COLUMN}{dup}", "points", of, official_points)


def _counts() -> Iterator[Official]:
    """How many comparisons there are, were read and were not read."""
    ours, theirs = _comparisons(), _comparisons(reading=AUTHORS)

    def read(column: Column) -> Cell:
        return Cell(value=float(column.present.sum()), missing=dict(column.missing))

    yield _column("comparisons", "judgements", ours, len)
    yield _column("read", "judgements", ours, read)
    yield _column("unread by the authors", "judgements", theirs, lambda rows: rows.missing[UNKNOWN])
    yield _column("of the same text", "judgements", ours, lambda rows: rows.missing[SAME_TEXT])


def _lengths_and_endings() -> Iterator[Metric]:
    """How long dialogues and utterances are, how utterances ended, and what was dropped."""
    means = {"non-loop utterances": ("non_loop_utterances", "loops")}
    means |= {score: (score, "lengths") for score in LENGTHS}
    for name, (score, table) in means.items():
        of, group = Select(score, reduce="rows"), Group(title=name, lowest=0.0)
        yield Mean(name, of=of, group=group, table=table, compare=None)
    for score in LENGTHS:
        of = Select(score, reduce="rows")
        yield _column(
            f"longest ({score})", "lengths", of, lambda rows: max(_numbers(rows), default=None)
        )
    for score, title in SHARES.items():
        of = Select(score, reduce="rows")
        yield Mean(title, of=of, group=PERCENT, table="replies", compare=None)
    dropped = Select("dropped", reduce="rows")
    yield _column("prompts that overflowed", "replies", dropped, _overflows)
    yield _column("utterances dropped", "replies", dropped, lambda rows: sum(_numbers(rows)))


def _comparisons(
    protocol: str | tuple[str, ...] = (GTEVAL, PAIREVAL),
    *,
    reading: str = OURS,
    dup: str = JUDGE_ALONE,
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


def table_of(protocol: str, dup: str) -> str:
    """The table of a protocol's rates, or of the arena's ratings."""
    return protocol.lower() if dup == JUDGE_ALONE else f"{protocol.lower()}_dupdetect"


def _column(
    name: str, table: str, of: ColumnOf, count: Callable[[Column], Cell | float | None]
) -> Official:
    """A number that a function counts in a column, in a table's column of this name."""

    def compute(frame: ScoreFrame) -> Cell | None:
        column = of(frame)
        if not len(column):
            return None
        number = count(column)
        if isinstance(number, Cell):
            return number
        return Cell(value=None if number is None else float(number))

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


def _overflows(column: Column) -> Cell:
    overflowed = [float(dropped > 0) for dropped in _numbers(column)]
    return Cell(value=sum(overflowed), n=len(overflowed), missing=dict(column.missing))


def _numbers(column: Column) -> list[float]:
    numbers: list[float] = column.numbers[column.present].tolist()
    return numbers
