"""The tables of ConvBench's attribution: net, in percent of samples, and by single samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeAlias

from mmconv.benchmarks.convbench.attribution import (
    DUE,
    Course,
    Courses,
    failing,
    failures,
    follow,
    net_shares,
    shares,
)
from mmconv.benchmarks.convbench.position_bias import TIE, is_in_both_orders
from mmconv.benchmarks.convbench.quantities import PAIRWISE, Grading
from mmconv.benchmarks.convbench.table_context import TableContext
from mmconv.stats import FEWEST_CLUSTERS, ScoreFrame, as_cell
from mmconv.values import Cell, Summary, Table

NET = (
    "A level's net share is by how much failures fall in number once it too is perfect, over all "
    "failures: what succeeds or fails by chance cancels out. The failed level keeps the rest. "
    "Below 0 or above 100 %, perfect turns add failures."
)
"""What net shares are, as their table tells it."""

WIDEST = 1.5
"""The widest interval of a net share that is told; 1 is all failures."""

UNTOLD = (
    f"Of fewer than {FEWEST_CLUSTERS} failures no net share is told, nor one that has no interval, "
    f"or an interval wider than {100 * WIDEST:g} points: it could be almost anything."
)
"""Which net shares are not told, as their table tells it."""

NOT_CITED = (
    "For finding samples, not for citing. Each failure is attributed to the first level before it "
    "that makes it a success once perfect, else to its own. A model that answers anew each time "
    "also succeeds by chance, for which earlier levels, perception most, are blamed here."
)
"""What shares by the rule for single samples are, as their table tells it."""

FOLLOWED = (
    "n counts the failures that have a score under every condition. The others are missing: the "
    "shares hold for them too if it is by chance that they lack a score."
)
"""Which failures the shares are of, as tables tell it."""

LOST = (
    "A lost comparison is no error by itself: of two answers that are equally good, one loses. In "
    "one order such losses stay with the failed level, however good it is; judged in both orders "
    "(order: both), only what loses in both counts."
)
"""What shares of lost comparisons are, as tables tell it where one order was judged."""


ADDED_UP = (
    "The rows of a failed level add up to its first. A level's row is by how much failures fall in "
    "number once it too is perfect; below 0, perfect turns add failures. Over the samples that "
    "have a score under every condition."
)
"""What shares of samples are, as their table tells it."""

IN_SHARES = "in the shares"
"""The column that says whether a sample's failure counts in the shares: yes, or no and why."""

_Courses: TypeAlias = Mapping[Grading, Courses]


def attribution_tables(
    frame: ScoreFrame, gradings: Sequence[Grading], context: TableContext
) -> tuple[Table, ...]:
    """What there is to cite first; the tables are without rows where there are no failures."""
    found = {each: follow(frame, each, context.failure.of(each)) for each in gradings}
    lost = _lost(frame, gradings)
    return (
        _net_attribution(found, lost, context),
        _failing_samples(found, lost, context),
        _attribution(found, context),
        _blamed(found, context),
    )


def _net_attribution(found: _Courses, lost: tuple[str, ...], context: TableContext) -> Table:
    rows: dict[str, dict[str, Cell]] = {}
    for grading, courses in found.items():
        for (level, blamed), share in net_shares(courses).items():
            if share.n or share.missing:
                row = rows.setdefault(f"{level}{DUE}{blamed}", {})
                told = share if _is_told(share) else replace(share, mean=None, low=None, high=None)
                row[grading.failures] = as_cell(told, 100.0)
    return Table(
        name="attribution_net",
        title="Which level the failures come from (% of failures)",
        columns=tuple(grading.failures for grading in found),
        rows=rows,
        notes=(
            NET if lost and [*found] == [PAIRWISE] else f"Cite these. {NET}",
            UNTOLD,
            _failing(context),
            FOLLOWED,
            *lost,
            *context.notes,
        ),
    )


def _failing_samples(found: _Courses, lost: tuple[str, ...], context: TableContext) -> Table:
    rows: dict[str, dict[str, Cell]] = {}
    for grading, courses in found.items():
        for each in failing(courses):
            rows.setdefault(each.name, {})[grading.failures] = as_cell(each.summary, 100.0)
    return Table(
        name="failures",
        title="How many samples fail, and what the failures come from (% of samples)",
        columns=tuple(grading.failures for grading in found),
        rows=rows,
        notes=(ADDED_UP, _failing(context), *lost, *context.notes),
        detail=True,
    )


def _lost(frame: ScoreFrame, gradings: Iterable[Grading]) -> tuple[str, ...]:
    """What a failure in a comparison is, where each answer was judged on one side alone."""
    return (LOST,) if PAIRWISE in gradings and not is_in_both_orders(frame) else ()


def _is_told(share: Summary) -> bool:
    """Whether there is enough behind a net share to name it."""
    if share.n < FEWEST_CLUSTERS or share.low is None or share.high is None:
        return False
    return share.high - share.low <= WIDEST


def _attribution(found: _Courses, context: TableContext) -> Table:
    rows: dict[str, dict[str, Cell]] = {}
    for grading, courses in found.items():
        for (level, blamed), share in shares(courses).items():
            row = rows.setdefault(f"{level} failed: attributed to {blamed}", {})
            row[grading.failures] = as_cell(share, 100.0)
    return Table(
        name="attribution",
        title="Which level turns a failure into a success once perfect, chance included "
        "(% of failures)",
        columns=tuple(grading.failures for grading in found),
        rows=rows,
        notes=(NOT_CITED, _failing(context), FOLLOWED, *context.notes),
    )


def _blamed(found: _Courses, context: TableContext) -> Table:
    """The samples behind the attribution: grading/failed level/sample -> the level blamed."""
    rows = {
        f"{grading.name}/{level}/{each.sample}": _blame(each.course)
        for grading, courses in found.items()
        for level, turns in failures(courses).items()
        for each in turns
    }
    return Table(
        name="attribution_samples",
        title="The samples behind the attribution",
        columns=("attributed to", IN_SHARES),
        rows=rows,
        notes=(NOT_CITED, _failing(context), FOLLOWED),
        detail=True,
    )


@cache
def _blame(course: Course) -> Mapping[str, Cell]:
    """The row of every failure that takes this course: most of thousands are alike."""
    counted = "yes"
    if course.why is not None:
        counted = "no" if course.attributed_to is None else f"no: {course.why}"
    return {
        "attributed to": Cell(value=course.attributed_to or f"unknown: {course.why}"),
        IN_SHARES: Cell(value=counted),
    }


def _failing(context: TableContext) -> str:
    tie = "no failure" if context.failure.win <= TIE else "one too"
    return (
        f"A rating under {context.failure.rating:g}, or a lost pairwise judgement, is a failure; "
        f"one win in two orders is {tie}."
    )
