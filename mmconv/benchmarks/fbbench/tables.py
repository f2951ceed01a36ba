"""FB-Bench's tables: scores, tasks, subtasks, deficiencies, feedback, faults, answers.

Every cell carries n, what is missing by reason, and ours a 95 % interval. The authors' convention
stands beside ours, labelled. Several models stand below each other, as rescoring needs it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations

from judges.parsers.fbbench import OFFICIAL
from mmconv.benchmarks.fbbench.options import CORRECTION, MAINTENANCE, SCENARIOS
from mmconv.benchmarks.fbbench.quantities import Where, estimate, holding, labels, official, tasks
from mmconv.benchmarks.shared.endings import endings_table
from mmconv.core.types import Cell, Table
from mmconv.stats import Column, ScoreFrame
from mmconv.stats.estimates import FEWEST_CLUSTERS

QUANTITIES: dict[str, tuple[str, ...]] = {
    "error correction": (CORRECTION,),
    "response maintenance": (MAINTENANCE,),
    "overall": SCENARIOS,
}
"""Column -> the scenarios whose cells it is the mean of."""

FAULT_LABELS = {
    "renamed": "criteria renamed by the judge",
    "missing": "criteria missing in the judgement",
    "added": "entries that are no criterion",
    "reweighted": "criteria whose weight the judge changed",
    "refused": "prompts refused by the judge's server (authors: 0)",
    "error_text": "error texts stored and judged as answers",
    "off_balance": "checklists whose weights do not sum to 1",
    "repeated": "criteria that a checklist lists twice",
    "misstored": "stored scores that the judgement does not give",
}
"""Metric -> the row that counts it; the last four occur in published files only."""

_HALVES = ("error correction", "response maintenance")
_TYPES = {"deficiency": _HALVES[:1], "feedback": _HALVES}
_NAMED = 3
_AUTHORS = "authors: "
_DIGITS = 2


def build_tables(
    frames: Mapping[str, ScoreFrame], *, judge: str, notes: tuple[str, ...] = ()
) -> list[Table]:
    """All tables that the scores, by model, have something for, each with the notes."""
    made = [
        _scores(frames, judge, notes),
        _tasks(frames, notes),
        _subtasks(frames, notes),
        _types(frames, "deficiency", "the preset answer's deficiency", notes),
        _types(frames, "feedback", "the user's feedback", notes),
        _faults(frames, notes),
        _faulty_samples(frames, notes),
        _answers(frames, notes),
    ]
    return [table for table in made if table.rows]


def _scores(frames: Mapping[str, ScoreFrame], judge: str, notes: tuple[str, ...]) -> Table:
    everything: Where = {}
    found = ((model, frame, everything) for model, frame in frames.items())
    return _means("scores", f"FB-Bench scores (%), judged by {judge}", found, notes)


def _tasks(frames: Mapping[str, ScoreFrame], notes: tuple[str, ...]) -> Table:
    found = (
        (_label(frames, model, task), frame, {"task": task})
        for model, frame in frames.items()
        for task in tasks(frame)
    )
    return _means("tasks", "Scores by task (%)", found, notes)


def _subtasks(frames: Mapping[str, ScoreFrame], notes: tuple[str, ...]) -> Table:
    found = (
        (
            _label(frames, model, f"{task} / {subtask}"),
            frame,
            {"task": task, "subtask": subtask},
        )
        for model, frame in frames.items()
        for task in tasks(frame)
        for subtask in sorted(frame.distinct("subtask"))
    )
    return replace(_means("subtasks", "Scores by subtask (%)", found, notes), detail=True)


def _means(
    name: str, title: str, found: Iterable[tuple[str, ScoreFrame, Where]], notes: tuple[str, ...]
) -> Table:
    """All quantities of some samples of a model, by the name of the row."""
    quantities = tuple(QUANTITIES)
    places = tuple(found)
    rows = _rows((label, _row(frame, quantities, where)) for label, frame, where in places)
    return Table(
        name=name,
        title=title,
        columns=_columns(quantities),
        digits=_DIGITS,
        rows=rows,
        notes=(
            *notes,
            *_half_notes(rows),
            *_estimate_notes(rows),
            *_repeated_notes(places, quantities),
        ),
    )


def _types(
    frames: Mapping[str, ScoreFrame], tag: str, meaning: str, notes: tuple[str, ...]
) -> Table:
    """The macro mean over tasks within the samples that carry each label of the tag."""
    quantities = _TYPES[tag]
    places = tuple(
        (_label(frames, model, label), frame, {tag: holding(frame, tag, label)})
        for model, frame in frames.items()
        for label in labels(frame, tag)
    )
    rows = _rows((label, _row(frame, quantities, where)) for label, frame, where in places)
    return Table(
        name=tag,
        title=f"Scores by {meaning} (%)",
        columns=_columns(quantities),
        digits=_DIGITS,
        rows=rows,
        notes=(
            "A sample with several types counts for each of them.",
            *notes,
            *_estimate_notes(rows),
            *_repeated_notes(places, quantities),
        ),
    )


def _faults(frames: Mapping[str, ScoreFrame], notes: tuple[str, ...]) -> Table:
    """How judgements depart from their checklists, and what published files hide besides."""
    rows = {}
    for model, frame in frames.items():
        for metric, label in FAULT_LABELS.items():
            found = frame.select(metric=metric)
            if len(found):
                rows[_label(frames, model, label)] = _counts(found)
    return Table(
        name="faults",
        title="What is odd about the judgements",
        columns=("samples", "count"),
        rows=rows,
        notes=notes,
        digits=0,
    )


def _faulty_samples(frames: Mapping[str, ScoreFrame], notes: tuple[str, ...]) -> Table:
    rows: dict[str, dict[str, Cell]] = {}
    for model, frame in frames.items():
        for metric in FAULT_LABELS:
            found = frame.select(metric=metric)
            for sample, value in zip(found.samples, found.values, strict=True):
                if value:
                    row = rows.setdefault(_label(frames, model, sample), {})
                    row[metric] = Cell(value=value)
    return Table(
        name="fault_samples",
        title="The samples whose judgements are odd",
        columns=tuple(FAULT_LABELS),
        rows=rows,
        notes=(*(f"{metric}: {label}." for metric, label in FAULT_LABELS.items()), *notes),
        digits=0,
        detail=True,
    )


def _answers(frames: Mapping[str, ScoreFrame], notes: tuple[str, ...]) -> Table:
    rows = (
        (_label(frames, model, scenario), partial(frame.select, scenario=scenario))
        for model, frame in frames.items()
        for scenario in SCENARIOS
    )
    return endings_table("answers", "How the answers ended", rows, notes)


def _row(frame: ScoreFrame, quantities: Sequence[str], where: Where) -> dict[str, Cell]:
    """A quantity's own cell and the authors', for those quantities that have samples."""
    cells: dict[str, Cell] = {}
    for name in quantities:
        ours = estimate(frame, QUANTITIES[name], where)
        theirs = official(frame, QUANTITIES[name], where)
        if ours is not None and theirs is not None:
            cells |= {name: ours, f"{_AUTHORS}{name}": theirs}
    return cells


def _half_notes(rows: Mapping[str, Mapping[str, Cell]]) -> Iterator[str]:
    """In which rows "overall" is one half of the benchmark, since there is nothing of the other."""
    for half, other in permutations(_HALVES):
        alone = [label for label, row in rows.items() if half in row and other not in row]
        if alone:
            where = _places(alone, rows)
            yield f"No samples of {other}, so that overall is {half} alone: {where}."


def _places(found: Sequence[str], rows: Mapping[str, Mapping[str, Cell]]) -> str:
    """The rows by name if they are few, else how many of all they are."""
    few = len(found) <= _NAMED
    return ", ".join(found) if few else f"{len(found)} of {len(rows)} rows"


def _estimate_notes(rows: Mapping[str, Mapping[str, Cell]]) -> Iterator[str]:
    """What must be known of ours beside the authors'."""
    yield from _empty_notes(rows)
    yield from _rounding_notes(rows)
    yield from _interval_notes(rows)


def _empty_notes(rows: Mapping[str, Mapping[str, Cell]]) -> Iterator[str]:
    """Why means of ours are not there although samples were scored, where there are such."""
    empty = [
        label
        for label, row in rows.items()
        if any(name in QUANTITIES and cell.value is None and cell.n for name, cell in row.items())
    ]
    if empty:
        yield (
            "There is no mean over tasks where one of them has no scored sample; the authors leave "
            f"such a task out: {_places(empty, rows)}."
        )


def _rounding_notes(rows: Mapping[str, Mapping[str, Cell]]) -> Iterator[str]:
    """That equal means can be printed differently, where they are."""
    pairs = (
        (cell.value, row[f"{_AUTHORS}{name}"].value)
        for row in rows.values()
        for name, cell in row.items()
        if name in QUANTITIES
    )
    if any(_lies_halfway(ours, theirs) for ours, theirs in pairs):
        yield (
            "Where a mean lies halfway between two printed numbers, ours and the authors' may be "
            "0.01 apart: they round the share as the computer holds it."
        )


def _repeated_notes(
    places: Iterable[tuple[str, ScoreFrame, Where]], quantities: Sequence[str]
) -> Iterator[str]:
    """In which cells ours and the authors' differ because a checklist lists a criterion twice."""
    rows = [label for label, frame, where in places if _counts_twice(frame, where)]
    if rows:
        columns = " and ".join(name for name in quantities if CORRECTION in QUANTITIES[name])
        yield (
            "A checklist lists a criterion twice. Both its weights count in ours, and one for the "
            f"authors, in {columns} of {', '.join(rows)}."
        )


def _counts_twice(frame: ScoreFrame, where: Where) -> bool:
    """Whether a repeated criterion lets the two scores of some sample differ."""

    def scores(metric: str) -> dict[str, float | None]:
        found = frame.select(turn=None, metric=metric, **{**where, "scenario": CORRECTION})
        return dict(zip(found.samples, found.values, strict=True))

    lists = frame.select(metric="repeated")
    ours, theirs = scores("score"), scores(OFFICIAL)
    return any(
        count and _differ(ours.get(sample), theirs.get(sample))
        for sample, count in zip(lists.samples, lists.values, strict=True)
    )


def _differ(ours: float | None, theirs: float | None) -> bool:
    return ours is not None and theirs is not None and not math.isclose(ours, theirs, abs_tol=1e-9)


def _lies_halfway(ours: float | str | None, theirs: float | str | None) -> bool:
    if not (isinstance(ours, float) and isinstance(theirs, float)):
        return False
    return math.isclose(abs(ours - theirs), 0.5 * 10**-_DIGITS, abs_tol=1e-9)


def _interval_notes(rows: Mapping[str, Mapping[str, Cell]]) -> Iterator[str]:
    """Why means of ours have no interval, where there are such."""
    cells = (cell for row in rows.values() for name, cell in row.items() if name in QUANTITIES)
    if any(cell.value is not None and cell.low is None for cell in cells):
        yield (
            f"A mean over tasks has no interval if one of its tasks has fewer than "
            f"{FEWEST_CLUSTERS} samples, or error correction scores that are all alike: how far "
            "that task may be off is not known."
        )


def _rows(found: Iterator[tuple[str, dict[str, Cell]]]) -> dict[str, dict[str, Cell]]:
    return {label: row for label, row in found if row}


def _counts(found: Column) -> dict[str, Cell]:
    """How many samples have the fault, and how often in all."""
    numbers = [value for value in found.values if value is not None]
    n, missing = len(numbers), dict(found.missing)
    return {
        "samples": Cell(value=float(sum(value > 0 for value in numbers)), n=n, missing=missing),
        "count": Cell(value=sum(numbers, start=0.0), n=n, missing=missing),
    }


def _columns(quantities: Sequence[str]) -> tuple[str, ...]:
    return (*quantities, *(f"{_AUTHORS}{name}" for name in quantities))


def _label(frames: Mapping[str, ScoreFrame], model: str, name: str) -> str:
    """A row's name: the model stands before it where there are several."""
    return name if len(frames) == 1 else f"{model}: {name}"
