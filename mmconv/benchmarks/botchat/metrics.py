"""BotChat's scores, and what is measured over them: UniEval, GTEval, PairEval, loops, lengths.

Scores of a dialogue: `human` (utterances before the first one taken for AI), `pass` (0 or 1, at the
length that is the turn), `pass_at_human_length`, `non_loop` (0 or 1), `non_loop_utterances` (those
up to the first repetition). Of an utterance, whose number is the turn: `characters`, `words`,
`dropped`. Of a comparison: `duel`, its points from `WIN` to `LOSS`.

The tag `reading` separates our reading of a judgement from the authors', `model` says whose score
it is. Comparisons are scored twice, by the tag `dup`: by the judge alone, as on the authors'
leaderboard, and with DupDetect first, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TypeAlias

from judges.parsers.botchat import (
    AUTHORS_UTTERANCES,
    FIRST,
    HUMAN,
    SECOND,
    authors_comparison,
    authors_human,
)
from mmconv.benchmarks.base.endings import TOKENS
from mmconv.benchmarks.base.metrics import (
    ColumnOf,
    Delta,
    Group,
    Mean,
    Metric,
    Official,
    Select,
    share,
)
from mmconv.benchmarks.base.results import Outcomes, Results
from mmconv.benchmarks.botchat.dialogues import (
    GTEVAL,
    PAIREVAL,
    SEED,
    Comparison,
    DupDetect,
    Line,
    first_repeat,
)
from mmconv.core.types import (
    SAME_TEXT,
    Cell,
    Ref,
    Reply,
    Score,
    Skipped,
    Text,
    Verdict,
)
from mmconv.stats import Column, ScoreFrame

UNCON, CON = CONDITIONS = ("uncon", "con")
"""Without and with the record's reference document in the system prompt (paper, section 3.1)."""

UNIEVAL = "unieval"
"""The id of the call that judges the candidate's dialogue alone."""

CHECKPOINTS = (4, 8, 12, 16)
"""The lengths of UniEval's pass rates (paper, Figure 3)."""

WIN, GOOD_TIE, BAD_TIE, LOSS = 3.0, 1.0, -1.0, -3.0
"""A win, both taken for human, both taken for AI, a loss: the weights of the authors' Score."""

RATES: dict[str, tuple[float, ...]] = {
    "win": (WIN,),
    "tie": (GOOD_TIE, BAD_TIE),
    "lose": (LOSS,),
    "win+tie": (WIN, GOOD_TIE, BAD_TIE),
    "not bad": (WIN, GOOD_TIE),
}
"""Rate -> the points that count for it. Not bad: the judge takes the model's for human."""

OURS, AUTHORS = "ours", "authors"
JUDGE_ALONE, DUP_FIRST = "judge alone", "DupDetect first"
BEFORE = {JUDGE_ALONE: "the judge alone", DUP_FIRST: "DupDetect before the judge"}
"""The tag `dup` -> what decides a comparison, in words."""

UNKNOWN = "unknown"
"""The reason for missing points by the authors' reading; these stay in their denominator."""

UNFINISHED = "unfinished dialogue"
"""The reason for missing scores of a dialogue without one of its utterances."""

PERCENT = share("%")
CHANGE = replace(PERCENT, title=f"{CON} - {UNCON} (points)")
POINTS = Group(title="-3 to 3", lowest=LOSS, highest=WIN)
AUTHORS_COLUMN = "authors: "
"""What the columns of the authors' convention begin with."""
HUMAN_LENGTH = "human length"
LENGTHS = (TOKENS, "words", "characters")
OVERFLOWED, DROPPED = "prompts that overflowed", "utterances dropped"

Value: TypeAlias = tuple[float | None, str | None]
"""A number, or None and the reason."""


def checkpoints(utterances: int) -> tuple[int, ...]:
    """The lengths of UniEval's pass rates: the paper's, and the whole dialogue."""
    return (*(length for length in CHECKPOINTS if length < utterances), utterances)


def named(name: str, condition: str) -> str:
    """A name with its condition, unless it is the one that every record allows."""
    return name if condition == UNCON else f"{name} ({condition})"


# --- scores --------------------------------------------------------------------------------------


def score_unieval(
    results: Results, model: str, lengths: Sequence[int], human_length: int | None = None
) -> Iterator[Score]:
    """Pass rates at `lengths` by both readings, and ours at the human dialogue's length.

    `human_length` is None for a dialogue that is not compared with a human one. The authors' code
    takes no dialogue for longer than `AUTHORS_UTTERANCES`, and has no rate beyond.
    """
    judgement = results[UNIEVAL]
    verdict = judgement.verdict
    ours = None if verdict is None else verdict.scores[HUMAN], judgement.reason
    verdict, reason = judgement.read_first(authors_human, UNKNOWN)
    authors = None if verdict is None else verdict.scores[HUMAN], reason
    yield results.score("human", *ours, model=model, reading=OURS)
    if human_length is not None:
        passed = _passed(ours, human_length)
        yield results.score("pass_at_human_length", *passed, model=model, reading=OURS)
    for reading, human in ((OURS, ours), (AUTHORS, authors)):
        for length in lengths:
            if reading == OURS or length <= AUTHORS_UTTERANCES:
                passed = _passed(human, length)
                yield results.score("pass", *passed, turn=length, model=model, reading=reading)


def _passed(human: Value, length: int) -> Value:
    """Whether the first utterance taken for AI comes after `length` others."""
    return (None, human[1]) if human[0] is None else (float(human[0] >= length), None)


def score_comparison(
    results: Results, compared: Comparison, settings: DupDetect
) -> Iterator[Score]:
    """Points by both readings, with the judge alone and with DupDetect first.

    A pair of the same text has no points, as the authors have it. Its call is not among the results
    if that was known before, or if a dialogue is missing.
    """
    own, other = (resolve(lines, results.outcomes) for lines in (compared.own, compared.other))
    reason, is_void = SAME_TEXT, own is not None and own == other
    if compared.missing is not None:
        reason, is_void = Skipped(because=f"a whole dialogue of {compared.missing}").why, True
    is_judged = compared.call_id in results.calls and not is_void
    judgement = results[compared.call_id]
    decided = None if is_void else _decide_by_loops(compared, results, settings)
    for reading in (OURS, AUTHORS):
        value: Value = (None, reason)
        if is_judged:
            verdict, unread = judgement.verdict, judgement.reason
            if reading == AUTHORS:
                verdict, unread = judgement.read_first(authors_comparison, UNKNOWN)
            value = _points(compared, verdict), unread
        for dup in (JUDGE_ALONE, DUP_FIRST):
            if dup == DUP_FIRST and decided is not None:
                value = (decided, None)
            yield results.score(
                "duel",
                *value,
                model=compared.model,
                reading=reading,
                dup=dup,
                protocol=compared.protocol,
                opponent=compared.opponent,
                length=str(compared.length),
                order=compared.order,
            )


def _points(compared: Comparison, verdict: Verdict | None) -> float | None:
    if verdict is None:
        return None
    taken_for_ai = {"both": "12", "neither": "", FIRST: "1", SECOND: "2"}[str(verdict.label)]
    if len(taken_for_ai) == 1:
        return LOSS if taken_for_ai == compared.order else WIN
    return BAD_TIE if taken_for_ai else GOOD_TIE


def _decide_by_loops(compared: Comparison, results: Results, settings: DupDetect) -> float | None:
    """What DupDetect decides: a tie if both loop, else a win for the one that does not.

    The paper's tie has no weight in the authors' Score; two loops count as two bad dialogues.
    """
    own, other = (resolve(lines, results.outcomes) for lines in compared.searched)
    if own is None or other is None:
        return None
    own_loops, other_loops = (first_repeat(each, settings) is not None for each in (own, other))
    if own_loops:
        return BAD_TIE if other_loops else LOSS
    return WIN if other_loops else None


def score_dialogue(
    results: Results, model: str, lines: Sequence[Line], count: int, settings: DupDetect
) -> Iterator[Score]:
    """Loops and lengths of a dialogue of `count` utterances, which has no lines if it is missing.

    The utterance that repeats is the last that counts as non-looping; without one all do (paper,
    sections 3.2 and 4.3). Lengths are in characters, and in words separated by blanks.
    """
    texts = resolve(lines, results.outcomes) if lines else None
    repeat = None if texts is None else first_repeat(texts, settings)
    for name, number in (("non_loop", repeat is None), ("non_loop_utterances", repeat or count)):
        whole: Value = (None, UNFINISHED) if texts is None else (number, None)
        yield results.score(name, *whole, model=model)
    for number in range(SEED + 1, count + 1):
        line = lines[number - 1] if lines else None
        outcome = results.outcomes[line.call] if isinstance(line, Ref) else line
        values: dict[str, float | None] = dict.fromkeys(("characters", "words"))
        reason = None
        if isinstance(outcome, Reply | Text):
            values = {"characters": len(outcome.text), "words": len(outcome.text.split())}
        else:
            reason = UNFINISHED if outcome is None else outcome.why
        if isinstance(line, Ref):
            values["dropped"] = outcome.dropped if isinstance(outcome, Reply) else None
        for name, value in values.items():
            yield results.score(name, value, reason, turn=number, model=model)


def resolve(lines: Sequence[Line], outcomes: Outcomes) -> tuple[str, ...] | None:
    """The lines as texts; None if one of them was not generated."""
    texts: list[str] = []
    for line in lines:
        outcome = outcomes.get(line.call) if isinstance(line, Ref) else line
        if not isinstance(outcome, Reply | Text):
            return None
        texts.append(outcome.text)
    return tuple(texts)


# --- metrics ------------------------------------------------------------------------------------


def metrics(utterances: int) -> Iterator[Metric]:
    """All metrics of runs with dialogues of this length; a run has a part of them."""
    lengths = checkpoints(utterances)
    for condition in CONDITIONS:
        for mean in _shares(condition, lengths):
            yield replace(mean, name=named(mean.name, condition))
    for protocol, condition, dup in product((GTEVAL, PAIREVAL), CONDITIONS, BEFORE):
        yield from _rates(protocol, condition, dup)
    yield from _changes(lengths)
    for dup in BEFORE:
        yield Mean(dup, of=_comparisons(dup=dup), group=POINTS, table="points", compare=None)
    yield from _official(lengths)
    yield from _counts()
    yield from _lengths()


def _shares(condition: str, lengths: tuple[int, ...]) -> Iterator[Mean]:
    passed = Select("pass", condition=condition, where={"reading": OURS}, reduce="rows")
    selects = {f"N={length}": replace(passed, turn=length) for length in lengths}
    selects[HUMAN_LENGTH] = replace(passed, score="pass_at_human_length")
    for label, of in selects.items():
        yield Mean(f"UniEval, {label}", of=of, group=PERCENT, table="unieval", label=label)
    of = Select("non_loop", condition=condition, reduce="rows")
    label = "non-loop (%)"
    yield Mean("non-loop dialogues", of=of, group=PERCENT, table="loops", label=label)


def _rates(protocol: str, condition: str, dup: str) -> Iterator[Mean]:
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
    for length in lengths:
        passed = Select("pass", turn=length, where={"reading": AUTHORS}, reduce="rows")
        yield _column(f"{AUTHORS_COLUMN}N={length}", "unieval", passed, official_share)
    for dup in BEFORE:
        for protocol in (GTEVAL, PAIREVAL):
            of = _comparisons(protocol, reading=AUTHORS, dup=dup)
            for rate in RATES:
                convention = partial(official_rate, rate)
                yield _column(f"{AUTHORS_COLUMN}{rate}", table_of(protocol, dup), of, convention)
        of = _comparisons(reading=AUTHORS, dup=dup)
        yield _column(f"{AUTHORS_COLUMN}{dup}", "points", of, official_points)


def _counts() -> Iterator[Official]:
    ours, theirs = _comparisons(), _comparisons(reading=AUTHORS)

    def read(column: Column) -> Cell:
        return Cell(value=float(column.present.sum()), missing=dict(column.missing))

    yield _column("comparisons", "judgements", ours, len)
    yield _column("read", "judgements", ours, read)
    yield _column("unread by the authors", "judgements", theirs, lambda rows: rows.missing[UNKNOWN])
    yield _column("of the same text", "judgements", ours, lambda rows: rows.missing[SAME_TEXT])


def _lengths() -> Iterator[Metric]:
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
    dropped = Select("dropped", reduce="rows")
    yield _column(OVERFLOWED, "replies", dropped, _overflows)
    yield _column(DROPPED, "replies", dropped, lambda rows: sum(_numbers(rows)))


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
        apart=("order",),
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
