"""What ConvBench measures besides scores, deltas and attribution (`ablations.metrics`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from mmconv.benchmarks.ablations.metrics import ladder
from mmconv.benchmarks.ablations.quantities import (
    DELTAS,
    GIVEN,
    LEVELS,
    MEANS,
    QUANTITIES,
    Grading,
)
from mmconv.benchmarks.base.metrics import (
    ColumnOf,
    Delta,
    Group,
    Mean,
    Metric,
    Official,
    Select,
    endings_metrics,
    share,
)
from mmconv.benchmarks.convbench.options import ALONE, ConvBenchOptions, own_turns
from mmconv.benchmarks.convbench.quantities import OFFICIAL, Convention, gradings
from mmconv.stats import Column, ScoreFrame


def metrics(options: ConvBenchOptions, official: Convention | None = None) -> Iterator[Metric]:
    """All metrics of a run with these options; a run has a part of them.

    `official` says what the authors' win rates count; without it there are none.
    """
    for grading in gradings(options):
        yield from ladder(grading)
        yield from _single_turn(grading)
        yield from _categories(grading)
    yield from _position()
    yield from _official(official)
    yield from endings_metrics("answers")


def _single_turn(grading: Grading) -> Iterator[Metric]:
    """One instruction alone against the conversation (paper, Appendix C.1)."""
    for condition, turn in ALONE.items():
        is_run = partial(_has_condition, condition)
        alone, free = (
            Mean(
                f"{LEVELS[turn]}, {what}",
                of=_If(of=grading.select(where, turn), holds=is_run),
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
                of=grading.select(condition, turn),
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
                group=share("same side twice (%)"),
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
