"""What ConvBench measures: the paper's S1 to S0, R1 and R2, deltas, failures and their causes.

`S_i` is the mean score of turn i (0: the whole conversation) in the free condition, `_hat` with
perfect perception, `_tilde` with perfect perception and reasoning (paper, section 4.1).

A turn fails if its score is below a threshold. Let F, H and T be the numbers of failed creations
freely, with perfect perception, and with both perfect. Perception accounts for F - H of them,
reasoning for H - T, and T are left to creation itself. The net shares are these over F.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product

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
    endings_metrics,
    share,
)
from mmconv.benchmarks.convbench.options import (
    ALONE,
    DELTAS,
    GIVEN,
    LEVELS,
    QUANTITIES,
    ConvBenchOptions,
    own_turns,
)
from mmconv.benchmarks.convbench.quantities import (
    DUE,
    FAILED,
    LADDERS,
    MEANINGS,
    MEANS,
    OFFICIAL,
    Convention,
    Grading,
    gradings,
)
from mmconv.stats import Column, ScoreFrame


def metrics(options: ConvBenchOptions, official: Convention | None = None) -> Iterator[Metric]:
    """All metrics of a run with these options; a run has a part of them.

    `official` says what the authors' win rates count; without it there are none.
    """
    for grading in gradings(options):
        means = {
            name: Mean(
                name,
                of=_scores(grading, condition, turn),
                group=grading.group,
                meaning=MEANINGS[name],
            )
            for name, (condition, turn) in QUANTITIES.items()
        }
        yield from _overall(means, grading)
        yield from means.values()
        for name, (start, goal) in DELTAS.items():
            yield Delta(name, start=means[start], goal=means[goal], group=grading.group)
        yield from _causes(grading)
        yield from _single_turn(grading)
        yield from _categories(grading)
    yield from _position()
    yield from _official(official)
    yield from endings_metrics("answers")


def _scores(grading: Grading, condition: str, turn: int) -> Select:
    """One score per sample; if both orders were judged, their mean."""
    return Select(grading.metric, condition=condition, turn=turn)


def _overall(means: Mapping[str, Mean], grading: Grading) -> Iterator[Mean]:
    """R1 and R2. A mean of wins in several turns is not a share: Student's t gives its interval."""
    group = replace(grading.group, share=False)
    for name in MEANS:
        yield Mean(name, of=_together(name, means), group=group, meaning=MEANINGS[name])


def _together(name: str, means: Mapping[str, Mean]) -> ColumnOf:
    if name not in MEANS:
        return means[name].of
    return Together(tuple(_together(part, means) for part in MEANS[name]))


def _causes(grading: Grading) -> Iterator[Metric]:
    """Of each level: how many samples fail, what each level accounts for, and the net shares."""
    of_samples = share(grading.failures)
    for level, (_, conditions) in LADDERS.items():
        blamed = (*conditions[1:], level)
        steps = [
            Mean(
                f"{level}{FAILED if step == 0 else DUE + level}",
                of=Failed(grading=grading, level=level, step=step),
                group=of_samples,
                table="failures",
                compare="failure",
            )
            for step in range(len(conditions))
        ]
        falls: list[Delta | Mean] = [
            Delta(
                f"{level}{DUE}{cause}",
                start=after,
                goal=before,
                group=of_samples,
                table="failures",
                signed=False,
                compare="failure",
            )
            for cause, (before, after) in zip(blamed, pairwise(steps), strict=False)
        ]
        falls.append(steps[-1])
        yield steps[0]
        yield from falls
        for step, (cause, fall) in enumerate(zip(blamed, falls, strict=True)):
            yield Ratio(
                f"{level}{DUE}{cause}",
                over=_column_of(fall),
                under=_FailedFreely(grading=grading, level=level),
                possible=_possible(len(conditions), step),
                group=Group(title=grading.failures, factor=100.0),
                table="attribution_net",
                lowest=0.0 if step == len(conditions) - 1 else None,
                highest=1.0 if step == 0 else None,
            )
            yield Mean(
                f"{level}{FAILED}: attributed to {cause}",
                of=_Attributed(grading=grading, level=level, cause=cause),
                group=of_samples,
                table="attribution",
                compare=None,
            )


def _column_of(fall: Delta | Mean) -> ColumnOf:
    return fall.column if isinstance(fall, Delta) else fall.of


def _possible(steps: int, step: int) -> list[tuple[float, float]]:
    """What a sample can add: (fall in failures at the step, failed freely)."""
    return [
        (each[step] - (*each, 0.0)[step + 1], each[0]) for each in product((0.0, 1.0), repeat=steps)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A sample's turn: whether it passes freely and with ever more levels perfect; None: unscored.

    `reason` names the first score that is missing.
    """

    sample: str
    cluster: str
    passed: tuple[bool | None, ...]
    reason: str | None
    blamed: tuple[str, ...]

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
        columns = [_scores(self.grading, condition, turn)(frame) for condition in conditions]
        if not all(map(len, columns)):
            return ()
        free, *others = columns
        values = [dict(zip(each.samples, each.values, strict=True)) for each in others]
        blamed = (*conditions[1:], self.level)
        return tuple(
            _course(sample, cluster, (value, *(each.get(sample) for each in values)), blamed, self)
            for sample, cluster, value in zip(free.samples, free.clusters, free.values, strict=True)
        )


def _course(
    sample: str,
    cluster: str,
    scores: Sequence[float | None],
    blamed: tuple[str, ...],
    courses: Courses,
) -> Course:
    threshold = courses.grading.threshold
    passed = tuple(None if score is None else score >= threshold for score in scores)
    reason = None
    if None in passed:
        place = passed.index(None)
        reason = f"no score with perfect {blamed[place - 1]}" if place else "no score"
    return Course(sample=sample, cluster=cluster, passed=passed, reason=reason, blamed=blamed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Whether each sample's turn fails after `step` levels are made perfect (0: freely).

    A sample without a score under every condition is missing: with perfect perception alone a
    success could be counted that a failure could not.
    """

    grading: Grading
    level: str
    step: int

    def __call__(self, frame: ScoreFrame) -> Column:
        """0 or 1 per sample."""
        courses = frame.once(Courses(grading=self.grading, level=self.level))
        return _column(courses, lambda each: not each.passed[self.step])


@dataclass(frozen=True, slots=True, kw_only=True)
class _FailedFreely:
    """Whether each sample's turn fails freely, whatever other scores are missing."""

    grading: Grading
    level: str

    def __call__(self, frame: ScoreFrame) -> Column:
        courses = frame.once(Courses(grading=self.grading, level=self.level))
        scored = [replace(each, reason=None) for each in courses if each.passed[0] is not None]
        return _column(scored, lambda each: not each.passed[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attributed:
    """Of each failure, whether the rule for single samples attributes it to a level."""

    grading: Grading
    level: str
    cause: str

    def __call__(self, frame: ScoreFrame) -> Column:
        courses = frame.once(Courses(grading=self.grading, level=self.level))
        failed = [each for each in courses if each.passed[0] is False]
        return _column(failed, lambda each: each.cause == self.cause)


def _column(courses: Sequence[Course], holds: Callable[[Course], bool]) -> Column:
    """1 or 0 for each course; one without all its scores is missing, for its reason."""
    return Column.of(
        [None if each.reason else float(holds(each)) for each in courses],
        samples=[each.sample for each in courses],
        clusters=[each.cluster for each in courses],
        reasons=[each.reason for each in courses],
    )


def _single_turn(grading: Grading) -> Iterator[Metric]:
    """One instruction alone against the conversation (paper, Appendix C.1)."""
    for condition, turn in ALONE.items():
        is_run = partial(_has_condition, condition)
        alone, free = (
            Mean(
                f"{LEVELS[turn]}, {what}",
                of=_If(of=_scores(grading, where, turn), holds=is_run),
                group=grading.group,
                table="single_turn",
                compare=None,
            )
            for where, what in (
                (condition, "asked alone"),
                ("free", "third of three turns" if turn == 3 else "after perception"),
            )
        )
        yield alone
        yield free
        yield Delta(
            f"{LEVELS[turn]}, gain by the turns before",
            start=alone,
            goal=free,
            group=grading.group,
            table="single_turn",
            compare=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _If:
    """A column of the runs for which a condition holds; empty in others."""

    of: ColumnOf
    holds: Callable[[ScoreFrame], bool]

    def __call__(self, frame: ScoreFrame) -> Column:
        return self.of(frame) if frame.once(self.holds) else Column.of(())


def _has_condition(condition: str, frame: ScoreFrame) -> bool:
    return condition in frame.distinct("condition")


def _categories(grading: Grading) -> Iterator[Mean]:
    """The mean of each turn, which a table splits by category."""
    for turn, level in LEVELS.items():
        for condition in (name for name in GIVEN if turn in own_turns(name)):
            yield Mean(
                f"{grading.name}, {condition}",
                of=_scores(grading, condition, turn),
                group=grading.group,
                table=f"categories_{level}",
                compare=None,
            )


SIDES = {"A": "win rate as A (%)", "B": "win rate as B (%)"}
TIE = 0.5
"""A win in one order and a loss in the other."""


def _position() -> Iterator[Metric]:
    """What the candidate's side does to the pairwise verdicts of the free condition."""
    for turn, name in {**LEVELS, 0: "overall"}.items():
        wins = {
            side: Mean(
                name,
                of=Select("win", condition="free", turn=turn, where={"side": side}),
                group=share(title),
                table="position",
                compare=None,
            )
            for side, title in SIDES.items()
        }
        yield from wins.values()
        yield Delta(
            name,
            start=_in_both_orders(wins["B"]),
            goal=_in_both_orders(wins["A"]),
            group=share("A less B"),
            table="position",
            compare=None,
        )
        decided = Select("win", condition="free", turn=turn, value=_is_tie)
        yield _in_both_orders(
            Mean(
                name,
                of=decided,
                group=share("decided by the side (%)"),
                table="position",
                compare=None,
            )
        )


def is_in_both_orders(frame: ScoreFrame) -> bool:
    """Whether any pair was judged with the candidate on either side."""
    first, second = (frame.select(metric="win", side=side).samples for side in SIDES)
    return not {*first}.isdisjoint(second)


def _in_both_orders(metric: Mean) -> Mean:
    return replace(metric, of=_If(of=metric.of, holds=is_in_both_orders))


def _is_tie(win: float) -> float:
    return float(win == TIE)


def _official(convention: Convention | None) -> Iterator[Official]:
    """The authors' win rates over a constant, in which what is unscored counts as lost."""
    if convention is None:
        return
    for name in (*MEANS, *QUANTITIES, *DELTAS):
        yield Official(
            name,
            compute=partial(convention.cell, name=name),
            group=Group(title=OFFICIAL),
            table="deltas" if name in DELTAS else "scores",
        )
