"""Can this judge be trusted here: an audit's tables, and what they say in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mmconv.benchmarks.audit import metrics as rows_of
from mmconv.benchmarks.base.layouts import MEANING, Layout, Rows, write_estimate
from mmconv.core.types import Cell

TOLERATED = 5.0
"""The percentage of wrong verdicts that no warning is given for."""

LEAST_SEPARATION = 50.0
"""Points by which a judge must pass right answers more often than wrong ones."""

WIDER = 1.5
"""How much wider an interval must be without 0 in it: an audit has many of them."""

ERRORS = {
    rows_of.FAILS_RIGHT: "it fails {} % of right answers",
    rows_of.FAILS_PARAPHRASE: "it fails {} % of right answers in other words",
    rows_of.PASSES_WRONG: "it passes {} % of wrong answers",
    rows_of.CHANGES_WITH_ORDER: "in the other order another answer wins {} % of the comparisons",
    rows_of.FLIPS: "asked again, it changes {} % of its verdicts",
}
"""Row -> what it says if it is too high."""

BIASES = {
    rows_of.KINDER_TO_RIGHT: "after right turns {} points more right answers pass than after wrong",
    rows_of.KINDER_TO_WRONG: "after right turns {} points more wrong answers pass than after wrong",
    rows_of.PREFERS_FIRST: "of equal answers, the first wins {} points more often than the second",
    rows_of.LENGTH: "an answer twice as long changes its score by {}",
    rows_of.SHORTENED: "an answer in fewer words changes its score by {}",
}
"""Row -> what it says if it is not 0."""


def layouts(benchmark: str) -> Iterator[Layout]:
    """The page of an audit."""
    yield Layout(
        rows_of.TABLE,
        f"Can {{candidate}} be trusted as a judge of {benchmark}?",
        remarks=warnings,
        findings=findings,
        notes=(
            "By controls, not by people: answers known to be right or wrong. Real answers are "
            "harder to judge.",
            "n counts verdicts, or pairs of them; for differences of two shares of them, samples.",
        ),
    )
    yield Layout(
        rows_of.STEADINESS,
        "What moves the verdicts of {candidate}, in units of the score",
        remarks=warnings,
    )


def findings(rows: Rows) -> Iterator[str]:
    """Whether each kind of verdict can be trusted."""
    for title, cells in _by_column(rows).items():
        separation = cells.get(rows_of.SEPARATION)
        if separation is None:
            continue
        if separation.value is None:
            yield f"{title}: NOT TO BE TRUSTED: none of its verdicts can be used."
            continue
        shown = f"{write_estimate(separation, most=0)} points of 100"
        low = -100.0 if separation.low is None else separation.low
        high = 100.0 if separation.high is None else separation.high
        if low > 0 and high >= LEAST_SEPARATION:
            yield f"{title}: right answers pass more often than wrong ones, by {shown}."
        elif high >= LEAST_SEPARATION:
            yield f"{title}: NOT KNOWN: too few samples. Right minus wrong is {shown}."
        elif low > 0:
            yield (
                f"{title}: NOT TO BE TRUSTED: right answers pass little more often than wrong "
                f"ones, by {shown}."
            )
        else:
            yield (
                f"{title}: NOT TO BE TRUSTED: right answers are not shown to pass more often than "
                f"wrong ones. Right minus wrong is {shown}."
            )


def warnings(rows: Rows) -> Iterator[str]:
    """What a reader must know of a judge whose errors are more than tolerated."""
    for title, cells in _by_column(rows).items():
        for warning in _warnings(cells):
            yield f"WARNING: {title}: {warning}."


def _warnings(cells: Mapping[str, Cell]) -> Iterator[str]:
    for name, words in ERRORS.items():
        cell = cells.get(name)
        if cell is not None and cell.low is not None and cell.low > TOLERATED:
            yield words.format(write_estimate(cell, most=0))
    for name, words in BIASES.items():
        cell = cells.get(name)
        if cell is not None and excludes_zero(cell):
            yield words.format(write_estimate(cell, signed=True))


def excludes_zero(cell: Cell) -> bool:
    """Whether 0 is outside of the interval, widened as there are many."""
    if not isinstance(cell.value, float) or cell.low is None or cell.high is None:
        return False
    low, high = (cell.value + WIDER * (end - cell.value) for end in (cell.low, cell.high))
    return low > 0 or high < 0


def _by_column(rows: Rows) -> dict[str, dict[str, Cell]]:
    """Column -> row -> cell."""
    columns: dict[str, dict[str, Cell]] = {}
    for name, cells in rows.items():
        for title, cell in cells.items():
            if title != MEANING:
                columns.setdefault(title, {})[name] = cell
    return columns
