"""Layouts: how a benchmark's metrics are arranged in tables.

A table without a layout of its own has a row per metric and a column per group. A `Layout` gives it
a title and notes, or splits the scores by tags: by task and turn, by category. Nothing is estimated
here, and how a table looks on paper is `mmconv.report`'s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import filterfalse, product
from statistics import fmean
from typing import Literal, TypeAlias

from mmconv.benchmarks.base.corrections import CORRECTED, corrected
from mmconv.benchmarks.base.metrics import Delta, Mean, MeanOf, Metric
from mmconv.core.types import Axis, Cell, Table
from mmconv.stats import ScoreFrame

Split: TypeAlias = Mapping[str, Sequence[str | int] | None]
"""Tag, `condition` or `turn` -> the values that get a row or column each; None: all, sorted."""

Parts: TypeAlias = Callable[[ScoreFrame], Mapping[str, ScoreFrame]]
"""Gives the scores of each row by its name, if rows are not the values of tags."""

Values: TypeAlias = Mapping[str, str | int]
"""The value of each tag in one part of a `Split`."""

Rows: TypeAlias = dict[str, dict[str, Cell]]

Build: TypeAlias = Callable[[ScoreFrame], Table]
"""Builds a table by hand if it is not an arrangement of metrics."""

CONTROL = "control"
"""The begin of the titles of columns that check others; no chart has them."""

IF_MISSING = ", missing lowest to highest"
"""The end of the titles of columns with bounds of means with missing scores."""

MANY_MISSING = 0.02
"""The share of missing scores above which a mean has such bounds."""

MEANING = "meaning"
"""The column that says what a metric is."""


def by_label(tag: str, separator: str) -> Parts:
    """A row for each label of a tag whose texts list several; a score counts for all of its own."""

    def split(frame: ScoreFrame) -> dict[str, ScoreFrame]:
        listed = {text: text.split(separator) for text in frame.distinct(tag)}
        return {
            label: frame.only(
                turn=None, **{tag: [text for text, own in listed.items() if label in own]}
            )
            for label in sorted({label for labels in listed.values() for label in labels})
        }

    return split


@dataclass(frozen=True, slots=True)
class Layout:
    """A table: which metrics it shows, and what its rows and columns are.

    The metrics are those of the table `of` (its own name if empty); `names` picks some by name and
    `groups` by the title of their group, in this order. `rows` is `name`, `group`, `candidate` (a
    row for each), a `Split` or `Parts`, and `columns` is `group`, `name` or a `Split`. A split
    table measures its metrics on the scores with each combination of values; `row_label` and
    `column_label` write the name of a row or column from these values, and from `{name}` and
    `{group}` of the metric. `remarks` gives notes that depend on the rows, `findings` short
    sentences about the numbers. Of a leaderboard's table `rank` names the metric that it is sorted
    by, and `names` may map metrics to the names of their columns. A title may contain {candidate}
    and {judge}. With an `axis` a table that is split by columns has a picture of each row as a
    curve; its `mark` is the title of a group of any table, which is not split.
    """

    name: str
    title: str
    rows: Literal["name", "group", "candidate"] | Split | Parts = "name"
    columns: Literal["group", "name"] | Split = "group"
    of: str = ""
    names: Sequence[str] | Mapping[str, str] = ()
    groups: Sequence[str] = ()
    row_label: str = ""
    column_label: str = ""
    notes: Sequence[str] = ()
    remarks: Callable[[Rows], Iterable[str]] | None = None
    findings: Callable[[Rows], Iterable[str]] | None = None
    digits: int = 2
    detail: bool = False
    rank: str = ""
    axis: Axis | None = None

    def is_mark(self, metric: Metric) -> bool:
        """Whether a metric says where a curve falls below the line of the axis."""
        return self.axis is not None and metric.group.title == self.axis.mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What tables say besides numbers: who was evaluated, and what a reader must know."""

    candidate: str
    judge: str = ""
    notes: Sequence[str] = field(default=())


def supported_digits(low: float | None, high: float | None, most: int) -> int:
    """How many decimals an interval supports: two digits of its half width, and at most `most`."""
    if low is None or high is None or high <= low:
        return most
    return min(most, max(0, 1 - math.floor(math.log10((high - low) / 2))))


def write_estimate(cell: Cell, *, unit: str = "", signed: bool = False, most: int = 2) -> str:
    """A number with its interval and the digits that this supports, as in `94 % [71, 100]`.

    It has no more digits than in a table, and is rounded half up like there.
    """
    most = most if cell.digits is None else min(most, cell.digits)
    digits = supported_digits(cell.low, cell.high, most)

    def write(number: float | None) -> str:
        exact = Decimal(repr(float(number or 0.0)))
        rounded = f"{exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP) + 0:,f}"
        return cell.outside(number or 0.0) or rounded.replace("-", "\N{MINUS SIGN}")

    sign = "+" if signed and isinstance(cell.value, float) and cell.value > 0 else ""
    value = write(cell.value) if isinstance(cell.value, float) else str(cell.value)
    if cell.to is not None and (to := write(cell.to)) != value:
        value += f" to {to}"
    interval = f" [{write(cell.low)}, {write(cell.high)}]" if cell.low is not None else ""
    return f"{sign}{value}{unit and f' {unit}'}{interval}"


def make_tables(
    layouts: Iterable[Layout | Build],
    metrics: Sequence[Metric],
    frames: Mapping[str, ScoreFrame],
    context: Context,
) -> list[Table]:
    """The tables that the scores have something for, in the order of the layouts.

    `frames` are the scores of each candidate. If there are several, their names begin the columns
    of a table of metrics by group, and the rows of any other.
    """
    made = (
        _make(each, metrics, frames, context)
        if isinstance(each, Layout)
        else _build(each, frames, context)
        for each in layouts
    )
    return [table for table in made if table.rows]


def _build(build: Build, frames: Mapping[str, ScoreFrame], context: Context) -> Table:
    tables = {_prefix(candidate, frames): build(frame) for candidate, frame in frames.items()}
    first = next(iter(tables.values()))
    return replace(
        first,
        title=_with_names(first.title, context),
        columns=tuple(dict.fromkeys(name for each in tables.values() for name in each.columns)),
        rows={
            f"{prefix}{name}": row
            for prefix, table in tables.items()
            for name, row in table.rows.items()
        },
        notes=(*first.notes, *context.notes),
    )


def _make(
    layout: Layout, metrics: Sequence[Metric], frames: Mapping[str, ScoreFrame], context: Context
) -> Table:
    chosen = _choose(layout, metrics)
    is_by_group = layout.rows == "name" and layout.columns == "group"
    rows: Rows = {metric.name: {} for metric in chosen} if layout.rows == "name" else {}
    known = [MEANING]
    for candidate, frame in frames.items():
        prefix = _prefix(candidate, frames) if layout.rows != "candidate" else ""
        before_row, before_column = ("", prefix) if is_by_group else (prefix, "")
        known += (f"{before_column}{name}" for name in _column_names(layout, chosen, frame))
        for row, column, metric, cell in _cells(layout, chosen, frame, candidate):
            cells = rows.setdefault(f"{before_row}{row}", {})
            if layout.rows == "name" and metric.meaning:
                cells.setdefault(MEANING, Cell(value=metric.meaning))
            cells[f"{before_column}{column}"] = cell
    rows = {name: cells for name, cells in rows.items() if cells}
    filled = {name for cells in rows.values() for name in cells}
    remarks = layout.remarks(rows) if layout.remarks is not None else ()
    return Table(
        name=layout.name,
        title=_with_names(layout.title, context),
        columns=tuple(name for name in dict.fromkeys(known) if name in filled),
        rows=rows,
        notes=(*layout.notes, *remarks, *context.notes),
        digits=layout.digits,
        signed=bool(chosen) and all(isinstance(each, Delta) for each in chosen),
        detail=layout.detail,
        findings=tuple(layout.findings(rows)) if layout.findings is not None else (),
        axis=layout.axis,
    )


def _with_names(title: str, context: Context) -> str:
    return title.replace("{candidate}", context.candidate).replace("{judge}", context.judge)


def _prefix(candidate: str, frames: Mapping[str, ScoreFrame]) -> str:
    return f"{candidate}: " if len(frames) > 1 else ""


def _cells(
    layout: Layout, chosen: Sequence[Metric], frame: ScoreFrame, candidate: str
) -> Iterator[tuple[str, str, Metric, Cell]]:
    for row, part in _split(layout.rows, frame):
        for mark in filter(layout.is_mark, chosen):
            if (cell := mark.measure(part)) is not None:
                yield _row(layout, mark, row, candidate), mark.group.title, mark, cell
        for column, cut in _split(layout.columns, part):
            for metric in filterfalse(layout.is_mark, chosen):
                cell = metric.measure(cut)
                if cell is not None:
                    names = _row(layout, metric, row, candidate), _column(layout, metric, column)
                    yield *names, metric, cell
                    if layout.columns == "group" and (bounds := if_missing(metric, cut, cell)):
                        yield names[0], f"{names[1]}{IF_MISSING}", metric, bounds
                    if (by_people := corrected(metric, cut)) is not None:
                        yield names[0], f"{names[1]}{CORRECTED}", metric, by_people


def if_missing(metric: Metric, frame: ScoreFrame, cell: Cell) -> Cell | None:
    """The mean if all of its missing scores were the lowest, to that if all were the highest.

    None unless more than `MANY_MISSING` are, and some are not. None for scales without two ends,
    for differences and ratios, and for means that runs are not compared by.
    """
    lost = sum(cell.missing.values())
    if cell.value is None or lost <= MANY_MISSING * (lost + (cell.n or 0)):
        return None
    if not isinstance(metric, Mean | MeanOf) or metric.compare is None:
        return None
    lowest, highest, factor = metric.group.lowest, metric.group.highest, metric.group.factor
    if lowest is None or highest is None:
        return None
    means = [metric] if isinstance(metric, Mean) else metric.of
    values = [column.values for mean in means if len(column := mean.of(frame))]
    low, high = (
        factor * fmean(fmean(end if each is None else each for each in part) for part in values)
        for end in (lowest, highest)
    )
    return replace(cell, value=low, to=high, n=None, missing={}, low=None, high=None)


def _choose(layout: Layout, metrics: Sequence[Metric]) -> list[Metric]:
    of = layout.of or layout.name
    if layout.names:
        places = {name: place for place, name in enumerate(layout.names)}
        chosen = [each for each in metrics if each.name in places]
        chosen.sort(key=lambda each: places[each.name])
    else:
        chosen = [each for each in metrics if each.table == of or layout.is_mark(each)]
    return [each for each in chosen if not layout.groups or each.group.title in layout.groups]


def _row(layout: Layout, metric: Metric, values: Values, candidate: str) -> str:
    if not isinstance(layout.rows, str):
        return _label(layout.row_label, metric, values)
    if layout.rows == "candidate":
        return candidate
    return metric.name if layout.rows == "name" else metric.group.title


def _column(layout: Layout, metric: Metric, values: Values) -> str:
    if not isinstance(layout.columns, str):
        return _label(layout.column_label, metric, values)
    if layout.columns != "name":
        return metric.group.title
    return (metric.label if isinstance(metric, Mean) else "") or metric.name


def _label(label: str, metric: Metric, values: Values) -> str:
    if label:
        return label.format(**values, name=metric.name, group=metric.group.title)
    return ", ".join(map(str, values.values()))


def _column_names(layout: Layout, chosen: Sequence[Metric], frame: ScoreFrame) -> Iterator[str]:
    """The columns in the layout's order, whether any row has them or not."""
    yield from (metric.group.title for metric in filter(layout.is_mark, chosen))
    parts = [{}] if isinstance(layout.columns, str) else _combinations(layout.columns, frame)
    for values in parts:
        for metric in filterfalse(layout.is_mark, chosen):
            column = _column(layout, metric, values)
            yield from (column, f"{column}{IF_MISSING}", f"{column}{CORRECTED}")


def _split(split: str | Split | Parts, frame: ScoreFrame) -> Iterator[tuple[Values, ScoreFrame]]:
    if isinstance(split, str):
        yield {}, frame
        return
    if callable(split):
        yield from (({"part": name}, part) for name, part in frame.once(split).items())
        return
    for values in _combinations(split, frame):
        turn = values.get("turn")
        tags = {tag: str(value) for tag, value in values.items() if tag != "turn"}
        yield values, frame.only(turn=None if turn is None else int(turn), **tags)


def _combinations(split: Split, frame: ScoreFrame) -> Iterator[Values]:
    choices = [_values(tag, values, frame) for tag, values in split.items()]
    for combination in product(*choices):
        yield dict(zip(split, combination, strict=True))


def _values(tag: str, values: Sequence[str | int] | None, frame: ScoreFrame) -> Sequence[str | int]:
    if values is not None:
        return values
    return frame.turns() if tag == "turn" else sorted(frame.distinct(tag))
