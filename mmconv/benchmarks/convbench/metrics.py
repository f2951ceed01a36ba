"""What ConvBench measures besides scores, deltas and attribution (`ablations.metrics`).

The authors' win rates are wins over a constant, in which what is unscored is a loss (source: the
aggregation in their ConvBenchEval/score.py). A run over a part of the rows has none, since the
constant counts all rows. If both orders are judged, each is one comparison, of which the constant
counts two for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from mmconv.benchmarks.ablations.metrics import (
    DELTAS,
    GIVEN,
    LEVELS,
    MEANS,
    QUANTITIES,
    Grading,
    ladder,
)
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
from mmconv.benchmarks.convbench.options import ALONE, ConvBenchOptions, own_turns
from mmconv.core.types import Cell
from mmconv.stats import Column, ScoreFrame

_DEFAULTS = {name: field.default for name, field in ConvBenchOptions.model_fields.items()}

DIRECT = Grading(
    name="direct",
    metric="rating",
    group=Group(title="direct (1-10)", lowest=1.0, highest=10.0),
    threshold=float(_DEFAULTS["failure_rating"]),
)
PAIRWISE = Grading(
    name="pairwise",
    metric="win",
    group=share("pairwise win rate (%)"),
    threshold=float(_DEFAULTS["failure_win"]),
)
GRADINGS = (DIRECT, PAIRWISE)


def gradings(options: ConvBenchOptions) -> tuple[Grading, Grading]:
    """Direct and pairwise grading with the thresholds of a run's options."""
    return (
        replace(DIRECT, threshold=options.failure_rating),
        replace(PAIRWISE, threshold=options.failure_win),
    )


OFFICIAL = "authors (%)"
"""The column's title."""

AUTHORS_CONSTANT = 577
"""What the authors' aggregation code divides by."""

_AUTHORS_ROWS = (577, 578)
"""How many rows their data have, by their paper and by their file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """The constant for one trial, how many trials a run has, and how many good rows the data.

    Rows that are `left_out` as bad have no result, so they count as lost. A run has `samples` of
    the rows, and each pair is judged in one or two `orders`.
    """

    denominator: int
    rows: int
    samples: int
    trials: int = 1
    left_out: int = 0
    orders: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether the run has all rows, which the constant counts."""
        return self.samples >= self.rows

    @property
    def note(self) -> str:
        """What the column is, or why there is none."""
        if not self.is_whole:
            constant = f"its constant, {self.denominator}, counts all rows"
            return f"{OFFICIAL} is left out: {constant}, of which this run has {self.samples}."
        times = f" in each of {self.trials} trials" if self.trials > 1 else ""
        half = "; a win in one of two orders is half of one" if self.orders > 1 else ""
        bad = f", and {self.left_out} left out as bad" if self.left_out else ""
        return (
            f"{OFFICIAL}: wins over {self.denominator}{times}{half}; what is unscored counts as "
            f"lost{bad}."
        )

    def cell(self, frame: ScoreFrame, *, name: str) -> Cell | None:
        """A quantity or delta in percent.

        None if the run has a part of the rows, was not judged in pairs, or lacks an end of a delta.
        """
        if not self.is_whole or PAIRWISE.metric not in frame.distinct("metric"):
            return None
        if name not in DELTAS:
            return Cell(value=_percent(self._rate(frame, name)))
        start, goal = (self._rate(frame, end) for end in DELTAS[name])
        return None if start is None or goal is None else Cell(value=_percent(goal - start))

    def _rate(self, frame: ScoreFrame, name: str) -> float | None:
        """From 0 to 1; None if nothing was judged."""
        if name in MEANS:
            rates = [self._rate(frame, part) for part in MEANS[name]]
            known = [rate for rate in rates if rate is not None]
            return sum(known) / len(known) if len(known) == len(rates) else None
        condition, turn = QUANTITIES[name]
        verdicts = frame.select(metric=PAIRWISE.metric, condition=condition, turn=turn)
        if not len(verdicts):
            return None
        wins = [value for value in verdicts.values if value is not None]
        return sum(wins) / (self.denominator * self.trials * self.orders)


def constant_for(rows: int) -> int:
    """What takes the constant's place for data of so many rows, which may not be the authors'."""
    return AUTHORS_CONSTANT if rows in _AUTHORS_ROWS else rows


def _percent(rate: float | None) -> float | None:
    return None if rate is None else 100.0 * rate


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


def _single_turn(grading: Grading) -> Iterator[Metric]:
    """One instruction alone against the conversation (paper, Appendix C.1)."""
    mean = partial(Mean, group=grading.group, table="single_turn", compare=None)
    delta = partial(Delta, group=grading.group, table="single_turn", compare=None)
    for condition, turn in ALONE.items():
        is_run = partial(_has_condition, condition)
        alone, free = (
            mean(f"{LEVELS[turn]}, {what}", of=_If(of=grading.select(where, turn), holds=is_run))
            for where, what in (
                (condition, "asked alone"),
                ("free", "third of three turns" if turn == 3 else "after perception"),
            )
        )
        yield from (alone, free)
        yield delta(f"{LEVELS[turn]}, gain by the turns before", start=alone, goal=free)


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
    mean = partial(Mean, table="position", compare=None)
    delta = partial(Delta, table="position", compare=None)
    for turn, name in {**LEVELS, 0: "overall"}.items():
        wins = Select("win", condition="free", turn=turn)
        as_a, as_b = (
            mean(name, of=replace(wins, where={"side": side}), group=share(title))
            for side, title in SIDES.items()
        )
        yield from (as_a, as_b)
        start, goal = _in_both_orders(as_b), _in_both_orders(as_a)
        yield delta(name, start=start, goal=goal, group=share("A less B"))
        ties = replace(wins, value=lambda win: float(win == TIE))
        yield _in_both_orders(mean(name, of=ties, group=share("same side twice (%)")))


def is_in_both_orders(frame: ScoreFrame) -> bool:
    """Whether any pair was judged with the candidate on either side."""
    first, second = (frame.select(metric="win", side=side).samples for side in SIDES)
    return not {*first}.isdisjoint(second)


def _in_both_orders(metric: Mean) -> Mean:
    return replace(metric, of=_If(of=metric.of, holds=is_in_both_orders))


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
