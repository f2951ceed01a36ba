"""Metrics corrected by what people gave some of the answers: the columns next to the judge's own.

People's scores are those of the frame's `people`, with the names and tags of the judge's, so every
metric reads them as it reads the judge's. All estimates are `mmconv.stats.corrections`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mmconv.benchmarks.base.metrics import LARGEST_WIDTH, Compared, Delta, Metric, Ratio
from mmconv.core.types import Cell, Summary
from mmconv.stats import FEWEST_CLUSTERS, Column, Quantity, ScoreFrame, as_cell, bounded, pair
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
    if not isinstance(metric, Compared):
        return None
    possible = (GAINS if isinstance(metric, Delta) else (0.0, 1.0)) if metric.group.share else ()
    summary = correct_mean(metric.columns(frame), metric.columns(people), possible)
    return None if summary is None else metric.write(summary)


def correct_mean(
    judged: Mapping[str, Column], labels: Mapping[str, Column], possible: Sequence[float] = ()
) -> Summary | None:
    """The mean of the columns' means corrected by people's; None unless each column has labels.

    `possible` are the values of a share's samples.
    """
    every = [*judged.values(), *labels.values()]
    if any(len({*each.samples}) < len(each) for each in every):
        return None
    corrections = [correct(judged[key], labels[key]) for key in judged if key in labels]
    if not judged or len(corrections) < len(judged):
        return None
    if not all(len(each.people) for each in corrections):
        return None
    terms = [(each, 1 / len(corrections)) for each in corrections]
    summary = summarise_corrections(terms, possible)
    lacking = min(FEWEST_CLUSTERS - len({*each.people.clusters}) for each in corrections)
    return replace(summary, missing={WANTED: lacking}) if lacking > 0 else summary


def correct_difference(
    runs: tuple[Quantity, Quantity], labels: tuple[Quantity, Quantity]
) -> Summary | None:
    """The paired difference of two runs, the second less the first, corrected by people's."""

    def paired(left: Quantity, right: Quantity) -> dict[str, Column]:
        if left.columns.keys() != right.columns.keys():
            return {}
        return {key: pair(column, right.columns[key]) for key, column in left.columns.items()}

    possible = GAINS if all(each.shares for each in runs) else ()
    summary = correct_mean(paired(*runs), paired(*labels), possible)
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
