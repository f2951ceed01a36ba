"""Metrics: named estimates over scores. A number that people quote is defined here, once.

A benchmark yields metrics of five kinds: `Mean`, `MeanOf`, `Delta`, `Ratio` and `Official`. They
are data, from which tables (`layouts`), comparisons of runs and leaderboards (`compare`) are made.
All intervals are those of `mmconv.stats`; nothing is laid out or printed here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import groupby, product
from typing import Literal, TypeAlias

import numpy as np

from mmconv.benchmarks.base.endings import METRICS, SHARES, TOKENS
from mmconv.benchmarks.base.results import Scale, ends_of
from mmconv.core.types import Cell, Summary
from mmconv.stats import (
    FEWEST_CLUSTERS,
    Column,
    Kind,
    Quantity,
    ScoreFrame,
    as_cell,
    average,
    bounded,
    pair,
    summarise,
    summarise_ratio,
    summarise_share,
    summarise_share_change,
)

ColumnOf: TypeAlias = Callable[[ScoreFrame], Column]
"""Gives one row per sample: a number, or the reason why there is none."""

LARGEST_WIDTH = 1.5
"""The widest interval with which a ratio is shown; 1 is all of its denominator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Numbers of one unit: a column of a table, an axis of a plot.

    `lowest` and `highest` are the ends of the scale in the scores' own unit, None if it has none.
    `factor` 100 prints percent. Numbers of a `share` are from 0 to 1 and have a share's interval.
    Comparisons add the `unit` to the title; a table names it in its own title.
    """

    title: str
    unit: str = ""
    lowest: float | None = None
    highest: float | None = None
    factor: float = 1.0
    share: bool = False

    @property
    def label(self) -> str:
        """The title with its unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def reach(self) -> float:
        """How far two values can be apart."""
        if self.lowest is None or self.highest is None:
            return float("inf")
        return self.highest - self.lowest

    def cell(self, summary: Summary, *, signed: bool = False) -> Cell:
        """The number as a table prints it."""
        return as_cell(summary, self.factor, signed=signed, share=self.share)


def share(title: str) -> Group:
    """Shares, in percent."""
    return Group(title=title, lowest=0.0, highest=1.0, factor=100.0, share=True)


@dataclass(frozen=True, slots=True)
class Select:
    """Scores of one name, reduced to one number per sample; `rows` leaves them as they are.

    `where` maps tags to the texts to match. A sample with a missing score is missing; with
    `partial` only a sample without any number is. `value` is applied to each number at the end.
    Scores that differ in `apart` (`turn` or tags) count as samples of their own, in one cluster,
    such as both orders of a comparison.
    """

    score: str
    _: KW_ONLY
    condition: str | None = None
    turn: int | None = None
    where: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict, hash=False)
    reduce: Literal["mean", "min", "max", "rows"] = "mean"
    partial: bool = False
    value: Callable[[float], float] | None = None
    apart: tuple[str, ...] = ()

    def __call__(self, frame: ScoreFrame) -> Column:
        """The column of a run's scores; empty if the run has no such scores."""
        where = {"metric": self.score, **self.where}
        where |= {} if self.condition is None else {"condition": self.condition}
        column = frame.select(self.apart, turn=self.turn, **where)
        if self.reduce != "rows":
            column = column.per_sample(self.reduce, partial=self.partial)
        return column if self.value is None else mapped(column, self.value)


@dataclass(frozen=True, slots=True)
class Together:
    """The mean of several numbers of each sample; a sample must have all of them.

    It is empty if the run has nothing for one of the columns.
    """

    columns: tuple[ColumnOf, ...]

    def __call__(self, frame: ScoreFrame) -> Column:
        """One row per sample of any column."""
        parts = [column(frame) for column in self.columns]
        if not all(map(len, parts)):
            return Column.of(())
        rows = Column.joined(parts)
        absent = [
            sample
            for sample, times in Counter(rows.samples).items()
            for _ in range(len(parts) - times)
        ]
        return _with_unscored(rows, absent).per_sample("mean")


NOT_SCORED = "not scored"
"""Why a sample has no number of a score that others of its condition have."""


def _with_unscored(column: Column, samples: Sequence[str]) -> Column:
    reasons = [NOT_SCORED] * len(samples)
    return Column.joined(
        [column, Column.of([None] * len(samples), samples=samples, reasons=reasons)]
    )


def mapped(column: Column, value: Callable[[float], float]) -> Column:
    """The column with a function of each number in its place."""
    numbers = [number if number is None else value(number) for number in column.values]
    return replace(column, numbers=np.array(numbers, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class Metric(ABC):
    """What all five kinds have: an address and a measurement.

    `table` prints it in the row of its name and the column of its group. `meaning` says what it is
    in a few words.
    """

    name: str
    _: KW_ONLY
    group: Group
    table: str = "scores"
    meaning: str = ""

    @abstractmethod
    def measure(self, frame: ScoreFrame) -> Cell | None:
        """The number in one run; None if the run has nothing for it, scored or missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared(Metric):
    """A mean of numbers that each sample has, in which runs can be compared sample by sample.

    `compare` names the table of differences in which they are; None: they are not.
    """

    compare: Kind | None = "score"

    @abstractmethod
    def columns(self, frame: ScoreFrame) -> Mapping[str, Column]:
        """The columns whose means are averaged, by name; none if the run has nothing for it."""

    @abstractmethod
    def estimate(self, columns: Mapping[str, Column]) -> Summary:
        """The number with the interval that suits the group."""

    def measure(self, frame: ScoreFrame) -> Cell | None:
        """The number with its interval."""
        columns = self.columns(frame)
        return self.write(self.estimate(columns)) if columns else None

    def write(self, summary: Summary) -> Cell:
        """The number as a table prints it; its interval ends where the scale does."""
        return self.group.cell(bounded(summary, self.group.lowest, self.group.highest))

    def quantity(self, frame: ScoreFrame) -> Quantity | None:
        """What runs are compared in."""
        columns = self.columns(frame)
        if self.compare is None or not columns:
            return None
        return Quantity(
            name=self.name,
            columns=columns,
            group=self.group.label,
            scale=self.group.factor,
            reach=self.reach,
            shares=self.shares(columns),
            kind=self.compare,
        )

    @property
    def reach(self) -> float:
        """How far two values can be apart."""
        return self.group.reach

    def shares(self, columns: Mapping[str, Column]) -> Collection[str]:
        """The names of the columns of shares."""
        return [*columns] if self.group.share else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(Compared):
    """The mean over samples of a score, or of any column with one number per sample.

    `label` is a shorter name for the columns of a table. With `tags`, runs are compared by it for
    each combination of the tags' values, which replace the tags in braces in the name.
    """

    of: ColumnOf
    label: str = ""
    tags: tuple[str, ...] = ()

    def columns(self, frame: ScoreFrame) -> dict[str, Column]:
        """The column, if it has rows."""
        column = self.of(frame)
        return {self.name: column} if len(column) else {}

    def estimate(self, columns: Mapping[str, Column]) -> Summary:
        """The mean of the column; Wilson's interval on a scale with two ends."""
        column, lowest, highest = columns[self.name], self.group.lowest, self.group.highest
        if lowest is not None and highest is not None:
            return summarise_share(column, lowest, highest)
        return bounded(summarise(column), lowest, highest)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanOf(Compared):
    """The plain mean of means over samples of their own, such as tasks.

    Those parts that a run has are averaged, if there are at least `fewest`. If one of them has no
    interval, neither has the mean (`mmconv.stats.estimates.average`).
    """

    of: Sequence[Mean] = field(hash=False)
    fewest: int = 1

    def columns(self, frame: ScoreFrame) -> dict[str, Column]:
        """The columns of the parts that the run has; none if they are too few."""
        columns = {name: each for part in self.of for name, each in part.columns(frame).items()}
        return columns if len(columns) >= self.fewest else {}

    def estimate(self, columns: Mapping[str, Column]) -> Summary:
        """The mean of the parts' means."""
        own = [part.estimate(columns) for part in self.of if part.name in columns]
        return average([*columns.values()], own)

    def shares(self, columns: Mapping[str, Column]) -> list[str]:
        """The names of the parts that are shares."""
        return [part.name for part in self.of if part.name in columns and part.group.share]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta(Compared):
    """The paired difference of two means, goal - start, over the samples that have both.

    `signed` numbers are printed with their sign. `sides` name start and goal in missing reasons.
    Runs are compared in it by Student's t, as a difference of differences.
    """

    start: Mean
    goal: Mean
    table: str = "deltas"
    signed: bool = True
    compare: Kind | None = "change"
    sides: tuple[str, str] | None = None

    def columns(self, frame: ScoreFrame) -> dict[str, Column]:
        """The differences, if the run has both means."""
        is_there = len(self.start.of(frame)) and len(self.goal.of(frame))
        return {self.name: self.column(frame)} if is_there else {}

    def column(self, frame: ScoreFrame) -> Column:
        """The difference of each sample."""
        start, goal = self.start.of(frame), self.goal.of(frame)
        difference = pair(start, goal, self.sides)
        if start.samples == goal.samples and start.reasons == goal.reasons:
            # what is missing is missing on both sides: the reason is not that a side lacks it
            return replace(difference, reasons=start.reasons)
        return difference

    def estimate(self, columns: Mapping[str, Column]) -> Summary:
        """The mean difference; Agresti and Min's interval if both means are shares."""
        column = columns[self.name]
        return summarise_share_change(column) if self.group.share else summarise(column)

    def write(self, summary: Summary) -> Cell:
        """The difference as a table prints it, with its sign if it is `signed`."""
        reach = self.group.reach
        return self.group.cell(bounded(summary, -reach, reach), signed=self.signed)

    @property
    def reach(self) -> float:
        """How far two differences can be apart."""
        return 2 * self.group.reach

    def shares(self, columns: Mapping[str, Column]) -> Collection[str]:
        """None: differences of shares are none."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio(Metric):
    """The sum of one column divided by that of another over the same samples.

    For counts divided by uncertain counts: the share of failures that goes away. `n` is the sum of
    `under`, such as events (0 or 1 per sample); samples with an event but without `over` are
    missing. `possible` are the pairs (over, under) of a sample. A ratio with n below 5, without an
    interval, or with one wider than `LARGEST_WIDTH` is not shown. `lowest` and `highest` end it.

    With `other` the truth is only known to be between this ratio and the other one, or a number.
    The cell has both, the lesser first, and the outer limits of their intervals. An other ratio
    that cannot be shown is taken to be `highest`.
    """

    over: ColumnOf
    under: ColumnOf
    possible: Sequence[tuple[float, float]] = field(hash=False)
    table: str = "ratios"
    lowest: float | None = None
    highest: float | None = None
    other: Ratio | float | None = None

    def measure(self, frame: ScoreFrame) -> Cell | None:
        """The ratio with Fieller's interval, or its bounds, if it is to be shown."""
        summary = self.summarise(frame)
        if summary is None or not (summary.n or summary.missing):
            return None
        ends = [_ends(summary)] if self.other is None else [_ends(summary), self._other(frame)]
        shown = [each for each in ends if each is not None]
        most = float("inf") if self.highest is None else self.highest
        if len(shown) < len(ends) or shown[0][1] > most:
            # a net count may be negative: then there is nothing to divide
            bare = replace(summary, mean=None, low=None, high=None, n=max(0, summary.n))
            return as_cell(bare)
        lows, values, highs = zip(*shown, strict=True)
        outer = replace(summary, mean=min(values), low=min(lows), high=min(max(highs), most))
        cell = as_cell(outer, self.group.factor, share=True)
        return replace(cell, to=min(max(values), most) * self.group.factor) if ends[1:] else cell

    def _other(self, frame: ScoreFrame) -> tuple[float, float, float] | None:
        """Low, value and high of the other bound; None if it is not known."""
        if isinstance(self.other, Ratio) and (ends := _ends(self.other.summarise(frame))):
            return ends
        known = self.highest if isinstance(self.other, Ratio) else self.other
        return None if known is None else (known,) * 3

    def summarise(self, frame: ScoreFrame) -> Summary | None:
        """The ratio with Fieller's interval, however few the events are."""
        over, under = self.over(frame), self.under(frame)
        if not (len(over) and len(under)):
            return None
        over, under = _counted(over, under)
        summary = bounded(summarise_ratio(over, under, self.possible), self.lowest, self.highest)
        return replace(summary, n=int(under.numbers[over.present].sum()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Official(Metric):
    """A number by the authors' own convention, computed by a function of the benchmark."""

    compute: Callable[[ScoreFrame], Cell | None]

    def measure(self, frame: ScoreFrame) -> Cell | None:
        """What the function gives; None if the convention does not apply to the run."""
        return self.compute(frame)


def endings_metrics(table: str) -> Iterator[Mean]:
    """How answers ended: the shares cut off, filtered and empty, and the mean number of tokens."""
    for score, title in SHARES.items():
        shares = Select(score, reduce="rows")
        yield Mean(title, of=shares, group=share("%"), table=table, compare=None)
    tokens = Group(title="tokens", lowest=0.0)
    counts = Select(TOKENS, reduce="rows")
    yield Mean(TOKENS, of=counts, group=tokens, table=table, compare=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfEverySample:
    """The mean of a score per sample; samples with other scores only are missing."""

    score: str
    condition: str

    def __call__(self, frame: ScoreFrame) -> Column:
        column = Select(self.score, condition=self.condition)(frame)
        if not len(column):
            return column
        every = dict.fromkeys(frame.select(condition=self.condition).samples)
        scored = {*column.samples}
        return _with_unscored(column, [sample for sample in every if sample not in scored])


def default_metrics(
    frame: ScoreFrame, conditions: Iterable[str], scale: Scale, *, table: str
) -> Iterator[Mean]:
    """The mean of every score under every condition, and of each turn if there are several.

    How answers ended is left out. Scores that are all 0 or 1 have a share's interval, unless their
    `scale` is another. Means of turns are in no table; runs are compared in them.
    """
    for name in frame.distinct("metric"):
        if name in METRICS:
            continue
        ends = ends_of(scale, name)
        for condition in conditions:
            of = _OfEverySample(score=name, condition=condition)
            column = frame.select(metric=name, condition=condition)
            is_share = column.is_binary and ends in (None, (0, 1))
            lowest, highest = (0.0, 1.0) if is_share else ends or (None, None)
            group = Group(title=condition, lowest=lowest, highest=highest, share=is_share)
            yield Mean(name, of=of, group=group, table=table)
            for turn in frame.turns():
                of_turn = Select(name, condition=condition, turn=turn)
                yield Mean(f"{name}, turn {turn}", of=of_turn, group=group, table="")


def quantities(metrics: Iterable[Metric], frame: ScoreFrame) -> Iterator[Quantity]:
    """What runs are compared in, sample by sample, as far as the run has it."""
    compared = (metric for metric in metrics if isinstance(metric, Compared))
    for tags, group in groupby(compared, key=lambda metric: getattr(metric, "tags", ())):
        with_these_tags = [*group]
        for values in product(*map(frame.distinct, tags)):
            where = dict(zip(tags, values, strict=True))
            part = frame.only(turn=None, **where) if tags else frame
            for metric in with_these_tags:
                named = replace(metric, name=metric.name.format(**where)) if where else metric
                quantity = named.quantity(part)
                if quantity is not None:
                    yield quantity


def _counted(over: Column, under: Column) -> tuple[Column, Column]:
    """The rows that a ratio counts: with both numbers, or with an event and no `over`."""
    events = dict(zip(under.samples, under.values, strict=True))
    present = over.present.tolist()
    rows = [
        row
        for row, (sample, here) in enumerate(zip(over.samples, present, strict=True))
        if events.get(sample) is not None and (here or events[sample])
    ]
    numbers = [events[over.samples[row]] if present[row] else None for row in rows]
    return over.rows(rows), replace(over.rows(rows), numbers=np.array(numbers, dtype=np.float64))


def _ends(ratio: Summary | None) -> tuple[float, float, float] | None:
    """Low, value and high of a ratio; None if there is too little behind it to name it."""
    if not ratio or ratio.mean is None or ratio.low is None or ratio.high is None:
        return None
    is_shown = ratio.n >= FEWEST_CLUSTERS and ratio.high - ratio.low <= LARGEST_WIDTH
    return (ratio.low, ratio.mean, ratio.high) if is_shown else None
