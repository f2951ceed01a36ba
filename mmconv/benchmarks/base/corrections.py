"""Metrics corrected by what people gave some of the answers: the columns next to the judge's own.

People's scores are those of the frame's `people`, with the names and tags of the judge's, so every
metric reads them as it reads the judge's. All estimates are `mmconv.stats.corrections`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mmconv.benchmarks.base.metrics import LARGEST_WIDTH, Delta, Mean, MeanOf, Metric, Ratio
from mmconv.core.types import Cell, Summary
from mmconv.stats import FEWEST_CLUSTERS, Quantity, ScoreFrame, as_cell, bounded, pair
from mmconv.stats.column import align
from mmconv.stats.corrections import (
    correct,
    count_wanted,
    summarise_corrected_ratio,
    summarise_corrections,
)

CORRECTED = ", corrected"
"""The end of the titles of columns with numbers corrected by people."""

NOTE = (
    "Corrected: what people would have given all samples, estimated from the samples that they "
    "rated (n) and from the judge's scores of the others (PPI++). It holds whatever errors the "
    "judge makes, if the rated samples were drawn at random."
)

WANTED = "labels wanted for an interval"
"""Why a corrected number has no interval: more labels are missing."""

HOPELESS = "more labels (all there can be) that would not be enough"
"""Why it has none if labels of all other samples would not do."""

GAINS = (-1.0, 0.0, 0.0, 1.0)
"""What two shares of a sample can differ by."""


def corrected(metric: Metric, frame: ScoreFrame) -> Cell | None:
    """The metric as people would see it; None without labels for it, and for `Official` ones.

    None also for a `Delta` by which runs are not compared: it may select samples by their scores.
    """
    people = frame.people
    if people is None or (isinstance(metric, Delta) and metric.compare is None):
        return None
    if isinstance(metric, Ratio):
        summary = _ratio(metric, frame, people)
        return None if summary is None else as_cell(summary, metric.group.factor, share=True)
    if not isinstance(metric, Mean | MeanOf | Delta):
        return None
    compared = replace(metric, compare="score")
    judged, labels = compared.quantity(frame), compared.quantity(people)
    group, is_change = metric.group, isinstance(metric, Delta)
    possible = (GAINS if is_change else (0.0, 1.0)) if group.share else ()
    summary = correct_quantity(judged, labels, possible) if judged and labels else None
    if summary is None:
        return None
    ends = (-group.reach, group.reach) if is_change else (group.lowest, group.highest)
    signed = isinstance(metric, Delta) and metric.signed
    return group.cell(bounded(summary, *ends), signed=signed)


def correct_quantity(
    judged: Quantity, labels: Quantity, possible: Sequence[float] = ()
) -> Summary | None:
    """The quantity corrected by people's; None unless each of its columns has labels.

    `possible` are the values of a share's samples.
    """
    every = [judged.columns, labels.columns]
    if any(len({*each.samples}) < len(each) for columns in every for each in columns.values()):
        return None
    corrections = {
        key: correct(column, labels.columns[key])
        for key, column in judged.columns.items()
        if key in labels.columns
    }
    if len(corrections) < len(judged.columns):
        return None
    if not all(len(each.people) for each in corrections.values()):
        return None
    terms = [(each, 1 / len(corrections)) for each in corrections.values()]
    summary = summarise_corrections(terms, possible)
    lacking = min(FEWEST_CLUSTERS - len({*each.people.clusters}) for each in corrections.values())
    return replace(summary, missing={WANTED: lacking}) if lacking > 0 else summary


def correct_difference(
    runs: tuple[Quantity, Quantity], labels: tuple[Quantity, Quantity]
) -> Summary | None:
    """The paired difference of two runs, the second less the first, corrected by people's."""

    def paired(quantities: tuple[Quantity, Quantity]) -> Quantity | None:
        left, right = quantities
        shared = [key for key in left.columns if key in right.columns]
        if len(shared) < len({*left.columns, *right.columns}):
            return None
        columns = {key: pair(left.columns[key], right.columns[key]) for key in shared}
        return replace(left, columns=columns)

    judged, known = paired(runs), paired(labels)
    possible = GAINS if all(each.shares for each in runs) else ()
    summary = correct_quantity(judged, known, possible) if judged and known else None
    reach = max(each.reach for each in runs)
    return None if summary is None else bounded(summary, -reach, reach)


def _ratio(metric: Ratio, frame: ScoreFrame, people: ScoreFrame) -> Summary | None:
    """The ratio with Fieller's interval; how many labels are wanted if it cannot be shown."""
    judged = align(metric.over(frame).known, metric.under(frame).known)
    labels = align(metric.over(people).known, metric.under(people).known)
    over, under = (correct(*each) for each in zip(judged, labels, strict=True))
    if not len(under.people):
        return None
    summary = summarise_corrected_ratio(over, under, metric.possible)
    summary = bounded(summary, metric.lowest, metric.highest)
    if (
        summary.low is not None
        and summary.high is not None
        and summary.high - summary.low <= LARGEST_WIDTH
    ):
        return summary
    wanted = count_wanted(over, under, metric.possible, LARGEST_WIDTH)
    more, others = (wanted or math.inf) - len(under.people), len(under.rest)
    missing = {WANTED: int(more)} if more <= others else {HOPELESS: others}
    return replace(summary, mean=None, low=None, high=None, missing=missing)
