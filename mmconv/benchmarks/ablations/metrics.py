"""Scores, deltas, failures and their causes of any benchmark with the three conditions.

`S_i` is the mean score of turn i (0: the whole conversation) in the free condition, `_hat` with
perfect perception, `_tilde` with perfect perception and reasoning (paper, section 4.1).

A turn fails if its score is below a threshold. Let F, H and T be the numbers of creations that the
judge fails freely, with perfect perception, and with both perfect. Perfect turns fix F - T of the
failures: perception accounts for F - H of these, and reasoning for H - T.

The judge also fails right answers, at a rate a, and passes wrong ones, at a rate b. If both are the
same under every condition, each difference is 1 - a - b times the true one. So the split of fixed
failures, (F - H) / (F - T), contains neither rate. Perception's share of all true failures does
depend on a: it is (F - H) / (F - a), with a from 0 to T as no true rate is below 0. So it is from
(F - H) / F to (F - H) / (F - T), and the failed level's own share is from 0 to T / F.

The control of a difference is the same one among samples whose own replaced turn was rated clearly
right. Perfect turns replace a right answer by a right one there, so a model gains nothing. It is
selected by the verdict on the replaced turn, not by that on the compared one: that would bring its
errors with it, and they would seem to vanish under the other condition (regression to the mean).
A control above 0 has three readings, which a run cannot separate. The judge is kinder after
reference turns; the model uses the reference's words, not that they are right; or the judge passed
some wrong turns, which perfect turns do fix. The last is why only clear passes are selected. In
the first two the differences overstate the level. A control near 0 proves little: errors that the
turns of one conversation share lower it, as a judge that is too kind there is kind to both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product

from mmconv.benchmarks.base.endings import TOKENS
from mmconv.benchmarks.base.layouts import CONTROL
from mmconv.benchmarks.base.metrics import (
    ColumnOf,
    Delta,
    Group,
    Mean,
    Metric,
    Official,
    Ratio,
    Select,
    Together,
    mapped,
    share,
)
from mmconv.core.types import Cell
from mmconv.stats import Column, ScoreFrame, adjust, pair

GIVEN = {"free": 0, "perception": 1, "reasoning": 2}
"""The paper's three settings (section 4.1): how many leading turns are the human's."""

LEVELS = {1: "perception", 2: "reasoning", 3: "creation"}
"""Turn -> what it asks for."""


def own_turns(condition: str) -> tuple[int, ...]:
    """The turns that the candidate answers itself."""
    return tuple(range(GIVEN[condition] + 1, len(LEVELS) + 1))


QUANTITIES: dict[str, tuple[str, int]] = {
    "S1": ("free", 1),
    "S2": ("free", 2),
    "S3": ("free", 3),
    "S0": ("free", 0),
    "S2_hat": ("perception", 2),
    "S3_hat": ("perception", 3),
    "S0_hat": ("perception", 0),
    "S3_tilde": ("reasoning", 3),
    "S0_tilde": ("reasoning", 0),
}
"""Name -> (condition, turn)."""

DELTAS = {
    "S2_hat - S2": ("S2", "S2_hat"),
    "S3_hat - S3": ("S3", "S3_hat"),
    "S0_hat - S0": ("S0", "S0_hat"),
    "S3_tilde - S3_hat": ("S3_hat", "S3_tilde"),
    "S0_tilde - S0_hat": ("S0_hat", "S0_tilde"),
}
"""Name -> (what it starts from, what it goes to)."""

MEANS = {"R1": ("R2", "S0"), "R2": ("S1", "S2", "S3")}
"""Name -> what it is the mean of (paper, section 4.1), in each sample that has every part."""

MEANINGS = {
    "S1": "perception",
    "S2": "reasoning",
    "S3": "creation",
    "S0": "overall",
    "S2_hat": "reasoning, turn 1 given",
    "S3_hat": "creation, turn 1 given",
    "S0_hat": "overall, turn 1 given",
    "S3_tilde": "creation, turns 1-2 given",
    "S0_tilde": "overall, turns 1-2 given",
    "R2": "mean of S1, S2, S3",
    "R1": "mean of R2, S0",
}

LADDERS: dict[str, tuple[int, tuple[str, ...]]] = {
    "creation": (3, ("free", "perception", "reasoning")),
    "reasoning": (2, ("free", "perception")),
}
"""Level -> its turn, and its conditions: each makes one more level perfect."""

FAILED = " failed"
DUE = f"{FAILED}: due to "
"""In the name of a row: between the level that failed and the level that is the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """A way of judging: its score, how it is printed, and below which value a turn has failed.

    An `exact` one fails no right answer, so that shares of failures are numbers and not bounds.
    """

    name: str
    metric: str
    group: Group
    threshold: float
    exact: bool = False

    def select(self, condition: str, turn: int) -> Select:
        """One score per sample; if both orders were judged, their mean."""
        return Select(self.metric, condition=condition, turn=turn)

    @property
    def failures(self) -> str:
        """What tables call the turns that fail."""
        return f"{self.name} failures"

    @property
    def clear(self) -> float:
        """The least score of a clear pass: halfway to the best rating, or a win in each order."""
        return (self.threshold + 10.0) / 2 if self.metric == "rating" else 1.0

    @property
    def control(self) -> Group:
        """The controls of deltas."""
        return replace(self.group, title=f"{CONTROL}, {self.group.title}")

    @property
    def fixed(self) -> Group:
        """Parts of the failures that perfect turns fix."""
        return Group(title=f"{self.name}: of fixed failures", factor=100.0)

    @property
    def bounds(self) -> Group:
        """Bounds of the parts of all failures."""
        return Group(title=f"{self.name}: of all failures", factor=100.0)

    @property
    def points(self) -> Group:
        """The controls of attribution, in points of the selected samples."""
        return share(f"{self.name}: control (points)")


def ladder(grading: Grading, meanings: Mapping[str, str] = MEANINGS) -> Iterator[Metric]:
    """Scores, deltas and attribution by one grading, of any benchmark with the three conditions.

    `meanings` say what the scores are.
    """
    means = {
        name: Mean(
            name,
            of=grading.select(condition, turn),
            group=grading.group,
            meaning=meanings[name],
        )
        for name, (condition, turn) in QUANTITIES.items()
    }
    for name in MEANS:
        of = _together(name, means)
        yield Mean(name, of=of, group=grading.group, meaning=MEANINGS[name])
    yield from means.values()
    for name, (start, goal) in DELTAS.items():
        yield Delta(name, start=means[start], goal=means[goal], group=grading.group)
        if (replaced := _replaced(name)) is not None:
            yield _controlled(
                Delta(name, start=means[start], goal=means[goal], group=grading.control),
                grading.select(*replaced),
                grading,
            )
            if not grading.exact:
                yield from _at_equal_length(name, means[start], means[goal], grading)
    yield from _causes(grading)


LENGTHS = ("change", "change at equal length", "per doubling of the length")


def _at_equal_length(name: str, start: Mean, goal: Mean, grading: Grading) -> Iterator[Official]:
    """A delta, the same between answers of equal length, and what twice the length adds to it."""
    ends = [
        Select(TOKENS, condition=QUANTITIES[each.name][0], turn=QUANTITIES[each.name][1])
        for each in (start, goal)
    ]
    delta = Delta(name, start=start, goal=goal, group=grading.group)
    for place, title in enumerate(LENGTHS):
        group = replace(grading.group, title=f"{grading.name}: {title}")
        compute = partial(_adjusted, delta=delta, lengths=(ends[0], ends[1]), place=place)
        yield Official(name, compute=compute, group=group, table="lengths")


def _adjusted(
    frame: ScoreFrame, *, delta: Delta, lengths: tuple[Select, Select], place: int
) -> Cell | None:
    before, after = (
        mapped(each(frame), lambda tokens: math.log2(max(tokens, 1.0))) for each in lengths
    )
    found = adjust(delta.column(frame), pair(before, after))
    return None if found is None else delta.group.cell(found[place], signed=True)


def _together(name: str, means: Mapping[str, Mean]) -> ColumnOf:
    if name not in MEANS:
        return means[name].of
    return Together(tuple(_together(part, means) for part in MEANS[name]))


def _replaced(delta: str) -> tuple[str, int] | None:
    """The condition and turn of the model's own answer that a delta's goal replaces.

    None for deltas of whole conversations: those contain the reference turns.
    """
    start, goal = (QUANTITIES[end] for end in DELTAS[delta])
    return (start[0], GIVEN[goal[0]]) if goal[1] else None


def _controlled(delta: Delta, replaced: Select, grading: Grading) -> Delta:
    """The control of a delta: the same among samples whose replaced turn passed clearly."""

    def among(mean: Mean) -> Mean:
        return replace(mean, of=_Among(of=mean.of, turn=replaced, least=grading.clear))

    return replace(delta, start=among(delta.start), goal=among(delta.goal), compare=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Among:
    """A column of the samples in which a turn has at least some score."""

    of: ColumnOf
    turn: Select
    least: float

    def __call__(self, frame: ScoreFrame) -> Column:
        column, turns = self.of(frame), self.turn(frame)
        scores = dict(zip(turns.samples, turns.values, strict=True))
        passed = {sample for sample, score in scores.items() if (score or 0.0) >= self.least}
        return column.rows([at for at, each in enumerate(column.samples) if each in passed])


def _causes(grading: Grading) -> Iterator[Metric]:
    """Of each level: how many samples fail, and which part of it each level accounts for."""
    of_samples = share(grading.failures)
    for level, (_, conditions) in LADDERS.items():
        steps = [
            Mean(
                f"{level}{FAILED if step == 0 else DUE + level}",
                of=_Once(Failed(grading=grading, level=level, step=step)),
                group=of_samples,
                table="failures",
                compare="failure",
            )
            for step in range(len(conditions))
        ]
        falls = [
            Delta(
                f"{level}{DUE}{cause}",
                start=after,
                goal=before,
                group=of_samples,
                table="failures",
                signed=False,
                compare="failure",
            )
            for cause, (before, after) in zip(conditions[1:], pairwise(steps), strict=True)
        ]
        yield steps[0]
        yield from falls
        yield steps[-1]
        yield from _shares(grading, level, falls, steps)


def _shares(
    grading: Grading, level: str, falls: Sequence[Delta], steps: Sequence[Mean]
) -> Iterator[Metric]:
    """The split of fixed failures, bounds of the parts of all failures, and the controls."""
    conditions = LADDERS[level][1]
    fixed = _Once(Delta("", start=steps[-1], goal=steps[0], group=steps[0].group).column)
    freely = _Once(Failed(grading=grading, level=level, alone=True))
    own = Ratio(
        steps[-1].name,
        over=steps[-1].of,
        under=freely,
        possible=_possible(len(steps), len(falls)),
        group=grading.bounds,
        table="attribution_net",
        lowest=0.0,
        highest=1.0,
        other=None if grading.exact else 0.0,
    )
    for step, fall in enumerate(falls):
        split = Ratio(
            fall.name,
            over=_Once(fall.column),
            under=fixed,
            possible=_possible(len(steps), step, of_fixed=True),
            group=grading.fixed,
            table="attribution_net",
        )
        if len(falls) > 1:
            yield split
        yield replace(
            split,
            under=freely,
            possible=_possible(len(steps), step),
            group=grading.bounds,
            highest=1.0 if step == 0 else None,
            other=None if grading.exact else split if len(falls) > 1 else 1.0,
        )
        control = replace(fall, group=grading.points, table="attribution_net", signed=True)
        yield _controlled(control, grading.select(conditions[step], step + 1), grading)
    yield own


@dataclass(frozen=True, slots=True)
class _Once:
    """A column that is made once for each run, as several metrics read it."""

    of: ColumnOf

    def __call__(self, frame: ScoreFrame) -> Column:
        return frame.once(self.of)


def _possible(steps: int, step: int, *, of_fixed: bool = False) -> list[tuple[float, float]]:
    """What a sample can add: (fall in failures at the step, failed freely).

    With `of_fixed` the second is whether perfect turns fix its failure, -1 if they add one.
    """
    return [
        (each[step] - (*each, 0.0)[step + 1], each[0] - (each[-1] if of_fixed else 0.0))
        for each in product((0.0, 1.0), repeat=steps)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A sample's turn: whether it passes freely and with ever more levels perfect; None: unscored.

    `blamed` are these levels, and last the turn's own.
    """

    sample: str
    cluster: str
    passed: tuple[bool | None, ...]
    blamed: tuple[str, ...]

    @property
    def reason(self) -> str | None:
        """The first score that is missing."""
        if None not in self.passed:
            return None
        place = self.passed.index(None)
        return f"no score with perfect {self.blamed[place - 1]}" if place else "no score"

    @property
    def cause(self) -> str | None:
        """The first level that makes a failure a success once perfect, else the turn's own level.

        None if a score on the way is missing. For a turn that fails freely.
        """
        for cause, passed in zip(self.blamed, self.passed[1:], strict=False):
            if passed is None or passed:
                return cause if passed else None
        return self.blamed[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Courses:
    """Makes the courses of a level by one grading: none if a condition was not run."""

    grading: Grading
    level: str

    def __call__(self, frame: ScoreFrame) -> tuple[Course, ...]:
        """A course per sample with a free answer, in the scores' order."""
        turn, conditions = LADDERS[self.level]
        columns = [self.grading.select(condition, turn)(frame) for condition in conditions]
        if not all(map(len, columns)):
            return ()
        free, values = columns[0], [dict(zip(c.samples, c.values, strict=True)) for c in columns]

        def passed(score: float | None) -> bool | None:
            return None if score is None else score >= self.grading.threshold

        return tuple(
            Course(
                sample=sample,
                cluster=cluster,
                passed=tuple(passed(each.get(sample)) for each in values),
                blamed=(*conditions[1:], self.level),
            )
            for sample, cluster in zip(free.samples, free.clusters, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Whether each sample's turn fails after `step` levels are made perfect (0: freely).

    A sample without a score under every condition is missing: with perfect perception alone a
    success could be counted that a failure could not. With `alone` samples need no other score.
    """

    grading: Grading
    level: str
    step: int = 0
    alone: bool = False

    def __call__(self, frame: ScoreFrame) -> Column:
        """0 or 1 per sample."""
        courses = frame.once(Courses(grading=self.grading, level=self.level))
        if self.alone:
            courses = tuple(each for each in courses if each.passed[self.step] is not None)
        reasons = [None if self.alone else each.reason for each in courses]
        failed = [float(not each.passed[self.step]) for each in courses]
        return Column.of(
            [value if why is None else None for value, why in zip(failed, reasons, strict=True)],
            samples=[each.sample for each in courses],
            clusters=[each.cluster for each in courses],
            reasons=reasons,
        )
