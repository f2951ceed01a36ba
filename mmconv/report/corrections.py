"""A run's numbers, corrected by people's ratings of some of its answers.

The ratings become scores like the judge's (`LABELS` in the run's folder), and every table gets
columns of corrected numbers next to the judge's (`mmconv.benchmarks.base.corrections`). The errors
of the judge at the threshold of a failure have a table of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

from mmconv.benchmarks.base.corrections import CORRECTED, NOTE, WANTED
from mmconv.benchmarks.base.layouts import Context, make_tables
from mmconv.benchmarks.base.metrics import Select, mapped
from mmconv.benchmarks.registry import find_class
from mmconv.core.atomic_writes import write_file
from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.types import Cell, Score, Summary, Table
from mmconv.report.agreement.panels import FIELDS, Rating, distinct, label, name_as_judged
from mmconv.report.tables.formats import write_tables
from mmconv.run_folder.layout import LABELS, TABLES
from mmconv.run_folder.saved_run import read_finished
from mmconv.run_folder.transcripts import score_record
from mmconv.stats import FEWEST_CLUSTERS, Column, ScoreFrame, as_cell, holm, summarise_share
from mmconv.stats.corrections import Rate, compare_rates, correct, correct_share, find_rate

LEVEL = 0.05
"""The share of equal rates that may be called different."""

ALL = "all conditions"

NO_SKILL = "labels show a judge that is not better than chance"
"""Why failures are not corrected by a and b."""

THRESHOLD = "failure_"
"""The begin of the option that says below which value of a score an answer has failed."""


def correct_run(
    folder: Path, judged: Sequence[Rating], people: Sequence[Rating]
) -> Iterator[Table]:
    """Correct a finished run's tables by people's ratings, keep these, and yield what changed."""
    run = read_finished(folder)
    labels = label_scores(run.scores(), judged, people)
    frame = ScoreFrame(run.scores())
    frame.people = ScoreFrame(labels)
    tables = correct_tables(run.spec, frame, run.tables)
    lines = (orjson.dumps(score_record(each)) + b"\n" for each in labels)
    write_file(folder / LABELS, b"".join(lines))
    write_tables(folder / TABLES, tables)
    yield from error_tables(frame, run.manifest.options or run.spec.options)
    yield from only_corrected(tables)


def label_scores(
    scores: Iterable[Score], judged: Sequence[Rating], people: Sequence[Rating]
) -> list[Score]:
    """The scores that people rated, with the mean of their ratings as values.

    A field that the ratings lack is that of `judged`. Raises `ConfigError` for ratings that are
    labels and not numbers.
    """
    values: dict[tuple[str | None, ...], list[float]] = {}
    missing = [name for name in FIELDS if not distinct(name, people)]
    alone = {name: (*distinct(name, judged), None)[0] for name in missing}
    for rating in name_as_judged(judged, people):
        if isinstance(rating.value, str):
            raise ConfigError(
                f"{rating.where}: value is {label(rating.value)}; --correct needs numbers, "
                "such as 1 for a win, 0.5 for a tie and 0 for a loss"
            )
        if rating.value is not None:
            fields = (alone.get(name) or getattr(rating, name) for name in FIELDS)
            values.setdefault((rating.sample, *fields), []).append(rating.value)
    found = []
    for score in scores:
        turn = None if score.turn is None else str(score.turn)
        if given := values.get((score.sample, score.metric, score.condition, turn)):
            found.append(replace(score, value=fmean(given), why=None))
    return found


def correct_tables(spec: RunSpec, frame: ScoreFrame, tables: Sequence[Table]) -> tuple[Table, ...]:
    """A run's tables with columns of corrected numbers; the frame has `people`."""
    described = find_class(spec.benchmark)(spec)
    candidate = spec.models[CANDIDATE].label
    frames, context = {candidate: frame}, Context(candidate=candidate)
    made = make_tables(described.layouts(), described.metrics_for(frame), frames, context)
    by_name = {table.name: table for table in made}
    return tuple(
        _with_corrected(table, by_name[table.name]) if table.name in by_name else table
        for table in tables
    )


def _with_corrected(table: Table, made: Table) -> Table:
    own = tuple(column for column in table.columns if not is_corrected(column))
    rows = {
        name: {
            **{column: cell for column, cell in row.items() if column in own},
            **{column: c for column, c in made.rows.get(name, {}).items() if is_corrected(column)},
        }
        for name, row in table.rows.items()
    }
    filled = {column for row in rows.values() for column in row}
    every = (each for column in own for each in (column, f"{column}{CORRECTED}"))
    columns = tuple(each for each in every if each in own or each in filled)
    if columns == table.columns == own:
        return table
    notes = table.notes if NOTE in table.notes else (NOTE, *table.notes)
    return replace(table, columns=columns, rows=rows, notes=notes, findings=made.findings)


def is_corrected(column: str) -> bool:
    """Whether a column has corrected numbers."""
    return column.endswith(CORRECTED)


def only_corrected(tables: Iterable[Table]) -> Iterator[Table]:
    """What was corrected: the columns with their corrected ones, and the rows that have any."""
    for table in tables:
        kept = {each for each in table.columns if f"{each}{CORRECTED}" in table.columns}
        kept |= {each for each in table.columns if is_corrected(each)}
        rows = {
            name: {column: cell for column, cell in row.items() if column in kept}
            for name, row in table.rows.items()
            if any(map(is_corrected, row))
        }
        if rows and not table.detail:
            columns = tuple(each for each in table.columns if each in kept)
            yield replace(
                table, columns=columns, rows=rows, notes=(NOTE, *table.findings), findings=()
            )


def error_tables(frame: ScoreFrame, options: Mapping[str, Any]) -> Iterator[Table]:
    """How often the judge fails right answers and passes wrong ones, by labelled score."""
    people = frame.people
    for metric in people.distinct("metric") if people else ():
        threshold = options.get(f"{THRESHOLD}{metric}")
        if people is not None and threshold is not None:
            yield _errors(frame, people, metric, float(threshold))


def _errors(frame: ScoreFrame, people: ScoreFrame, metric: str, threshold: float) -> Table:
    conditions = [
        each
        for each in people.distinct("condition")
        if len(people.select(metric=metric, condition=each))
    ]
    turns = people.turns()
    columns = {
        condition: (
            _failures(frame, metric, condition, turns, threshold),
            _failures(people, metric, condition, turns, threshold),
        )
        for condition in conditions
    }
    if len(columns) > 1:
        judged, labels = (Column.joined(each) for each in zip(*columns.values(), strict=True))
        columns[ALL] = (judged, labels)
    rates = {
        name: (find_rate(*each, of=0), find_rate(*each, of=1)) for name, each in columns.items()
    }
    rows = {name: dict(_row(*columns[name], *rates[name])) for name in columns}
    return Table.of(
        f"judge_errors_{metric}",
        f"Errors of the judge on {metric}, by people; below {threshold:g} is a failure",
        rows,
        notes=tuple(_error_notes({name: rates[name][0] for name in conditions})),
    )


def _failures(
    frame: ScoreFrame, metric: str, condition: str, turns: Sequence[int], threshold: float
) -> Column:
    parts = []
    for turn in turns or (None,):
        column = Select(metric, condition=condition, turn=turn)(frame)
        names = tuple(f"{sample}, {condition}, turn {turn}" for sample in column.samples)
        parts.append(replace(column, samples=names))
    return mapped(Column.joined(parts), lambda value: float(value < threshold))


def _row(
    judged: Column, people: Column, fails_right: Rate | None, passes_wrong: Rate | None
) -> Iterator[tuple[str, Cell]]:
    labels = correct(judged, people)
    pairs = list(zip(labels.judged.values, labels.people.values, strict=True))
    for (judge, person), title in {
        (0.0, 0.0): "both pass",
        (1.0, 0.0): "only the judge fails",
        (0.0, 1.0): "only people fail",
        (1.0, 1.0): "both fail",
    }.items():
        yield title, Cell(value=float(pairs.count((judge, person))), digits=0)
    for title, rate in (("a (%)", fails_right), ("b (%)", passes_wrong)):
        if rate is not None and rate.verdicts is not None:
            yield title, as_cell(summarise_share(rate.verdicts), 100.0, share=True)
    yield "failures (%)", as_cell(summarise_share(judged), 100.0, share=True)
    if fails_right is not None and passes_wrong is not None:
        summary = correct_share(judged, fails_right, passes_wrong)
        if summary.low is None:
            summary = replace(summary, missing=_why_none(summary, fails_right, passes_wrong))
        yield f"failures (%){CORRECTED}", as_cell(summary, 100.0, share=True)


def _why_none(summary: Summary, *rates: Rate) -> Mapping[str, int]:
    """Why an interval is missing: how many labels both rates want if further ones are alike."""
    clusters = min(len({*each.verdicts.clusters}) for each in rates if each.verdicts)
    labels = sum(each.n for each in rates)
    if summary.mean is None:
        return {NO_SKILL: labels}
    more = ceil(labels * FEWEST_CLUSTERS / clusters) - labels
    return {WANTED: more} if more > 0 else {}


def _error_notes(rates: Mapping[str, Rate | None]) -> Iterator[str]:
    known = {name: rate for name, rate in rates.items() if rate is not None}
    p_values = {
        both: p
        for both in combinations(known, 2)
        if (p := compare_rates(known[both[0]], known[both[1]])) is not None
    }
    apart = [both for both, p in holm(p_values).items() if p < LEVEL]
    if apart:
        listed = "; ".join(f"{first} and {second}" for first, second in apart)
        yield (
            "WARNING: the judge does not fail right answers alike under all conditions "
            f"({listed}): differences between conditions contain the judge's. The corrected "
            "numbers do not."
        )
    yield (
        "a: the share of the answers that people pass and the judge fails. b: of those that people "
        "fail, the share that it passes. Corrected by a and b (Rogan and Gladen)."
    )
