"""Panels: how far judges that are models agree with people, and people among themselves.

Every measure of `mmconv.stats.agreement`, for every comparison that the raters allow, with
intervals by bootstrap. No file is read here, and nothing is printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, product
from statistics import fmean
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmconv.stats.agreement import (
    Level,
    Mask,
    Matrix,
    agreement_among,
    agreement_between,
    cohen_kappa,
    evenly_rated,
    fleiss_kappa,
    kendall_tau,
    krippendorff_alpha,
    majority,
    mean,
    paired,
    raters_per_unit,
    spearman_rho,
)
from mmconv.stats.column import number_names
from mmconv.stats.estimates import FEWEST_CLUSTERS, ROUNDING
from mmconv.values import Cell

Measure: TypeAlias = Callable[[Matrix], float]

EACH = "judge and person"
CONSENSUS = "judge and consensus"
PEOPLE = "people among themselves"
ALL = "judge and people together"

DEFINED_DRAWS = 0.95
"""The share of bootstrap draws in which a measure must be defined for it to get an interval."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Panel:
    """What judges and people gave the same units: two matrices of shape (raters, units).

    The units are those that a judge rated, so that people are compared with each other over what
    they are compared with a judge over; `unjudged` counts, by reason, those that people alone
    rated. Units of one cluster (a dialogue) are not independent of each other. `level` is that of
    Krippendorff's alpha; None leaves it out. Ratings that are not `ordered` are codes of labels:
    they have no ranks. `tie` is the rating that calls a comparison undecided. Raises `ValueError`
    for matrices that do not fit together, or that lack a judge or a person.
    """

    judges: Matrix
    people: Matrix
    clusters: tuple[str, ...]
    unjudged: Mapping[str, int] = field(default_factory=dict)
    level: Level | None = "ordinal"
    ordered: bool = True
    tie: float | None = None

    def __post_init__(self) -> None:
        units = {self.judges.shape[1], self.people.shape[1], len(self.clusters)}
        if len(units) > 1 or not len(self.judges) or not len(self.people):
            raise ValueError("a panel has judges and people, who rate the same units")

    def take(self, places: NDArray[np.intp]) -> Panel:
        """The panel of the units at these places, which may come several times."""
        return replace(
            self,
            judges=self.judges[:, places],
            people=self.people[:, places],
            clusters=tuple(self.clusters[place] for place in places),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measure of some raters: NaN if undefined, over `n` units; `missing` ones by reason."""

    value: float
    n: int
    missing: Mapping[str, int] = field(default_factory=dict)


Row: TypeAlias = dict[str, Figure]
"""Comparison -> figure: what one measure says of each."""


def compare(panel: Panel, *, replicates: int = 1000, seed: int = 0) -> dict[str, dict[str, Cell]]:
    """Measure -> comparison -> cell, each with a 95 % interval by bootstrap over clusters.

    The interval is that between percentiles of `replicates` draws of whole clusters. There is none
    where fewer than `DEFINED_DRAWS` of the draws define the measure, where all of them give it one
    value, or where there are fewer clusters than any interval needs.
    """
    draws = [figures(drawn) for drawn in _drawn(panel, replicates, seed)]
    return {
        measure: {
            comparison: _cell(figure, [draw[measure][comparison].value for draw in draws])
            for comparison, figure in row.items()
        }
        for measure, row in figures(panel).items()
    }


def figures(panel: Panel) -> dict[str, Row]:
    """Measure -> comparison -> figure, without intervals.

    Measures of two raters are means over the pairs of raters. The consensus of people is the
    majority vote for measures of equality, which skip units without one, and the mean for the
    others. Comparisons that need several people are absent for one.
    """
    found = dict(_agreements(panel))
    if panel.tie is not None:
        found |= {f"{name}, without ties": row for name, row in _agreements(_untied(panel))}
    found["Cohen's kappa"] = _coefficient(cohen_kappa, panel, majority)
    found["Fleiss' kappa"] = _coefficient(fleiss_kappa, panel, majority, evenly_rated)
    if panel.level is not None:
        alpha = partial(krippendorff_alpha, level=panel.level)
        consensus = majority if panel.level == "nominal" else mean
        found[f"Krippendorff's alpha ({panel.level})"] = _coefficient(
            alpha, panel, consensus, paired
        )
    if panel.ordered:
        found["Spearman's rho"] = _coefficient(spearman_rho, panel, mean)
        found["Kendall's tau-b"] = _coefficient(kendall_tau, panel, mean)
    return found


def _agreements(panel: Panel) -> Iterator[tuple[str, Row]]:
    """Agreement as the mean over units and, where the two can differ, over pairs."""
    judges, people = panel.judges, panel.people
    yield "agreement", _agreement(panel, pooled=False)
    if len(judges) > 1 or len(people) > 1:
        yield "agreement, pairs pooled", _agreement(panel, pooled=True)


def _agreement(panel: Panel, *, pooled: bool) -> Row:
    judges, people = panel.judges, panel.people

    def between(others: Matrix, missing: Mapping[str, int]) -> Figure:
        value = agreement_between(judges, others, pooled=pooled)
        rated = (raters_per_unit(judges) > 0) & (raters_per_unit(others) > 0)
        return Figure(value=value, n=int(rated.sum()), missing=missing)

    row = {EACH: between(people, panel.unjudged)}
    if len(people) > 1:
        voted = majority(people)[np.newaxis]
        row[CONSENSUS] = between(voted, {**panel.unjudged, **_undecided(panel, voted)})
        value = agreement_among(people, pooled=pooled)
        row[PEOPLE] = Figure(value=value, n=int(paired(people).sum()), missing=panel.unjudged)
    return row


def _coefficient(
    measure: Measure,
    panel: Panel,
    consensus: Callable[[Matrix], Matrix],
    units: Callable[[Matrix], Mask] | None = None,
) -> Row:
    """A measure of two raters, or one of any number, which says which `units` it can use."""
    judges, people = panel.judges, panel.people
    missing = panel.unjudged
    usable = units or paired
    row = {EACH: _average(measure, usable, _pairs(judges, people), missing)}
    if len(people) > 1:
        agreed = consensus(people)[np.newaxis]
        undecided = {**missing, **_undecided(panel, agreed)}
        row[CONSENSUS] = _average(measure, usable, _pairs(judges, agreed), undecided)
        among = [people] if units else [np.stack(pair) for pair in combinations(people, 2)]
        row[PEOPLE] = _average(measure, usable, among, missing)
    if units and len(judges) + len(people) > 2:
        row[ALL] = _average(measure, usable, [np.concatenate((judges, people))], missing)
    return row


def _average(
    measure: Measure,
    usable: Callable[[Matrix], Mask],
    groups: Sequence[Matrix],
    missing: Mapping[str, int],
) -> Figure:
    """The mean of a measure over groups of raters, those left out that leave it undefined."""
    values = [measure(group) for group in groups]
    defined = [value for value in values if not math.isnan(value)]
    used = np.any([usable(group) for group in groups], axis=0)
    uneven = np.any([paired(group) for group in groups], axis=0) & ~used
    reasons = {
        "unequal numbers of ratings": int(uneven.sum()),
        "undefined for a pair or group of raters": len(values) - len(defined),
    }
    return Figure(
        value=fmean(defined) if defined else math.nan,
        n=int(used.sum()),
        missing={**missing, **{why: count for why, count in reasons.items() if count}},
    )


def _drawn(panel: Panel, replicates: int, seed: int) -> Iterator[Panel]:
    """Panels of as many clusters, drawn with replacement; none if these are too few."""
    codes, names = number_names(panel.clusters)
    if len(names) < FEWEST_CLUSTERS:
        return
    places = np.argsort(codes, kind="stable")
    members = np.split(places, np.cumsum(np.bincount(codes))[:-1])
    random = np.random.default_rng(seed)
    for _ in range(replicates):
        drawn = random.integers(len(names), size=len(names))
        yield panel.take(np.concatenate([members[cluster] for cluster in drawn]))


def _cell(figure: Figure, draws: Sequence[float]) -> Cell:
    low, high = _interval(draws)
    value = None if math.isnan(figure.value) else figure.value
    return Cell(value=value, n=figure.n, missing=figure.missing, low=low, high=high)


def _interval(draws: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    defined = [value for value in draws if not math.isnan(value)]
    if len(defined) < max(1.0, DEFINED_DRAWS * len(draws)):
        return None, None
    if math.isclose(min(defined), max(defined), rel_tol=ROUNDING, abs_tol=ROUNDING):
        return None, None
    low, high = np.percentile(defined, (2.5, 97.5))
    return float(low), float(high)


def _untied(panel: Panel) -> Panel:
    """The panel without the ratings that are ties."""
    judges, people = (
        np.where(ratings == panel.tie, np.nan, ratings) for ratings in (panel.judges, panel.people)
    )
    return replace(panel, judges=judges, people=people)


def _undecided(panel: Panel, agreed: Matrix) -> dict[str, int]:
    """How many units judges and people rated, the people without a consensus."""
    rated = (raters_per_unit(panel.judges) > 0) & (raters_per_unit(panel.people) > 0)
    count = int((rated & np.isnan(agreed[0])).sum())
    return {"no majority": count} if count else {}


def _pairs(left: Matrix, right: Matrix) -> list[Matrix]:
    return [np.stack(pair) for pair in product(left, right)]
