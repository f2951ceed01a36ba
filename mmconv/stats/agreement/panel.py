"""Panels: how far judges that are models agree with people, and people among themselves.

Every measure of `two_raters` and `many_raters`, for every comparison that the raters allow, with
intervals by bootstrap. No file is read here, and nothing is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, product
from typing import TypeAlias

import numpy as np

from mmconv.core.types import Cell
from mmconv.stats.agreement.many_raters import (
    Level,
    Mask,
    alike_among,
    alike_between,
    evenly_rated,
    fleiss_kappa,
    krippendorff_alpha,
    majority,
    mean,
    paired,
    raters_per_unit,
)
from mmconv.stats.agreement.two_raters import (
    Matrix,
    Measure,
    cohen_kappa,
    cross,
    kendall_tau,
    mean_difference,
    pearson_r,
    quadratic_kappa,
    spearman_rho,
)
from mmconv.stats.column import Column, number_names
from mmconv.stats.estimates import FEWEST_CLUSTERS, ROUNDING, summarise_share

EACH = "judge and person"
CONSENSUS = "judge and consensus"
PEOPLE = "people among themselves"
ALL = "judge and people together"

DIFFERENCE = "mean difference, judge - person"
"""The measure that has a sign, and so none of people among themselves."""

DEFINED_DRAWS = 0.95
"""The share of bootstrap draws in which a measure must be defined for it to get an interval."""

_BLOCK = 1_000_000
"""How many units times draws are looked at in one go, to save memory."""

_Vote: TypeAlias = Callable[[Matrix], Matrix]

_ORDERED: Mapping[str, Measure] = {
    "quadratic weighted kappa": quadratic_kappa,
    "Pearson's r": pearson_r,
    "Spearman's rho": spearman_rho,
    "Kendall's tau-b": kendall_tau,
    DIFFERENCE: mean_difference,
}
"""Measures of two raters whose ratings have an order."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Panel:
    """What judges and people gave the same units: two matrices of shape (raters, units).

    The units are those that a judge rated, so that people are compared with each other over what
    they are compared with a judge over; `unjudged` counts, by reason, those that people alone
    rated. Units of one cluster (a dialogue) are not independent of each other. `level` is that of
    Krippendorff's alpha. Ratings that are not `ordered` are codes of labels: they have no ranks and
    no differences. `tie` is the rating that calls a comparison undecided. Raises `ValueError`
    for matrices that do not fit together, or that lack a judge or a person.
    """

    judges: Matrix
    people: Matrix
    clusters: tuple[str, ...]
    unjudged: Mapping[str, int] = field(default_factory=dict)
    level: Level = "ordinal"
    ordered: bool = True
    tie: float | None = None

    def __post_init__(self) -> None:
        units = {self.judges.shape[1], self.people.shape[1], len(self.clusters)}
        if len(units) > 1 or not len(self.judges) or not len(self.people):
            raise ValueError("a panel has judges and people, who rate the same units")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Figure:
    """A measure of some raters, over `n` units; `missing` ones by reason.

    `values` are those of the units as they are and then of each draw, NaN where it is undefined;
    shape (1 + draws,). Of an agreement, `shares` has that of each unit; shape (units,).
    """

    values: Matrix
    n: int
    missing: Mapping[str, int] = field(default_factory=dict)
    shares: Matrix | None = None

    @property
    def value(self) -> float:
        """The measure of the units as they are."""
        return float(self.values[0])


Row: TypeAlias = dict[str, Figure]
"""Comparison -> figure: what one measure says of each."""


def compare(panel: Panel, *, replicates: int = 1000, seed: int = 0) -> dict[str, dict[str, Cell]]:
    """Measure -> comparison -> cell, each with a 95 % interval by bootstrap over clusters.

    The interval is that between percentiles of `replicates` draws of whole clusters, widened to the
    measure itself where it lies outside, as a kappa of few units can. There is none where fewer
    than `DEFINED_DRAWS` of the draws define the measure, where all of them give it one value, or
    where there are fewer clusters than any interval needs. An agreement of 0 or 1, which all draws
    have, gets that of a share (Wilson's, see `mmconv.stats.estimates.summarise_share`).
    """
    blocks = [figures(panel, weights) for weights in _weights(panel, replicates, seed)]
    return {
        measure: {
            comparison: _cell(
                figure,
                np.concatenate([block[measure][comparison].values[1:] for block in blocks]),
                panel.clusters,
            )
            for comparison, figure in row.items()
        }
        for measure, row in blocks[0].items()
    }


def figures(panel: Panel, weights: Matrix | None = None) -> dict[str, Row]:
    """Measure -> comparison -> figure, without intervals.

    `weights` says how often each unit comes in each draw, once in the first; shape (units, 1 +
    draws). Measures of two raters are means over the pairs of raters. The consensus of people is
    the majority vote for measures of equality, which skip units without one, and the mean for the
    others. Comparisons that need several people are absent for one.
    """
    if weights is None:
        weights = np.ones((len(panel.clusters), 1))
    found = dict(_agreements(panel, weights))
    if panel.tie is not None:
        untied = _agreements(_untied(panel), weights)
        found |= {f"{name}, without ties": row for name, row in untied}
    found |= _of_two({"Cohen's kappa": cohen_kappa}, panel, weights, majority)
    found["Fleiss' kappa"] = _of_many(fleiss_kappa, panel, weights, majority, evenly_rated)
    found[f"Krippendorff's alpha ({panel.level})"] = _of_many(
        partial(krippendorff_alpha, level=panel.level),
        panel,
        weights,
        majority if panel.level == "nominal" else mean,
        paired,
    )
    if panel.ordered:
        found |= _of_two(_ORDERED, panel, weights, mean)
        found[DIFFERENCE].pop(PEOPLE, None)
    return found


def _agreements(panel: Panel, weights: Matrix) -> Iterator[tuple[str, Row]]:
    """Agreement as the mean over units and, where the two can differ, over pairs."""
    yield "agreement", _agreement(panel, weights, pooled=False)
    if len(panel.judges) > 1 or len(panel.people) > 1:
        yield "agreement, pairs pooled", _agreement(panel, weights, pooled=True)


def _agreement(panel: Panel, weights: Matrix, *, pooled: bool) -> Row:
    row = {}
    for comparison, judges, people, missing in _comparisons(panel, majority):
        alike = alike_among(people) if judges is None else alike_between(judges, people)
        row[comparison] = Figure(
            values=alike.agreement(weights, pooled=pooled),
            n=int((alike.pairs > 0).sum()),
            missing=missing,
            shares=alike.shares,
        )
    return row


def _comparisons(
    panel: Panel, vote: _Vote
) -> Iterator[tuple[str, Matrix | None, Matrix, Mapping[str, int]]]:
    """Each comparison: its judges (None: people are compared), its people, and what is missing.

    `vote` makes the consensus of people.
    """
    yield EACH, panel.judges, panel.people, panel.unjudged
    if len(panel.people) > 1:
        agreed = vote(panel.people)[np.newaxis]
        undecided = {**panel.unjudged, **_undecided(panel, agreed)}
        yield CONSENSUS, panel.judges, agreed, undecided
        yield PEOPLE, None, panel.people, panel.unjudged


def _of_two(
    measures: Mapping[str, Measure], panel: Panel, weights: Matrix, vote: _Vote
) -> dict[str, Row]:
    """The rows of measures of two raters."""
    rows: dict[str, Row] = {name: {} for name in measures}
    for comparison, judges, people, missing in _comparisons(panel, vote):
        pairs = combinations(people, 2) if judges is None else product(judges, people)
        for name, figure in _averages(measures, pairs, weights, missing).items():
            rows[name][comparison] = figure
    return rows


def _averages(
    measures: Mapping[str, Measure],
    pairs: Iterable[tuple[Matrix, Matrix]],
    weights: Matrix,
    missing: Mapping[str, int],
) -> dict[str, Figure]:
    """The means of measures over pairs of raters, each pair tabulated once."""
    values: dict[str, list[Matrix]] = {name: [] for name in measures}
    used = np.zeros(len(weights), dtype=np.bool_)
    for left, right in pairs:
        used |= ~np.isnan(left) & ~np.isnan(right)
        crossed = cross(left, right, weights)
        for name, measure in measures.items():
            values[name].append(measure(crossed))
    return {name: _average(each, int(used.sum()), missing) for name, each in values.items()}


def _of_many(
    measure: Callable[[Matrix, Matrix], Matrix],
    panel: Panel,
    weights: Matrix,
    vote: _Vote,
    usable: Callable[[Matrix], Mask],
) -> Row:
    """The row of a measure of any number of raters, which says which units it can use."""

    def figure(groups: Sequence[Matrix], missing: Mapping[str, int]) -> Figure:
        used = np.any([usable(group) for group in groups], axis=0)
        uneven = int((np.any([paired(group) for group in groups], axis=0) & ~used).sum())
        reasons = {**missing, **({"unequal numbers of ratings": uneven} if uneven else {})}
        return _average([measure(group, weights) for group in groups], int(used.sum()), reasons)

    row = {}
    for comparison, judges, people, missing in _comparisons(panel, vote):
        pairs = [] if judges is None else [np.stack(pair) for pair in product(judges, people)]
        row[comparison] = figure(pairs or [people], missing)
    if len(panel.judges) + len(panel.people) > 2:
        row[ALL] = figure([np.concatenate((panel.judges, panel.people))], panel.unjudged)
    return row


def _average(values: Sequence[Matrix], n: int, missing: Mapping[str, int]) -> Figure:
    """The mean of a measure over groups of raters, those left out that leave it undefined."""
    every = np.stack(values)
    undefined = int(np.isnan(every[:, 0]).sum())
    reasons = {"undefined for a pair or group of raters": undefined} if undefined else {}
    return Figure(values=mean(every), n=n, missing={**missing, **reasons})


def _weights(panel: Panel, replicates: int, seed: int) -> Iterator[Matrix]:
    """How often each unit comes: once, and then in draws of as many clusters, with replacement.

    Blocks of shape (units, 1 + draws), each with the units as they are first. Without enough
    clusters there is only the first.
    """
    codes, names = number_names(panel.clusters)
    wanted = 0 if len(names) < FEWEST_CLUSTERS else replicates
    block = max(1, _BLOCK // max(1, len(codes)))
    random = np.random.default_rng(seed)
    for start in range(0, max(wanted, 1), block):
        clusters = np.ones((len(names), 1 + min(block, wanted - start)))
        for draw in range(1, clusters.shape[1]):
            drawn = random.integers(len(names), size=len(names))
            clusters[:, draw] = np.bincount(drawn, minlength=len(names))
        yield clusters[codes]


def _cell(figure: Figure, draws: Matrix, clusters: Sequence[str]) -> Cell:
    low, high = _interval(draws)
    value = None if np.isnan(figure.value) else figure.value
    if figure.shares is not None and value in (0, 1):
        rated = np.flatnonzero(~np.isnan(figure.shares))
        column = Column.of(
            figure.shares[rated].tolist(), clusters=[clusters[unit] for unit in rated.tolist()]
        )
        summary = summarise_share(column)
        low, high = summary.low, summary.high
    if value is not None and low is not None and high is not None:
        low, high = min(low, value), max(high, value)
    return Cell(value=value, n=figure.n, missing=figure.missing, low=low, high=high)


def _interval(draws: Matrix) -> tuple[float, float] | tuple[None, None]:
    defined = draws[~np.isnan(draws)]
    if len(defined) < max(1.0, DEFINED_DRAWS * len(draws)):
        return None, None
    if np.ptp(defined) <= ROUNDING * max(1.0, float(np.abs(defined).max())):
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
