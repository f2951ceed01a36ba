"""What shows a given effect, and what that costs, planned from a pilot.

Each row is a change between conditions, or with two runs a paired difference between them. Numbers
are found by `mmconv.stats.power` from the pilot's errors, or from errors that come with mmconv.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mmconv.benchmarks
from mmconv.core.errors import ConfigError
from mmconv.core.judges import base_role
from mmconv.core.plans import name_trial, read_trial
from mmconv.core.score_rows import ScoreRows
from mmconv.core.types import Cell, Score, Table
from mmconv.report.comparison.differences import Key, quantities_by_key
from mmconv.report.comparison.runs import open_runs
from mmconv.run_folder.saved_run import FinishedRun, read_finished, read_json
from mmconv.stats import Column, Quantity, ScoreFrame, pair
from mmconv.stats.corrections import correct
from mmconv.stats.power import count_labels, count_samples, count_trials, count_verdicts, detectable

DOLLARS = "US$"

PERCENT = 100.0
"""The scale of quantities in percent."""

DEFAULT = "pilot.json"
"""A file of a benchmark's package: the errors of a pilot that comes with mmconv."""

NOTES = (
    "Found now: the least true difference that one test at the 5 % level finds with 80 % power "
    "over the pilot's samples. Corrected for many tests, as in compare, it is larger. The other "
    "columns have what finds the effect with 80 % power if the pilot's errors are the true ones; "
    "empty cells cannot be known from this pilot, or no number of them would do.",
    "Trials, verdicts and labelled samples count for the samples of the pilot. Trials need a pilot "
    "with --trials 2 or more; verdicts on each answer one with two judges, which may be one model "
    "twice under two names and seeds; labelled samples one corrected by mmconv agree --correct.",
    "Costs are those of all answers and verdicts together, at the pilot's cost of each. Labelled "
    "samples cost --label-price each besides.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A number of a pilot: its column, that with trials, those of each judge, and people's."""

    column: Column
    trials: Column
    scale: float
    judges: Sequence[Column] = ()
    labels: Column | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What the answers to one sample cost, the verdicts of one judge on them, and people's labels.

    `label` is in US dollars, the others in `unit`.
    """

    unit: str
    answers: float
    verdicts: float
    judges: int
    label: float | None = None


def plan(
    folders: list[Path],
    effect: float,
    *,
    percent: bool = False,
    label_price: float | None = None,
) -> Table:
    """The table for one run, for two of one benchmark, or for a benchmark with a `DEFAULT`.

    The effect is in percentage points, and the rows are those in percent; or in the unit of the
    other rows. `label_price` is what people's ratings of one sample cost in US dollars. Raises
    `ConfigError` if none of them has an error, and as `read_finished` does.
    """
    if len(folders) > 2:
        raise ConfigError("name a run for changes between its conditions, or two for differences")
    default = Path(mmconv.benchmarks.__file__).parent / folders[0].name / DEFAULT
    # a benchmark's name, not a path
    is_name = len(folders) == 1 and str(folders[0]) == folders[0].name
    if is_name and not folders[0].exists() and default.exists():
        known, prices, source = _read_default(default)
    else:
        runs = open_runs(folders) if len(folders) > 1 else (read_finished(folders[0]),)
        known, source = _measure(runs), ""
        size = max((len(each.column) for each in known.values()), default=1)
        prices = _prices(runs, size)
    rows = {}
    for (name, group), each in known.items():
        if (each.scale == PERCENT) == percent and (now := detectable(each.column)) is not None:
            row = count_ways(each, effect / each.scale, replace(prices, label=label_price))
            found = Cell(value=now * each.scale, digits=1 if percent else 2)
            rows[f"{name}, {group}"] = {"found now": found, **dict(row)}
    if not rows:
        unit = "in percent" if percent else "in other units than percent (--effect 5% for those)"
        raise ConfigError(f"no difference {unit} has an error: a pilot needs five samples or more")
    counts = (f"{what}{end}" for what in WAYS for end in ("", f" ({prices.unit})"))
    columns = ("found now", *counts, "cheapest")
    return Table(
        name="power",
        title=f"What finds a difference of {effect:g}{' points' * percent} with 80 % power",
        columns=tuple(each for each in columns if any(each in row for row in rows.values())),
        rows=rows,
        notes=(*([source] if source else []), *NOTES),
    )


LABELS = "labelled samples"

WAYS = ("samples", "trials", "verdicts", LABELS)


def count_ways(known: Known, effect: float, prices: Prices) -> Iterator[tuple[str, Cell]]:
    """What finds an effect with 80 % power, what each way costs, and the cheapest way."""
    column = known.column
    size = len({read_trial(sample).key for sample in column.samples})
    sample = prices.answers + prices.judges * prices.verdicts
    costs: dict[str, float] = {}
    priced = prices.label is not None and prices.unit == DOLLARS
    for what, count, fixed, each in (
        ("samples", count_samples(column, effect), 0.0, sample * len(column) / size),
        ("trials", count_trials(known.trials, effect), 0.0, sample * size),
        (
            "verdicts",
            count_verdicts(known.judges, effect),
            prices.answers * len(column),
            prices.verdicts * len(column),
        ),
        (LABELS, _labels(known, effect), sample * len(column), prices.label or 0.0),
    ):
        if count is None:
            continue
        yield what, Cell(value=float(count), digits=0)
        if what != LABELS or priced:
            costs[what] = fixed + count * each
            digits = 0 if prices.unit == "calls" else 2
            yield f"{what} ({prices.unit})", Cell(value=costs[what], digits=digits)
    if len(costs) > 1:
        yield "cheapest", Cell(value=min(costs, key=costs.__getitem__))


def _labels(known: Known, effect: float) -> int | None:
    """How many of the pilot's samples people must rate; None if all of them would not do."""
    if known.labels is None:
        return None
    wanted = count_labels(correct(known.column, known.labels), effect)
    return wanted if wanted is not None and wanted <= len(known.column) else None


def _measure(runs: Sequence[FinishedRun]) -> dict[Key, Known]:
    """What a run, or the difference of two, says of each number."""
    judged = dict(_columns(runs, [run.scores() for run in runs]))
    labels = [run.labels() for run in runs]
    people = dict(_columns(runs, labels)) if None not in labels else {}
    by_judge = [run.judges() for run in runs]
    shared = [name for name in by_judge[0] if all(name in each for each in by_judge)]
    alone = [dict(_columns(runs, [each[name] for each in by_judge])) for name in shared]
    return {
        key: Known(
            column=column,
            trials=column,
            scale=scale,
            judges=[each[key][0] for each in alone if key in each],
            labels=people[key][0] if key in people else None,
        )
        for key, (column, scale) in judged.items()
    }


def _columns(
    runs: Sequence[FinishedRun], scores: Sequence[Iterable[Score] | ScoreRows | None]
) -> Iterator[tuple[Key, tuple[Column, float]]]:
    """Each difference with its unit's scale: changes of one run, or all that two runs share."""
    first, *others = (
        quantities_by_key(ScoreFrame(each or ()), run)
        for run, each in zip(runs, scores, strict=True)
    )
    for key, quantity in first.items():
        column = _only(quantity)
        if column is None or quantity.kind == "failure":
            continue
        if not others and quantity.kind == "change":
            yield key, (column, quantity.scale)
        elif others and (right := _only(others[0].get(key))) is not None:
            yield key, (pair(column, right), quantity.scale)


def _only(quantity: Quantity | None) -> Column | None:
    """The column of a quantity that has one."""
    columns = [] if quantity is None else [*quantity.columns.values()]
    return columns[0] if len(columns) == 1 else None


def _prices(runs: Sequence[FinishedRun], size: int) -> Prices:
    """What one trial of a sample cost in the runs together."""
    counts = [each for run in runs if run.summary for each in run.summary.models.items()]
    costs = [(role, each.total_cost_usd) for role, each in counts]
    unit = DOLLARS
    if any(cost is None for _, cost in costs) or not any(cost for _, cost in costs):
        unit, costs = "calls", [(role, each.requested + each.cached) for role, each in counts]
    judged = sum(cost or 0.0 for role, cost in costs if base_role(role) == "judge")
    whole = sum(cost or 0.0 for _, cost in costs)
    judges = max(len(runs[0].judges()), 1)
    return Prices(
        unit=unit,
        answers=(whole - judged) / max(size, 1),
        verdicts=judged / judges / max(size, 1),
        judges=judges,
    )


def _read_default(path: Path) -> tuple[dict[Key, Known], Prices, str]:
    """The pilot of a benchmark: two trials of 100 samples with these errors, and two judges."""
    document: Mapping[str, Any] = read_json(path)
    known = {(each["name"], each["group"]): _synthesise(each) for each in document["changes"]}
    prices = Prices(
        unit="calls", answers=document["answers"], verdicts=document["verdicts"], judges=1
    )
    return known, prices, document["source"]


def _synthesise(change: Mapping[str, Any]) -> Known:
    """Columns of exactly the errors of a change: its SD, and those of a trial and a verdict."""
    count = 100
    names = [str(sample) for sample in range(count)]
    ends = [1.0 if sample % 2 else -1.0 for sample in range(count)]
    # the difference of two draws is independent of their mean
    others = [1.0 if sample % 4 < 2 else -1.0 for sample in range(count)]

    def repeated(error: float) -> list[list[float]]:
        mean = (change["sd"] ** 2 - error**2 / 2) ** 0.5
        apart = error / 2**0.5
        return [
            [mean * end + sign * apart * other for end, other in zip(ends, others, strict=True)]
            for sign in (1, -1)
        ]

    first, second = repeated(change["trial"])
    trials = Column.of(
        [*first, *second],
        samples=[name_trial(name, trial) for trial in (1, 2) for name in names],
        clusters=[*names, *names],
    )
    judges = [Column.of(each, samples=names) for each in repeated(change["verdict"])]
    column = Column.of([change["sd"] * end for end in ends], samples=names)
    return Known(column=column, trials=trials, scale=change["scale"], judges=judges)
