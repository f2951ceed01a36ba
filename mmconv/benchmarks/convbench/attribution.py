"""Which level a mistake comes from: the counterfactual reading of the two ablations.

A creation that fails freely is attributed to perception if it passes with perfect perception, else
to reasoning if it passes with perfect reasoning, else to creation itself; a failed reasoning
likewise to perception or to reasoning. A score below its grading's threshold is a failure.

Shares are over the failures that have a score under every condition. To count every failure that
the rule can attribute would favour perception: one that perfect perception mends needs that score
alone, any other needs the one under perfect reasoning too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any, TypeAlias

from mmconv.benchmarks.convbench.options import ConvBenchOptions
from mmconv.benchmarks.convbench.quantities import PAIRWISE, Grading, column
from mmconv.stats import (
    Column,
    ScoreFrame,
    bounded,
    summarise_ratio,
    summarise_share,
    summarise_share_change,
)
from mmconv.values import Summary

CHAINS = {
    "creation": (("free", 3), (("perception", "perception", 3), ("reasoning", "reasoning", 3))),
    "reasoning": (("free", 2), (("perception", "perception", 2),)),
}
"""Failed level -> where it fails, and what would mend it: (blamed level, condition, turn)."""

FAILED = " failed"
DUE = f"{FAILED}: due to "
"""What stands in the name of a row between the level that failed and the level that is blamed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Below which rating, and below which win, a turn has failed."""

    rating: float
    win: float

    @classmethod
    def chosen(cls, options: Mapping[str, Any]) -> Thresholds:
        """Those among the options that a run was given; it may lack others, as copies do."""
        known = {name: field.default for name, field in ConvBenchOptions.model_fields.items()}
        in_force = {**known, **options}
        return cls(rating=float(in_force["failure_rating"]), win=float(in_force["failure_win"]))

    def of(self, grading: Grading) -> float:
        """The one in a grading's own unit."""
        return self.win if grading is PAIRWISE else self.rating


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Whether a turn passes freely, then under each remedy; None where it is unscored.

    `why` tells which score it lacks, the first one if there are several: then shares do not count
    it, even where it can be attributed. A turn that lacks none has `failed`: whether it fails (1)
    freely, then with more and more made perfect; 0 at the end, since with its own level perfect
    too, nothing fails.
    """

    level: str
    passed: tuple[bool | None, ...]
    why: str | None
    failed: tuple[float, ...]

    @property
    def fails(self) -> bool:
        """Whether it fails freely."""
        return self.passed[0] is False

    @property
    def attributed_to(self) -> str | None:
        """The first level that mends it once perfect, else its own; None if a score is in the way.

        For a turn that fails freely.
        """
        for blamed, passed in zip(_blamed(self.level), self.passed[1:], strict=False):
            if passed is None or passed:
                return blamed if passed else None
        return self.level


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A sample's turn and its course, which it shares with all that took the same."""

    sample: str
    cluster: str
    course: Course


Courses: TypeAlias = Mapping[str, Sequence[Followed]]
"""Level -> the turn of every sample."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Failing:
    """Whether each sample fails, or by how much its failures fall once a level too is perfect.

    The latter is from -1 to 1, unless it `is_share`: what is left to a level itself is 0 or 1.
    """

    name: str
    column: Column
    is_share: bool

    @property
    def summary(self) -> Summary:
        """The mean, with the interval of a share or of a change of one."""
        if self.is_share:
            return summarise_share(self.column)
        return bounded(summarise_share_change(self.column), -1.0, 1.0)


def follow(frame: ScoreFrame, grading: Grading, threshold: float) -> Courses:
    """The course of every creation and reasoning, freely and as the ablations make more perfect.

    A level is left out where the run did not ask for the conditions that it needs.
    """
    followed = {level: _followed(frame, grading, level, threshold) for level in CHAINS}
    return {level: turns for level, turns in followed.items() if turns}


def failures(courses: Courses) -> Courses:
    """The turns that fail freely; a level without any is left out."""
    failed = {
        level: [each for each in turns if each.course.fails] for level, turns in courses.items()
    }
    return {level: turns for level, turns in failed.items() if turns}


def shares(courses: Courses) -> dict[tuple[str, str], Summary]:
    """(failed level, blamed level) -> the share of the failures that are attributed to it.

    `n` counts the failures with a score under every condition, `missing` those without. A level
    without failures has no shares.
    """
    return {
        (level, blamed): summarise_share(_column(turns, partial(_is_laid_to, blamed=blamed)))
        for level, turns in failures(courses).items()
        for blamed in _blamed(level)
    }


def net_shares(courses: Courses) -> dict[tuple[str, str], Summary]:
    """(failed level, blamed level) -> by how much of itself the number of failures falls, net.

    With F failures freely and H with the level before made perfect, that level's net share is
    (F - H) / F; the failed level keeps what is left when all before it is perfect. The shares of a
    failed level add up to 1; one is negative where perfection spoils more than it mends. Samples
    count that are scored under every condition. `n` is the number of their free failures, `missing`
    of those of the others: the same as in `shares`.
    """
    return {
        (level, blamed): _net(turns, step)
        for level, turns in courses.items()
        for step, blamed in enumerate(_blamed(level))
    }


def failing(courses: Courses) -> Iterator[Failing]:
    """Of each failed level the whole, `creation failed`, and then what comes from each level.

    Those, `creation failed: due to perception` and so on, add up to the whole. They are what the
    net shares are of, over all samples in place of the failures: with F failures freely and H with
    perfect perception, N samples have a mean of (F - H) / N. A sample that lacks a score under some
    condition is missing.
    """
    for level, turns in courses.items():
        whole = _column(turns, lambda each: each.failed[0])
        yield Failing(name=f"{level}{FAILED}", column=whole, is_share=True)
        for step, blamed in enumerate(_blamed(level)):
            fall = _column(turns, partial(_fall, step=step))
            yield Failing(name=f"{level}{DUE}{blamed}", column=fall, is_share=blamed == level)


def _followed(frame: ScoreFrame, grading: Grading, level: str, threshold: float) -> list[Followed]:
    """Every sample's turn; none where a condition was never asked for."""
    (condition, turn), remedies = CHAINS[level]
    free = column(frame, grading, condition, turn)
    mended = [
        dict(zip(found.samples, found.values, strict=True))
        for _, where, place in remedies
        if len(found := column(frame, grading, where, place))
    ]
    if len(mended) < len(remedies):
        return []
    scores = zip(free.values, *(map(values.get, free.samples) for values in mended), strict=True)
    return [
        Followed(
            sample=sample, cluster=cluster, course=_course(level, _passed(settings, threshold))
        )
        for sample, cluster, settings in zip(free.samples, free.clusters, scores, strict=True)
    ]


def _passed(scores: Iterable[float | None], threshold: float) -> tuple[bool | None, ...]:
    return tuple(None if score is None else score >= threshold for score in scores)


@cache
def _course(level: str, passed: tuple[bool | None, ...]) -> Course:
    """There are some dozens of them."""
    why = None
    if None in passed:
        place = passed.index(None)
        why = f"no score with perfect {_blamed(level)[place - 1]}" if place else "no score"
    failed = () if why else (*(float(not each) for each in passed), 0.0)
    return Course(level=level, passed=passed, why=why, failed=failed)


def _blamed(level: str) -> tuple[str, ...]:
    """The levels that a failed one can be attributed to, in their order."""
    return (*(blamed for blamed, _, _ in CHAINS[level][1]), level)


def _net(turns: Sequence[Followed], step: int) -> Summary:
    """The fall in failures from one step to the next, as a share of the free failures.

    The first level's share is at most 1 and the last one's at least 0: there their scales end.
    """
    rows = [each for each in turns if each.course.why is None or each.course.fails]
    over = _column(rows, partial(_fall, step=step))
    under = _column(rows, lambda each: each.failed[0])
    steps = len(turns[0].course.passed)
    possible = [
        (each[step] - (*each, 0.0)[step + 1], each[0]) for each in product((0.0, 1.0), repeat=steps)
    ]
    share = bounded(
        summarise_ratio(over, under, possible),
        lowest=0.0 if step == steps - 1 else None,
        highest=1.0 if step == 0 else None,
    )
    return replace(share, n=sum(value == 1 for value in under.values))


def _column(turns: Sequence[Followed], number: Callable[[Course], float]) -> Column:
    """A number of each sample's course, or which score it lacks."""
    return Column.of(
        [number(each.course) if each.course.why is None else None for each in turns],
        samples=[each.sample for each in turns],
        clusters=[each.cluster for each in turns],
        reasons=[each.course.why for each in turns],
    )


def _is_laid_to(course: Course, blamed: str) -> float:
    return float(course.attributed_to == blamed)


def _fall(course: Course, step: int) -> float:
    """By how much failures fall at a step, from -1 to 1."""
    return course.failed[step] - course.failed[step + 1]
