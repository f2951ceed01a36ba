"""What a pilot run says about planning: what shows a given effect, and what that costs.

Each row is a change between conditions, or with two runs a paired difference between them. Numbers
are found by `mmconv.stats.power`, from the pilot's errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mmconv.core.errors import ConfigError
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import Key, quantities_by_key
from mmconv.report.comparison.runs import open_runs
from mmconv.run_folder.saved_run import FinishedRun, read_finished
from mmconv.stats import Column, Quantity, ScoreFrame, pair
from mmconv.stats.corrections import correct
from mmconv.stats.power import count_labels, count_samples, count_trials, detectable

PERCENT = 100.0
"""The scale of quantities in percent."""

NOTES = (
    "Found now: the least true difference that a test at the 5 % level finds with 80 % power with "
    "the samples of the pilot. The other columns have what finds the effect with 80 % power; empty "
    "cells cannot be known from this pilot, or no number of them would do.",
    "Trials count for the samples of the pilot, labels for numbers corrected by people. Trials "
    "need a pilot with --trials 2 or more, labels one corrected by mmconv agree --correct.",
    "Costs are those of all samples or trials together, at the pilot's cost of each.",
)


def plan(folders: list[Path], effect: float, *, percent: bool = False) -> Table:
    """The table for one run, or for two of one benchmark.

    The effect is in percentage points, and the rows are those in percent; or in the unit of the
    other rows. Raises `ConfigError` if none of them has an error, and as `read_finished` does.
    """
    if len(folders) > 2:
        raise ConfigError("name a run for changes between its conditions, or two for differences")
    runs = open_runs(folders) if len(folders) > 1 else (read_finished(folders[0]),)
    judged = [quantities_by_key(ScoreFrame(run.score_rows()), run) for run in runs]
    scores = [run.labels() for run in runs]
    labels = [
        quantities_by_key(ScoreFrame(each), run)
        for run, each in zip(runs, scores, strict=True)
        if each is not None
    ]
    known = dict(_columns(labels)) if len(labels) == len(runs) else {}
    size = max(len(each.samples) for _, (each, _) in _columns(judged)) if judged else 0
    unit, cost = _cost(runs, size)
    rows = {}
    for (name, group), (column, scale) in _columns(judged):
        if (scale == PERCENT) == percent and (now := detectable(column)) is not None:
            labelled = known.get((name, group))
            row = _row(column, labelled[0] if labelled else None, effect / scale, cost, unit)
            rows[f"{name}, {group}"] = {"found now": Cell(value=now * scale), **dict(row)}
    counts = ("samples", f"samples ({unit})", "trials", f"trials ({unit})", "labels")
    columns = ("found now", *counts, "cheapest")
    if not rows:
        unit = "in percent" if percent else "in other units than percent (--effect 5% for those)"
        raise ConfigError(f"no difference {unit} has an error: a pilot needs five samples or more")
    return Table(
        name="power",
        title=f"What finds a difference of {effect:g}{' points' * percent} with 80 % power",
        columns=tuple(each for each in columns if any(each in row for row in rows.values())),
        rows=rows,
        notes=NOTES,
    )


def _columns(
    quantities: list[dict[Key, Quantity]],
) -> Iterator[tuple[Key, tuple[Column, float]]]:
    """Each difference with its unit's scale: changes of one run, or all that two runs share."""
    first, *others = quantities
    for key, quantity in first.items():
        if len(quantity.columns) != 1 or quantity.kind == "failure":
            continue
        [column] = quantity.columns.values()
        if not others and quantity.kind == "change":
            yield key, (column, quantity.scale)
        elif others and key in others[0] and len(others[0][key].columns) == 1:
            [right] = others[0][key].columns.values()
            yield key, (pair(column, right), quantity.scale)


def _row(
    column: Column, labels: Column | None, effect: float, cost: float, unit: str
) -> Iterator[tuple[str, Cell]]:
    prices: dict[str, float] = {}
    for what, count, each in (
        ("samples", count_samples(column, effect), cost),
        ("trials", count_trials(column, effect), cost * len({*column.clusters})),
    ):
        if count is not None:
            prices[what] = count * each
            yield what, Cell(value=float(count), digits=0)
            yield f"{what} ({unit})", Cell(value=prices[what], digits=0 if unit == "calls" else 2)
    if labels is not None:
        wanted = count_labels(correct(column, labels), effect)
        # labels are of the pilot's samples
        if wanted is not None and wanted <= len(column):
            yield "labels", Cell(value=float(wanted), digits=0)
    if len(prices) > 1:
        yield "cheapest", Cell(value=min(prices, key=prices.__getitem__))


def _cost(runs: tuple[FinishedRun, ...], size: int) -> tuple[str, float]:
    """The unit of costs, and what one trial of a sample cost in the runs together."""
    counts = [each for run in runs if run.summary for each in run.summary.models.values()]
    prices = [each.total_cost_usd for each in counts]
    dollars = sum(price for price in prices if price is not None)
    if dollars and None not in prices:
        return "US$", dollars / max(size, 1)
    return "calls", sum(each.requested + each.cached for each in counts) / max(size, 1)
