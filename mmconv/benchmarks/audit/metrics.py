"""The controls of an audit, and what it measures: how often a judge errs, and what moves it.

A verdict passes an answer if its score is at least the threshold of the benchmark. `a` is the rate
at which the judge fails right answers, `b` that at which it passes wrong ones. Of comparisons, the
right side is the reference: an answer passes if it wins, and there is no `a`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mmconv.benchmarks.base.metrics import (
    ColumnOf,
    Delta,
    Group,
    Mean,
    Metric,
    Official,
    Select,
    Together,
)
from mmconv.benchmarks.options import Condition
from mmconv.core.keys import hash_json
from mmconv.core.types import Cell, Summary
from mmconv.stats import Column, ScoreFrame, as_cell
from mmconv.stats.column import Numbers, align
from mmconv.stats.repeats import of_both, summarise_kappa, summarise_reliability, summarise_sd

RIGHT, WRONG, ALTERNATING, OPPOSITE = "right", "wrong", "alternating", "opposite"
LONGER, REPEAT, SECOND = "longer", "repeat", "second"
PARAPHRASE, SHORTER = "paraphrase", "shorter"

REWRITTEN = (PARAPHRASE, SHORTER)
"""The controls whose answers the model `paraphraser` writes, each by its prompt."""

CONTROLS = (
    Condition(RIGHT, "All answers are references. Of a pair, both sides are the same."),
    Condition(WRONG, "All answers are known to be wrong."),
    Condition(ALTERNATING, "Right and wrong answers in turn; half of the samples begin right."),
    Condition(OPPOSITE, "Right answers where alternating has wrong ones, and the reverse."),
    Condition(LONGER, "As alternating; words without content make each answer twice as long."),
    Condition(REPEAT, "As alternating, requested again."),
    Condition(PARAPHRASE, "References in the words of the model `paraphraser`."),
    Condition(SHORTER, "As alternating, in fewer words of the model `paraphraser`."),
    Condition(SECOND, "As alternating, judged by the model `second`."),
)

CHINESE = re.compile(r"[\u4e00-\u9fff]")

PADDING = (
    "I have read this with care and thought about it before answering. What I say here is my "
    "answer, given as well as I can, and I hope that it is of use. ",
    "我认真读过这个问题，并在回答之前仔细想过。以下就是我的回答，我已尽力把它说清楚，希望对你有所帮助。",
)
"""What makes an answer longer without saying more: in English and in Chinese."""

SEPARATION = "right minus wrong"
FAILS_RIGHT = "fails right (a)"
FAILS_PARAPHRASE = "fails paraphrases"
PASSES_WRONG = "passes wrong (b)"
KINDER_TO_RIGHT = "kinder to right"
KINDER_TO_WRONG = "kinder to wrong"
PREFERS_FIRST = "prefers the first"
CHANGES_WITH_ORDER = "changes with order"
LENGTH = "per doubling"
SHORTENED = "in fewer words"
FLIPS = "changes its mind"
DEVIATION = "SD of a verdict"
RELIABILITY = "reliability"
KAPPA = "kappa with second"

MEANINGS = {
    SEPARATION: "right passed less wrong passed, in points of 100",
    FAILS_RIGHT: "right answers failed, %",
    FAILS_PARAPHRASE: "right answers in other words failed, %",
    PASSES_WRONG: "wrong answers passed, %",
    KINDER_TO_RIGHT: "right passed after right turns less after wrong, points",
    KINDER_TO_WRONG: "wrong passed after right turns less after wrong, points",
    PREFERS_FIRST: "of equal answers, first chosen less second, points",
    CHANGES_WITH_ORDER: "comparisons whose winner changes with the order, %",
    LENGTH: "score of an answer twice as long, less its own",
    SHORTENED: "score of an answer in fewer words, less its own",
    FLIPS: "repeated verdicts that pass instead of fail or reverse, %",
    DEVIATION: "of repeated verdicts, in units of the score",
    RELIABILITY: "share of the variance of verdicts that repeats",
    KAPPA: "agreement of two judges beyond chance",
}

TABLE = "audit"
STEADINESS = "steadiness"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A score that is audited: its title, its least value that passes, and its scale.

    `is_comparison`: it says whether an answer won against the reference.
    """

    score: str
    title: str
    least: float
    ends: tuple[float, float]
    is_comparison: bool

    @property
    def share(self) -> Group:
        """Shares of verdicts, in percent."""
        return Group(title=self.title, lowest=0.0, highest=1.0, factor=100.0, share=True)

    @property
    def balance(self) -> Group:
        """Shares less other shares, in points of 100."""
        return Group(title=self.title, lowest=-1.0, highest=1.0, factor=100.0, share=True)

    def verdicts(
        self, value: Callable[[float], float], *, condition: str | tuple[str, ...], **where: str
    ) -> Select:
        """A function of each score, one row for each verdict."""
        chosen = {"condition": condition, **where}
        return Select(self.score, where=chosen, reduce="rows", value=value)

    def passes(self, score: float) -> float:
        """1 for a score that passes, else 0."""
        return float(score >= self.least)

    def fails(self, score: float) -> float:
        """1 for a score that does not pass, else 0."""
        return float(score < self.least)


def _firsts(measured: Measured, frame: ScoreFrame) -> Column:
    """Comparisons of equal answers: 1 if the side that is shown first won, else -1."""
    sides = {"A": lambda win: 2 * win - 1, "B": lambda win: 1 - 2 * win}
    return Column.joined(
        [
            measured.verdicts(value, condition=RIGHT, side=side)(frame)
            for side, value in sides.items()
        ]
    )


@dataclass(frozen=True, slots=True)
class Pairs:
    """Two scores of the same turn of a sample, under two conditions or of two sides.

    Both columns have the same rows; a verdict without a partner is left out.
    """

    one: Select
    other: Select

    def __call__(self, frame: ScoreFrame) -> tuple[Column, Column]:
        """The columns of both."""
        return align(self.one(frame), self.other(frame))


@dataclass(frozen=True, slots=True)
class OfPairs:
    """A number of each pair of verdicts."""

    pairs: Pairs
    value: Callable[[Numbers, Numbers], Numbers]

    def __call__(self, frame: ScoreFrame) -> Column:
        """One row for each pair; a pair with a missing verdict has the reason of either."""
        one, other = frame.once(self.pairs)
        return of_both(one, other, self.value(one.numbers, other.numbers))


def measure_judge(measured: Measured) -> Iterator[Metric]:
    """The controls of a score, as far as a run has them."""
    yield _separation(measured)
    if not measured.is_comparison:
        fails = measured.verdicts(measured.fails, condition=RIGHT)
        yield _mean(FAILS_RIGHT, fails, measured.share)
        paraphrases = measured.verdicts(measured.fails, condition=PARAPHRASE)
        yield _mean(FAILS_PARAPHRASE, paraphrases, measured.share)
    passes = measured.verdicts(measured.passes, condition=WRONG)
    yield _mean(PASSES_WRONG, passes, measured.share)
    yield from _halo(measured)
    if measured.is_comparison:
        yield _mean(PREFERS_FIRST, partial(_firsts, measured), measured.balance)
        sides = [
            Select(measured.score, condition=WRONG, where={"side": side}, apart=("turn",))
            for side in ("A", "B")
        ]
        changes = OfPairs(Pairs(*sides), np.not_equal)
        yield _mean(CHANGES_WITH_ORDER, changes, measured.share)
    span = measured.ends[1] - measured.ends[0]
    change = Group(title=measured.title, lowest=-span, highest=span)
    for name, control in ((LENGTH, LONGER), (SHORTENED, SHORTER)):
        lengths = OfPairs(_with_alternating(measured, control), lambda own, longer: longer - own)
        yield _mean(name, lengths, change, STEADINESS)
    yield from _repeats(measured)


def _mean(name: str, of: ColumnOf, group: Group, table: str = TABLE) -> Mean:
    return Mean(name, of=of, group=group, table=table, meaning=MEANINGS[name])


def _separation(measured: Measured) -> Metric:
    """Right answers passed less wrong ones passed; of comparisons, the reference is right."""
    wrong = measured.verdicts(measured.passes, condition=WRONG)
    if measured.is_comparison:
        balance = replace(wrong, value=lambda win: 1 - 2 * win)
        return _mean(SEPARATION, balance, measured.balance)
    right = measured.verdicts(measured.passes, condition=RIGHT)
    return _delta(SEPARATION, wrong, right, measured)


def _halo(measured: Measured) -> Iterator[Metric]:
    """What an answer gains after right turns, among right answers and among wrong ones."""
    mixed: tuple[str, ...] = (ALTERNATING, OPPOSITE)
    sides: tuple[tuple[str, str, tuple[str | tuple[str, ...], ...]], ...] = (
        (KINDER_TO_RIGHT, RIGHT, (mixed, RIGHT)),
        (KINDER_TO_WRONG, WRONG, (WRONG, mixed)),
    )
    for name, answer, after in sides:
        after_wrong, after_right = (
            measured.verdicts(measured.passes, condition=condition, answer=answer, before=before)
            for condition, before in zip(after, (WRONG, RIGHT), strict=True)
        )
        yield _delta(name, after_wrong, after_right, measured)


def _delta(name: str, start: Select, goal: Select, measured: Measured) -> Delta:
    ends = [Mean("", of=Together((each,)), group=measured.share) for each in (start, goal)]
    return Delta(
        name,
        start=ends[0],
        goal=ends[1],
        group=measured.share,
        table=TABLE,
        meaning=MEANINGS[name],
        signed=name != SEPARATION,
        compare="score",
    )


def _with_alternating(
    measured: Measured,
    control: str,
    value: Callable[[float], float] | None = None,
    **where: str,
) -> Pairs:
    """The scores of the control `alternating`, or a function of them, and those of another one."""
    one, other = (
        Select(
            measured.score, condition=condition, where=where, apart=("turn", "side"), value=value
        )
        for condition in (ALTERNATING, control)
    )
    return Pairs(one, other)


def _repeats(measured: Measured) -> Iterator[Metric]:
    """How alike a judge's own verdicts are, and those of two judges.

    Of comparisons only those with a wrong answer count: equal answers are drawn by lot.
    """
    where = {"answer": WRONG} if measured.is_comparison else {}
    flips = OfPairs(_with_alternating(measured, REPEAT, measured.passes, **where), np.not_equal)
    yield _mean(FLIPS, flips, measured.share)
    if measured.is_comparison:
        return
    repeats = _with_alternating(measured, REPEAT)
    both_passed = _with_alternating(measured, SECOND, measured.passes)
    for name, pairs, summarise in (
        (DEVIATION, repeats, summarise_sd),
        (RELIABILITY, repeats, summarise_reliability),
        (KAPPA, both_passed, summarise_kappa),
    ):
        yield Official(
            name,
            compute=partial(_alike, pairs, summarise),
            group=Group(title=measured.title),
            table=STEADINESS,
            meaning=MEANINGS[name],
        )


def _alike(
    pairs: Pairs, summarise: Callable[[Column, Column], Summary], frame: ScoreFrame
) -> Cell | None:
    """A measure of both columns of pairs."""
    one, other = frame.once(pairs)
    return as_cell(summarise(one, other)) if len(one) else None


def are_right(control: str, sample: str, count: int) -> tuple[bool, ...]:
    """Whether each of a sample's answers is right under a control."""
    if control in (RIGHT, PARAPHRASE):
        return (True,) * count
    if control == WRONG:
        return (False,) * count
    begins_right = (int(hash_json(sample)[:8], 16) % 2 == 0) != (control == OPPOSITE)
    return tuple((place % 2 == 0) == begins_right for place in range(count))


def describe_state(states: Sequence[bool]) -> str:
    """`right` or `wrong` if all these answers are, else `mixed`."""
    if len({*states}) == 1:
        return RIGHT if states[0] else WRONG
    return "mixed"


def lengthen(text: str) -> str:
    """The answer, twice as long: words without content go before it."""
    padding = PADDING[bool(CHINESE.search(text))]
    filler = (padding * (len(text) // len(padding) + 1))[: len(text)]
    return f"{filler.rstrip()} {text}"
