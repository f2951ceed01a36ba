"""FB-Bench's one quantity, the macro mean over tasks: ours with an interval, and the authors'.

A cell is the mean over the samples of one scenario and one task; every quantity of the paper is the
unweighted mean of some cells (paper, section 3.2; the authors' aggregation by type). Cells without
samples are left out. `tables` says which cells go together.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from judges.parsers_fbbench import OFFICIAL
from mmconv.benchmarks.fbbench.options import MAINTENANCE, TEMPERATURES
from mmconv.benchmarks.fbbench.scoring import LABEL_SEPARATOR
from mmconv.stats import (
    Column,
    ScoreFrame,
    as_cell,
    bounded,
    combine,
    summarise,
    summarise_share,
)
from mmconv.values import Cell, Summary

Where = Mapping[str, str | Collection[str]]
"""Tags with the texts to match, as `ScoreFrame.select` takes them."""

PERCENT = 100.0
"""Shares are printed in percent."""

_OFFICIAL_DECIMALS = 4


def estimate(frame: ScoreFrame, scenarios: Sequence[str], where: Where) -> Cell | None:
    """The macro mean in percent with its interval; None if there are no samples at all.

    Without an interval where one of its cells has none: how far that one may be off is not known.
    """
    cells = find_cells(frame, "score", scenarios, where)
    if not cells:
        return None
    return as_cell(bounded(_macro_mean(cells), 0.0, 1.0), PERCENT)


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


def _macro_mean(cells: Mapping[tuple[str, str], Column]) -> Summary:
    own = [_own_mean(scenario, column) for (scenario, _), column in cells.items()]
    if len(own) == 1:
        return own[0]
    columns = {f"{scenario}/{task}": column for (scenario, task), column in cells.items()}
    weight = 1 / len(columns)
    summary = combine(columns, dict.fromkeys(columns, weight))
    if any(each.low is None for each in own):
        return replace(summary, stderr=None, low=None, high=None)
    return _widen(summary, [each for each in own if each.stderr == 0], weight)


def _own_mean(scenario: str, column: Column) -> Summary:
    return summarise_share(column) if scenario == MAINTENANCE else summarise(column)


def _widen(summary: Summary, even: Sequence[Summary], weight: float) -> Summary:
    """The summary with an interval that also holds how far shares of 0 or 1 may be off.

    They add nothing to the error, though their Wilson intervals have a length. Cells share no
    sample, so the lengths add up as squares (Zou and Donner, Statistics in Medicine 27, 2008).
    """
    if summary.mean is None or not even:
        return summary
    below, above = (
        math.hypot(_reach(summary)[end], *(weight * _reach(each)[end] for each in even))
        for end in (0, 1)
    )
    return replace(summary, low=summary.mean - below, high=summary.mean + above)


def _reach(summary: Summary) -> tuple[float, float]:
    """How far the interval reaches below and above the mean; nowhere if there is none."""
    if summary.mean is None or summary.low is None or summary.high is None:
        return 0.0, 0.0
    return summary.mean - summary.low, summary.high - summary.mean
