"""Warnings of ratings by people that are not on the judge's scale, which every measure would take.

The scale is that of the judge's run, where its benchmark has one; of any others, the lowest and the
highest ratings tell something of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from judges.parsers import cmteval
from judges.parsers.convbench import HIGHEST_RATING, LOWEST_RATING
from mmconv.agreement.matching import Match
from mmconv.agreement.ratings import Rating, choose, label, list_values
from mmconv.benchmarks.convbench.quantities import GRADINGS
from mmconv.benchmarks.shared.scoring import Scale, ends_of
from mmconv.run_folder.layout import MANIFEST, SCORES
from mmconv.run_folder.saved_run import read_manifest
from mmconv.stats.agreement.two_raters import Matrix

SAME_SCALE = 0.65
"""The share of all their range that two sides have in common on one scale, at the least.

Ratings from 1 to 5 and from 0 to 4 have 0.6 of it in common, from 1 to 9 and from 2 to 10 0.78.
"""

FEW = 20
"""Of fewer ratings, the lowest and the highest tell little of the scale that they are on."""

FEWEST = 5
"""Of fewer ratings, they tell nothing."""

_SHIPPED: dict[str, Scale] = {
    "cmteval": dict.fromkeys(
        (*cmteval.DIMENSIONS, "TLS", "DLS", "DLS_min"), (cmteval.LOWEST, cmteval.HIGHEST)
    ),
    "convbench": {grading.metric: (grading.lowest, grading.highest) for grading in GRADINGS},
    "mtbench101": dict.fromkeys(("rating", "dialogue"), (LOWEST_RATING, HIGHEST_RATING)),
}


def read_scale(file: Path) -> Scale:
    """The scale of a run's scores, by its benchmark; None for other files, and where none is told.

    Raises `DataError` for a manifest that cannot be read.
    """
    if file.name != SCORES or not file.with_name(MANIFEST).exists():
        return None
    manifest = read_manifest(file.parent)
    told: Scale = _SHIPPED.get(manifest.benchmark, manifest.facts.get("scale"))
    return told


def warn_of_scales(matched: Match, human: Sequence[Rating], scale: Scale = None) -> str | None:
    """What to tell before the table where people do not rate on the judge's scale.

    `human` are the ratings that were matched, `scale` is the judge's as far as it is known. Where
    few lie off it they are told, where many do or none is known, that the two seem to differ.
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
        f"{list_values(off)}. What is off the scale counts as it stands: mend it, or leave its "
        "cell empty."
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
    # a rater who never varies has no range, which tells of no scale as long as others reach it
    if low <= high and min(np.ptp(left), np.ptp(right)) == 0:
        return 1.0
    return float(max(0.0, high - low) / whole)


def _range(ratings: Matrix) -> str:
    return " to ".join(map(label, dict.fromkeys((float(ratings.min()), float(ratings.max())))))
