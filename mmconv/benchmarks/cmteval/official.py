"""The paper's Table 8 as its authors made it: their mean, their overall, their two last rows.

A score that a judgement lacks counts 3 here, and one off the scale counts as it stands (the
authors' scripts); sums are exact. A cell's n counts the dialogues with any score by the judge.
Those without one enter the mean as 3, and are told as missing. Our own estimates are in
`mmconv.benchmarks.cmteval.tables`.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from judges.parsers.cmteval import DIMENSIONS
from mmconv.benchmarks.cmteval.fields import SUBSETS
from mmconv.benchmarks.cmteval.quantities import OVERALL, Place
from mmconv.benchmarks.cmteval.scoring import AUTHORS_DEFAULT, DEFAULTED
from mmconv.core.types import Cell, Table
from mmconv.stats import Column, ScoreFrame

MEAN = "Mean"
DEVIATION = "Standard Deviation"

TAKEN = f"(taken as {AUTHORS_DEFAULT:g})"
"""The end of the reason why a dialogue has no score by the judge, where it counts all the same."""

_CONVENTION = (
    f"As in the authors' scripts, a turn that the judge left out counts {AUTHORS_DEFAULT:g} and a "
    "score off the scale as it stands. n counts dialogues with a score by the judge. Standard "
    "deviation: over all dialogues of all models."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dialogues:
    """One quantity of a model's dialogues of a subset: the `values` that the authors would have.

    `judged` of them have a score by the judge. `missing` tells why, of the others and of dialogues
    that are not among the values. `mixed` counts dialogues with both scores and defaults.
    """

    values: tuple[float, ...]
    judged: int
    mixed: int
    missing: Mapping[str, int]


def paper_scores(frame: ScoreFrame, places: Sequence[Place], notes: tuple[str, ...]) -> Table:
    """One row per model, then the mean over several and the standard deviation over dialogues.

    The latter is the sample standard deviation of all dialogues of all models, not that of the
    models' means.
    """
    found: dict[str, dict[str, _Dialogues]] = {}
    for place in places:
        found.setdefault(place.model, {}).update(_quantities(frame, place))
    rows = {model: _row(quantities) for model, quantities in found.items()}
    columns = [column for column in _columns() if any(column in row for row in rows.values())]
    by_column = {
        column: [each[column] for each in found.values() if column in each] for column in columns
    }
    summed = {DEVIATION: {name: _deviation(parts) for name, parts in by_column.items() if parts}}
    if len(rows) > 1:
        # the paper gives no mean of overall
        means = {name: _mean_cell(parts) for name, parts in by_column.items() if parts}
        summed = {MEAN: means, **summed}
    return Table(
        name="paper_scores",
        title="The paper's Table 8, by the authors' conventions",
        columns=tuple(columns),
        rows={**rows, **summed},
        notes=(_CONVENTION, *_defaults(found), *notes),
    )


def _columns() -> Iterator[str]:
    for subset in SUBSETS:
        yield from (f"{subset} {name}" for name in (*DIMENSIONS, "DLS"))
    yield OVERALL


def _quantities(frame: ScoreFrame, place: Place) -> dict[str, _Dialogues]:
    """IS, Adp and DLS of one place, by the name of the column."""
    theirs = {name: place.by_dialogue(frame, f"authors_{name}") for name in DIMENSIONS}
    ours = {name: place.column(frame, name) for name in DIMENSIONS}
    made = {name: _dialogues([theirs[name]], ours[name]) for name in DIMENSIONS}
    made["DLS"] = _dialogues([*theirs.values()], Column.joined([*ours.values()]))
    return {f"{place.subset} {name}": each for name, each in made.items()}


def _dialogues(theirs: Sequence[Column], ours: Column) -> _Dialogues:
    """The mean of their columns by dialogue; ours, by turn, tells which turns have a score."""
    lacking: dict[str, str] = {}
    scored: set[str] = set()
    for sample, reason in zip(ours.samples, ours.reasons, strict=True):
        if reason in DEFAULTED:
            lacking.setdefault(sample, reason)
        else:
            scored.add(sample)
    wholly = {sample: reason for sample, reason in lacking.items() if sample not in scored}
    rows = zip(*(column.values for column in theirs), strict=True)
    values = [[value for value in row if value is not None] for row in rows]
    return _Dialogues(
        values=tuple(_mean(row) for row in values if row),
        judged=sum(map(bool, values)) - len(wholly),
        mixed=len(lacking) - len(wholly),
        missing=Counter(f"{reason} {TAKEN}" for reason in wholly.values()) + theirs[0].missing,
    )


def _row(quantities: Mapping[str, _Dialogues]) -> dict[str, Cell]:
    row = {name: _mean_cell([each]) for name, each in quantities.items()}
    subsets = [each for name in SUBSETS if (each := quantities.get(f"{name} DLS"))]
    if len(subsets) > 1:
        row[OVERALL] = _mean_cell(subsets)
    return row


def _mean_cell(parts: Sequence[_Dialogues]) -> Cell:
    """The plain mean of the parts' means, None if one has nothing."""
    means = [_mean(part.values) for part in parts if part.values]
    return _cell(_mean(means) if len(means) == len(parts) else None, parts)


def _deviation(parts: Sequence[_Dialogues]) -> Cell:
    values = [value for part in parts for value in part.values]
    return _cell(statistics.stdev(values) if len(values) > 1 else None, parts)


def _cell(value: float | None, parts: Sequence[_Dialogues]) -> Cell:
    missing: Counter[str] = Counter()
    for part in parts:
        missing.update(part.missing)
    return Cell(value=value, n=sum(part.judged for part in parts), missing=missing)


def _defaults(found: Mapping[str, Mapping[str, _Dialogues]]) -> Iterator[str]:
    """How much of each model's subset is made of defaults, where any is."""
    for model, quantities in found.items():
        for subset in SUBSETS:
            each = quantities.get(f"{subset} DLS")
            if each is None:
                continue
            wholly = len(each.values) - each.judged
            if wholly or each.mixed:
                yield (
                    f"{model}, {subset}: of {len(each.values)} dialogues {wholly} are "
                    f"{AUTHORS_DEFAULT:g} throughout, without any score by the judge, and "
                    f"{each.mixed} in part."
                )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
