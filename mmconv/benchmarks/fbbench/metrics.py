"""What FB-Bench measures: macro means over tasks, ours and the authors', and odd judgements.

A cell is the mean over the samples of one scenario and one task. Every number of the paper is the
plain mean of some cells (paper, section 3.2). Cells without samples are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations
from typing import Any

from judges.parsers.fbbench import OFFICIAL
from mmconv.benchmarks.fbbench.benchmark import (
    CORRECTION,
    LABEL_SEPARATOR,
    MAINTENANCE,
    SCENARIOS,
    TEMPERATURES,
)
from mmconv.benchmarks.layouts import Build, Context, Labels, Layout, Rows, make_tables
from mmconv.benchmarks.metrics import (
    Group,
    Mean,
    MeanOf,
    Metric,
    Official,
    Select,
    endings_metrics,
)
from mmconv.core.types import Cell, Table
from mmconv.stats import FEWEST_CLUSTERS, Column, ScoreFrame

COLUMNS = {
    "error correction": (CORRECTION,),
    "response maintenance": (MAINTENANCE,),
    "overall": SCENARIOS,
}
"""Column -> the scenarios whose cells it is the mean of."""

ALL_TASKS = "all tasks"

ODDITIES = {
    "renamed": "criteria renamed by the judge",
    "missing": "criteria missing in the judgement",
    "added": "entries that are not criteria",
    "reweighted": "criteria whose weight the judge changed",
    "refused": "prompts refused by the judge's server (authors: 0)",
    "error_text": "error texts stored and judged as answers",
    "off_balance": "checklists whose weights do not sum to 1",
    "repeated": "criteria that a checklist lists twice",
    "misstored": "stored scores that the judgement does not give",
}
"""Score -> the row that counts it; the last four occur in published files only."""

TASKS = tuple(TEMPERATURES)
_AUTHORS = "authors: "
_HALVES = ("error correction", "response maintenance")
_DIGITS = 2
_MOST_NAMED = 3


def metrics(options: Mapping[str, Any]) -> Iterator[Metric]:
    """All metrics of a run; the tables by task, subtask and label measure parts of its scores."""
    yield from _means(ALL_TASKS, TASKS, table="scores")
    for column, scenarios in COLUMNS.items():
        authors = Group(title=f"{_AUTHORS}{column}")
        yield Official(ALL_TASKS, compute=partial(_authors_mean, scenarios), group=authors)
    for task in TASKS:
        yield from _means(task, (task,), table="")
    for score, name in ODDITIES.items():
        for title, is_per_sample in (("samples", True), ("count", False)):
            count = partial(_count, score, is_per_sample=is_per_sample)
            yield Official(name, compute=count, group=Group(title=title), table="faults")
    yield from endings_metrics("answers")


def _means(name: str, tasks: Sequence[str], *, table: str) -> Iterator[Metric]:
    """The mean over cells; in response maintenance a score is 0 or 1, and a cell is a share."""
    for column, scenarios in COLUMNS.items():
        cells = [
            Mean(
                f"{scenario}/{task}",
                of=Select("score", where={"scenario": scenario, "task": task}, reduce="rows"),
                group=_group(column, is_share=scenario == MAINTENANCE),
            )
            for scenario in scenarios
            for task in tasks
        ]
        yield MeanOf(name, of=cells, group=_group(column), table=table)


def _group(title: str, *, is_share: bool = False) -> Group:
    return Group(title=title, unit="%", lowest=0.0, highest=1.0, factor=100.0, share=is_share)


def _authors_mean(scenarios: Sequence[str], frame: ScoreFrame) -> Cell | None:
    """The authors' macro mean in percent: scores as their code computes them.

    It has no interval, since their files leave out samples without a judgement. The share is
    rounded to four decimals. `math.fsum`, because a running sum changes two published cells.
    """
    columns = [
        frame.select(metric=OFFICIAL, scenario=scenario, task=task)
        for scenario in scenarios
        for task in TASKS
    ]
    scores = Column.joined(columns)
    if not len(scores):
        return None
    numbers = [column.numbers[column.present].tolist() for column in columns]
    means = [math.fsum(each) / len(each) for each in numbers if each]
    share = round(math.fsum(means) / len(means), 4) if means else None
    return Cell(
        # multiplication adds digits, which exports would show
        value=None if share is None else round(100.0 * share, _DIGITS),
        n=int(scores.present.sum()),
        missing=scores.missing,
    )


def _count(score: str, frame: ScoreFrame, *, is_per_sample: bool) -> Cell | None:
    """How many samples are odd in this way, or how often they are."""
    column = frame.select(metric=score)
    if not len(column):
        return None
    numbers = column.numbers[column.present]
    value = float((numbers > 0).sum() if is_per_sample else numbers.sum())
    return Cell(value=value, n=len(numbers), missing=column.missing)


def build_tables(frames: Mapping[str, ScoreFrame], context: Context) -> list[Table]:
    """All tables that the scores of each candidate have something for."""
    return make_tables(layouts(context.judge), [*metrics({})], frames, context)


def layouts(judge: str) -> Iterator[Layout | Build]:
    """The tables in their order."""
    means = partial(Layout, of="scores", remarks=_remarks, digits=_DIGITS)
    yield means("scores", f"FB-Bench scores (%), judged by {judge}", rows="candidate")
    yield means("tasks", "Scores by task (%)", rows={"task": TASKS})
    yield means(
        "subtasks",
        "Scores by subtask (%)",
        rows={"task": TASKS, "subtask": None},
        row_label="{task} / {subtask}",
        detail=True,
    )
    for tag, meaning, columns in (
        ("deficiency", "the preset answer's deficiency", _HALVES[:1]),
        ("feedback", "the user's feedback", _HALVES),
    ):
        yield means(
            tag,
            f"Scores by {meaning} (%)",
            rows={tag: Labels(LABEL_SEPARATOR)},
            groups=(*columns, *(f"{_AUTHORS}{column}" for column in columns)),
            notes=("A sample with several types counts for each of them.",),
        )
    yield Layout("faults", "What is odd about the judgements", digits=0)
    yield _odd_samples
    yield Layout("answers", "How the answers ended", rows={"scenario": SCENARIOS}, columns="name")


def _odd_samples(frame: ScoreFrame) -> Table:
    rows: dict[str, dict[str, Cell]] = {}
    for score in ODDITIES:
        column = frame.select(metric=score)
        for sample, value in zip(column.samples, column.values, strict=True):
            if value:
                rows.setdefault(sample, {})[score] = Cell(value=value)
    return Table(
        name="fault_samples",
        title="The samples whose judgements are odd",
        columns=tuple(ODDITIES),
        rows=rows,
        notes=tuple(f"{score}: {label}." for score, label in ODDITIES.items()),
        digits=0,
        detail=True,
    )


def _remarks(rows: Rows) -> Iterator[str]:
    """What a reader must know of the means: halves, empty cells, rounding, missing intervals."""
    for half, other in permutations(_HALVES):
        alone = [
            name
            for name, row in rows.items()
            if "overall" in row and half in row and other not in row
        ]
        if alone:
            yield (f"No samples of {other}, so that overall is {half} alone: {_name(alone, rows)}.")
    empty = [
        name
        for name, row in rows.items()
        if any(row[column].value is None and row[column].n for column in COLUMNS if column in row)
    ]
    if empty:
        yield (
            "A mean over tasks is missing if one of them has no scored sample; the authors leave "
            f"such a task out: {_name(empty, rows)}."
        )
    ours = [(column, row) for row in rows.values() for column in COLUMNS if column in row]
    if any(_is_halfway(row[column], row[f"{_AUTHORS}{column}"]) for column, row in ours):
        yield (
            "If a mean is halfway between two printed numbers, ours and the authors' may be 0.01 "
            "apart: they round the share as the computer stores it."
        )
    if any(row[column].value is not None and row[column].low is None for column, row in ours):
        yield (
            f"A mean over tasks has no interval if one of its tasks has fewer than "
            f"{FEWEST_CLUSTERS} samples, or error correction scores that are all alike: how far "
            "that task may be off is not known."
        )


def _name(found: Sequence[str], rows: Rows) -> str:
    """The rows by name if they are few, else how many of all they are."""
    few = len(found) <= _MOST_NAMED
    return ", ".join(found) if few else f"{len(found)} of {len(rows)} rows"


def _is_halfway(ours: Cell, authors: Cell) -> bool:
    if not (isinstance(ours.value, float) and isinstance(authors.value, float)):
        return False
    return math.isclose(abs(ours.value - authors.value), 0.5 * 10**-_DIGITS, abs_tol=1e-9)
