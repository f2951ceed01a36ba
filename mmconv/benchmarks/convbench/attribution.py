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
from functools import partial
from itertools import product
from typing import Any

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
class Blame:
    """One failed turn, and the level that it is attributed to; None where that cannot be told.

    `why` tells which score it lacks: then the shares do not count it, even if it has a level.
    """

    sample: str
    cluster: str
    level: str
    attributed_to: str | None
    why: str | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """Whether a sample's turn passes freely, then under each remedy; None where it is unscored.

    `why` tells which score it lacks, the first one if there are several. A turn that lacks none has
    `failed`: whether it fails (1) freely, then with more and more made perfect; 0 at the end, since
    with its own level perfect too, nothing fails.
    """

    sample: str
    cluster: str
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


def blames(frame: ScoreFrame, grading: Grading, threshold: float) -> Iterator[Blame]:
    """Every failed creation and reasoning, attributed to a level where the ablations allow it.

    A level is left out where the run did not ask for the conditions that it needs.
    """
    for level in CHAINS:
        for each in _courses(frame, grading, level, threshold):
            if each.fails:
                yield Blame(
                    sample=each.sample,
                    cluster=each.cluster,
                    level=level,
                    attributed_to=each.attributed_to,
                    why=each.why,
                )


def shares(found: Iterable[Blame]) -> dict[tuple[str, str], Summary]:
    """(failed level, blamed level) -> the share of the failures that are attributed to it.

    `n` counts the failures with a score under every condition, `missing` those without.
    """
    by_level: dict[str, list[Blame]] = {}
    for blame in found:
        by_level.setdefault(blame.level, []).append(blame)
    return {
        (level, blamed): summarise_share(
            Column.of(
                [None if each.why else float(each.attributed_to == blamed) for each in failures],
                samples=[each.sample for each in failures],
                clusters=[each.cluster for each in failures],
                reasons=[each.why for each in failures],
            )
        )
        for level, failures in by_level.items()
        for blamed in _blamed(level)
    }


def net_shares(
    frame: ScoreFrame, grading: Grading, threshold: float
) -> dict[tuple[str, str], Summary]:
    """(failed level, blamed level) -> by how much of itself the number of failures falls, net.

    With F failures freely and H with the level before made perfect, that level's net share is
    (F - H) / F; the failed level keeps what is left when all before it is perfect. The shares of a
    failed level add up to 1; one is negative where perfection spoils more than it mends. Samples
    count that are scored under every condition. `n` is the number of their free failures, `missing`
    of those of the others: the same as in `shares`.
    """
    return {
        (level, blamed): _net(courses, step)
        for level in CHAINS
        if (courses := _courses(frame, grading, level, threshold))
        for step, blamed in enumerate(_blamed(level))
    }


def failing(frame: ScoreFrame, grading: Grading, threshold: float) -> Iterator[Failing]:
    """Of each failed level the whole, `creation failed`, and then what comes from each level.

    Those, `creation failed: due to perception` and so on, add up to the whole. They are what the
    net shares are of, over all samples in place of the failures: with F failures freely and H with
    perfect perception, N samples have a mean of (F - H) / N. A sample that lacks a score under some
    condition is missing.
    """
    for level in CHAINS:
        if courses := _courses(frame, grading, level, threshold):
            whole = _column(courses, lambda each: each.failed[0])
            yield Failing(name=f"{level}{FAILED}", column=whole, is_share=True)
            for step, blamed in enumerate(_blamed(level)):
                fall = _column(courses, partial(_fall, step=step))
                yield Failing(name=f"{level}{DUE}{blamed}", column=fall, is_share=blamed == level)


def _courses(frame: ScoreFrame, grading: Grading, level: str, threshold: float) -> list[_Course]:
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
        _course(sample, cluster, level, _passed(settings, threshold))
        for sample, cluster, settings in zip(free.samples, free.clusters, scores, strict=True)
    ]


def _passed(scores: Iterable[float | None], threshold: float) -> tuple[bool | None, ...]:
    return tuple(None if score is None else score >= threshold for score in scores)


def _course(sample: str, cluster: str, level: str, passed: tuple[bool | None, ...]) -> _Course:
    why = None
    if None in passed:
        place = passed.index(None)
        why = f"no score with perfect {_blamed(level)[place - 1]}" if place else "no score"
    failed = () if why else (*(float(not each) for each in passed), 0.0)
    return _Course(
        sample=sample, cluster=cluster, level=level, passed=passed, why=why, failed=failed
    )


def _blamed(level: str) -> tuple[str, ...]:
    """The levels that a failed one can be attributed to, in their order."""
    return (*(blamed for blamed, _, _ in CHAINS[level][1]), level)


def _net(courses: Sequence[_Course], step: int) -> Summary:
    """The fall in failures from one step to the next, as a share of the free failures.

    The first level's share is at most 1 and the last one's at least 0: there their scales end.
    """
    rows = [each for each in courses if each.why is None or each.fails]
    over = _column(rows, partial(_fall, step=step))
    under = _column(rows, lambda each: each.failed[0])
    steps = len(courses[0].passed)
    possible = [
        (each[step] - (*each, 0.0)[step + 1], each[0]) for each in product((0.0, 1.0), repeat=steps)
    ]
    share = bounded(
        summarise_ratio(over, under, possible),
        lowest=0.0 if step == steps - 1 else None,
        highest=1.0 if step == 0 else None,
    )
    return replace(share, n=sum(value == 1 for value in under.values))


def _column(courses: Sequence[_Course], number: Callable[[_Course], float]) -> Column:
    """A number of each sample, or which score it lacks."""
    return Column.of(
        [number(each) if each.why is None else None for each in courses],
        samples=[each.sample for each in courses],
        clusters=[each.cluster for each in courses],
        reasons=[each.why for each in courses],
    )


def _fall(course: _Course, step: int) -> float:
    """By how much a sample's failures fall at a step, from -1 to 1."""
    return course.failed[step] - course.failed[step + 1]
