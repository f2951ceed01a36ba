"""Tables of agreement: a row for each measure, a column for each comparison, and notes on both.

The measures are those of `mmconv.stats.agreement.panel`; here is said what they are over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from mmconv.benchmarks.registry import TITLES
from mmconv.benchmarks.shared.options import describe
from mmconv.benchmarks.shared.scoring import Scale, ends_of
from mmconv.core.types import Cell, Table
from mmconv.report.agreement.panels import Match, Rating, choose, label, list_values
from mmconv.run_folder.layout import MANIFEST, SCORES
from mmconv.run_folder.saved_run import read_manifest
from mmconv.stats.agreement.panel import ALL, CONSENSUS, DIFFERENCE, EACH, PEOPLE, Panel, compare
from mmconv.stats.agreement.two_raters import Matrix

SAME_SCALE = 0.65
"""The share of all their range that two sides have in common on one scale, at the least.

Ratings from 1 to 5 and from 0 to 4 have 0.6 of it in common, from 1 to 9 and from 2 to 10 0.78.
"""

FEW = 20
"""Of fewer ratings, the lowest and the highest say little about their scale."""

FEWEST = 5
"""Of fewer ratings, they say nothing."""


def read_scale(file: Path) -> Scale:
    """The scale of a run's scores, by its benchmark; None for other files, or if it is unknown.

    Raises `DataError` for a manifest that cannot be read.
    """
    if file.name != SCORES or not file.with_name(MANIFEST).exists():
        return None
    manifest = read_manifest(file.parent)
    shipped = describe(manifest.benchmark).scale if manifest.benchmark in TITLES else {}
    scale: Scale = shipped or manifest.facts.get("scale")
    return scale


def warn_of_scales(matched: Match, human: Sequence[Rating], scale: Scale = None) -> str | None:
    """The warning before the table if people do not rate on the judge's scale.

    `human` are the ratings that were matched, `scale` is the judge's as far as it is known. Where
    few are off it they are listed. If many are, or it is unknown, the two seem to differ.
    """
    about = f"on {matched.metric}, " if matched.metric else ""
    ratings = choose(human, metric=matched.metric or None)
    # an infinite end is None in manifests
    lowest, highest = ends_of(scale, matched.metric) or (None, None)
    low = -math.inf if lowest is None else lowest
    high = math.inf if highest is None else highest
    off = _beyond(ratings, low, high)
    panel = matched.panel
    judges, people = (given[~np.isnan(given)] for given in (panel.judges, panel.people))
    if panel.ordered and _are_apart(judges, people) and not 0 < 2 * len(off) <= len(ratings):
        outer = _beyond(ratings, judges.min(), judges.max())
        beyond = f" (beyond the judges': {list_values(outer)})" if outer else ""
        return (
            f"WARNING: {about}judges and people seem to rate on different scales: judges gave "
            f"{_range(judges)}, people {_range(people)}{beyond}. Then only Pearson's r, Spearman's "
            "rho and Kendall's tau-b mean something between them: all else takes equal numbers for "
            "equal ratings. Bring the files onto one scale to have it."
        )
    if not off:
        return None
    return (
        f"WARNING: {about}judges rate from {label(low)} to {label(high)}, and people gave "
        f"{list_values(off)}. Values off the scale count as they are: correct them, or leave the "
        "cells empty."
    )


def _beyond(ratings: Iterable[Rating], low: float, high: float) -> list[str]:
    """The numbers that do not lie between two others, with where they stand."""
    return [
        f"{label(each.value)} ({each.where})"
        for each in ratings
        if isinstance(each.value, float | int) and not low <= each.value <= high
    ]


def _are_apart(judges: Matrix, people: Matrix) -> bool:
    """Whether two sides seem to rate on different scales, by their lowest and highest ratings.

    Of fewer than `FEW` ratings on a side, only those that have nothing in common seem to, and of
    fewer than `FEWEST` none.
    """
    if (fewer := min(len(judges), len(people))) < FEWEST:
        return False
    common = _in_common(judges, people)
    return common < SAME_SCALE and not (common and fewer < FEW)


def _in_common(left: Matrix, right: Matrix) -> float:
    """The part of the range of all numbers that lies in the range of both; 1 for one in another."""
    low, high = max(left.min(), right.min()), min(left.max(), right.max())
    whole = max(left.max(), right.max()) - min(left.min(), right.min())
    # a rater who never varies has no range; that is fine as long as others reach it
    if low <= high and min(np.ptp(left), np.ptp(right)) == 0:
        return 1.0
    return float(max(0.0, high - low) / whole)


def _range(ratings: Matrix) -> str:
    return " to ".join(map(label, dict.fromkeys((float(ratings.min()), float(ratings.max())))))


COMPARISONS = (EACH, CONSENSUS, PEOPLE, ALL)

_WILSON = "An agreement of 0 or 1 has Wilson's interval for shares: no draw has another one."


def agreement_table(
    matched: Match, human: Sequence[Rating], *, replicates: int, seed: int
) -> Table:
    """How far a judge agrees with people on one metric, with intervals by bootstrap.

    Of `human`, the ratings by people that were matched, the empty ones are counted in a note.
    """
    panel = matched.panel
    rows = compare(panel, replicates=replicates, seed=seed)
    compared = {comparison for row in rows.values() for comparison in row}
    name = re.sub(r"[^\w.-]+", "-", matched.metric).strip("-.")
    return Table(
        name="-".join(filter(None, ("agreement", name))),
        title=" on ".join(filter(None, ("Agreement", matched.metric))),
        columns=tuple(comparison for comparison in COMPARISONS if comparison in compared),
        rows=rows,
        notes=(
            *_conventions(panel, replicates, seed),
            *((_WILSON,) if any(map(_is_extreme, rows["agreement"].values())) else ()),
            *_omissions(matched, human),
        ),
        digits=3,
    )


def _conventions(panel: Panel, replicates: int, seed: int) -> Iterator[str]:
    yield "Agreement: the probability that two raters, drawn at random, rate a random unit alike."
    if len(panel.judges) + len(panel.people) > 2:
        yield (
            "Pairs pooled: all pairs of ratings count alike, as in the code of MT-Bench's authors; "
            "units with more raters weigh more."
        )
        yield (
            "Cohen's and quadratic weighted kappa, correlations and differences are means over "
            "pairs of raters; so are Fleiss' kappa and Krippendorff's alpha where a judge is "
            "compared with each person."
        )
    if panel.ordered:
        yield (
            f"{DIFFERENCE.capitalize()}: above 0 the judge rates higher. Quadratic weights are the "
            "squares of differences between the numbers."
        )
    if len(panel.people) > 1:
        yield (
            "Consensus: the majority of people for agreement, Cohen's and Fleiss' kappa and "
            "nominal alpha, without units that have none; their mean for the rest."
        )
    if replicates:
        dialogues = len(set(panel.clusters))
        yield (
            f"Intervals: 95 % percentiles of {replicates} draws of {dialogues} whole dialogues "
            f"(seed {seed})."
        )


def _is_extreme(cell: Cell) -> bool:
    return cell.value in (0, 1) and cell.low is not None


def _omissions(matched: Match, human: Sequence[Rating]) -> Iterator[str]:
    if unjudged := sum(matched.panel.unjudged.values()):
        yield (
            "Every column is over the units that a judge rated. Units that people rated and no "
            f"judge did: {unjudged}."
        )
    if matched.unrated:
        yield f"Units that a judge rated and no person did: {matched.unrated}."
    if matched.later_trials:
        yield (
            f"Of these, {matched.later_trials} are later trials of samples that people rated: 1#2 "
            "is sample 1 in its second trial. A person's rating of 1 is of the answer in its first "
            "trial; one of the second names 1#2."
        )
    empty = sum(rating.value is None for rating in choose(human, metric=matched.metric or None))
    if empty:
        yield f"Empty ratings by people, left out: {empty}."
