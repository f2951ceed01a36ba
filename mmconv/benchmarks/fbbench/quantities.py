"""FB-Bench's one quantity, the macro mean over tasks: ours with an interval, and the authors'.

A cell is the mean over the samples of one scenario and one task; every quantity of the paper is the
unweighted mean of some cells (paper, section 3.2; the authors' aggregation by type). Cells without
samples are left out. `tables` says which cells go together.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from judges.parsers.fbbench import OFFICIAL
from mmconv.benchmarks.fbbench.options import MAINTENANCE, TEMPERATURES
from mmconv.benchmarks.fbbench.scoring import LABEL_SEPARATOR
from mmconv.core.types import Cell
from mmconv.stats import Column, Quantity, ScoreFrame, as_cell, bounded, measure

Where = Mapping[str, str | Collection[str]]
"""Tags with the texts to match, as `ScoreFrame.select` takes them."""

PERCENT = 100.0
"""Shares are printed in percent."""

_OFFICIAL_DECIMALS = 4


def macro_mean(
    frame: ScoreFrame, scenarios: Sequence[str], where: Where, *, name: str = "", group: str = ""
) -> Quantity | None:
    """The macro mean, for a table and for a comparison of runs; None if there are no samples."""
    cells = find_cells(frame, "score", scenarios, where)
    if not cells:
        return None
    columns = {f"{scenario}/{task}": column for (scenario, task), column in cells.items()}
    return Quantity(
        name=name,
        columns=columns,
        group=group,
        scale=PERCENT,
        reach=1.0,
        shares=[f"{scenario}/{task}" for scenario, task in cells if scenario == MAINTENANCE],
        cautious=True,
    )


def estimate(frame: ScoreFrame, scenarios: Sequence[str], where: Where) -> Cell | None:
    """The macro mean in percent with its interval; None if there are no samples at all."""
    quantity = macro_mean(frame, scenarios, where)
    return None if quantity is None else as_cell(bounded(measure(quantity), 0.0, 1.0), PERCENT)


def official(frame: ScoreFrame, scenarios: Sequence[str], where: Where) -> Cell | None:
    """The authors' macro mean in percent: scores as their code computes them.

    What their code leaves out of its files is left out here, so no interval is meant. Rounded as
    they do, to four decimals of the share; `math.fsum`, since a running sum tips two of their
    published cells.
    """
    cells = find_cells(frame, OFFICIAL, scenarios, where)
    if not cells:
        return None
    missing: dict[str, int] = {}
    means = []
    for column in cells.values():
        for reason, count in column.missing.items():
            missing[reason] = missing.get(reason, 0) + count
        numbers = column.numbers[column.present].tolist()
        if numbers:
            means.append(math.fsum(numbers) / len(numbers))
    value = round(math.fsum(means) / len(means), _OFFICIAL_DECIMALS) if means else None
    return Cell(
        # Multiplying brings new digits, which would show where values are exported in full.
        value=None if value is None else round(PERCENT * value, _OFFICIAL_DECIMALS - 2),
        n=sum(int(column.present.sum()) for column in cells.values()),
        missing=missing,
    )


def tasks(frame: ScoreFrame) -> tuple[str, ...]:
    """The tasks that the scores have, the paper's first and in its order."""
    there = frame.distinct("task")
    known = [task for task in TEMPERATURES if task in there]
    return (*known, *(task for task in there if task not in known))


def labels(frame: ScoreFrame, tag: str) -> tuple[str, ...]:
    """The single labels of a tag that may hold several, in alphabetical order."""
    texts = frame.distinct(tag)
    return tuple(sorted({label for text in texts for label in text.split(LABEL_SEPARATOR)}))


def holding(frame: ScoreFrame, tag: str, label: str) -> tuple[str, ...]:
    """The tag's texts that hold the label: a sample with several counts for each of them."""
    texts = frame.distinct(tag)
    return tuple(text for text in texts if label in text.split(LABEL_SEPARATOR))


def find_cells(
    frame: ScoreFrame, metric: str, scenarios: Sequence[str], where: Where
) -> dict[tuple[str, str], Column]:
    """The columns by scenario and task; empty ones are left out, as the authors do."""
    found = {
        (scenario, task): frame.select(
            turn=None, metric=metric, **{"task": task, **where, "scenario": scenario}
        )
        for scenario in scenarios
        for task in tasks(frame)
        if where.get("task", task) == task
    }
    return {name: column for name, column in found.items() if len(column)}
