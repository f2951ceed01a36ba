"""The paper's Table 8 as its authors made it: their mean, their overall, their two last rows.

A score that a judgement lacks counts 3 here, and one off the scale counts as it stands (the
authors' scripts); sums are exact. Our own estimates are in `mmconv.benchmarks.cmteval.tables`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from mmconv.benchmarks.cmteval.fields import SUBSETS
from mmconv.benchmarks.cmteval.quantities import Place
from mmconv.stats import ScoreFrame
from mmconv.values import Cell, Table

MEAN = "Mean"
DEVIATION = "Standard Deviation"
OVERALL = "overall"


def paper_scores(frame: ScoreFrame, places: Sequence[Place], notes: tuple[str, ...]) -> Table:
    """One row per model, then the mean over several and the standard deviation over dialogues.

    The latter is the sample standard deviation of all dialogues of all models, not that of the
    models' means.
    """
    rows: dict[str, dict[str, float]] = {}
    dialogues: dict[str, list[float]] = {}
    for place in places:
        row = rows.setdefault(place.model, {})
        for name, values in _dialogue_scores(frame, place).items():
            if values:
                row[f"{place.subset} {name}"] = _mean(values)
            dialogues.setdefault(f"{place.subset} {name}", []).extend(values)
    for row in rows.values():
        subsets = [row[name] for subset in SUBSETS if (name := f"{subset} DLS") in row]
        if len(subsets) > 1:
            row[OVERALL] = _mean(subsets)
    titles = [f"{subset} {name}" for subset in SUBSETS for name in ("IS", "Adp", "DLS")]
    columns = [title for title in (*titles, OVERALL) if any(title in row for row in rows.values())]
    summed = {DEVIATION: _deviations(dialogues)}
    if len(rows) > 1:
        summed = {MEAN: _means(rows, columns), **summed}
    return Table(
        name="paper_scores",
        title="The paper's Table 8, by the authors' conventions",
        columns=tuple(columns),
        rows={
            name: {column: Cell(value=number) for column, number in row.items()}
            for name, row in {**rows, **summed}.items()
        },
        notes=(
            "As in the authors' scripts, a turn that the judge left out counts 3 and a score off "
            "the scale as it stands. Standard deviation: over all dialogues of all models.",
            *notes,
        ),
    )


def _dialogue_scores(frame: ScoreFrame, place: Place) -> dict[str, list[float]]:
    """IS, Adp and DLS of every dialogue that has a judgement."""
    synthesis = _present(frame, place, "authors_IS")
    adaptability = _present(frame, place, "authors_Adp")
    pairs = zip(synthesis, adaptability, strict=True)
    return {
        "IS": synthesis,
        "Adp": adaptability,
        "DLS": [(left + right) / 2 for left, right in pairs],
    }


def _present(frame: ScoreFrame, place: Place, metric: str) -> list[float]:
    return [value for value in place.by_dialogue(frame, metric).values if value is not None]


def _means(rows: Mapping[str, Mapping[str, float]], columns: Sequence[str]) -> dict[str, float]:
    """The mean over the models that have the column; the paper gives none of overall."""
    return {
        column: _mean([row[column] for row in rows.values() if column in row])
        for column in columns
        if column != OVERALL
    }


def _deviations(dialogues: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.stdev(values) for name, values in dialogues.items() if len(values) > 1}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
