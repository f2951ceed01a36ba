"""Tables of agreement: a row for each measure, a column for each comparison, and notes on both.

`mmconv.stats.agreement.panel` computes the measures.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mmconv.benchmarks.base.results import Scale, ends_of
from mmconv.benchmarks.options import describe
from mmconv.benchmarks.registry import TITLES
from mmconv.core.types import Cell, Table
from mmconv.report.agreement.panels import Match, Rating, choose, label, list_values
from mmconv.run_folder.layout import MANIFEST, SCORES
from mmconv.run_folder.saved_run import read_manifest
from mmconv.stats import Column, as_cell, summarise, summarise_share
from mmconv.stats.agreement.many_raters import alike_between
from mmconv.stats.agreement.panel import ALL, CONSENSUS, DIFFERENCE, EACH, PEOPLE, compare
from mmconv.stats.agreement.two_raters import Matrix

COMPARISONS = (EACH, CONSENSUS, PEOPLE, ALL)

PEOPLE_ROW = "people"
AGREES = "agrees with a person (%)"

SAME_SCALE = 0.65
"""The least share of their whole range that ratings of two sides on one scale have in common.

Ratings from 1 to 5 and from 0 to 4 have 0.6 of it in common, from 1 to 9 and from 2 to 10 0.78.
"""

FEW = 20
"""With fewer ratings, only ranges with nothing in common are evidence of two scales."""

FEWEST = 5
"""With fewer ratings, nothing is."""

DIALOGUES = 30
"""With fewer dialogues, a table says that bootstrap intervals are too narrow."""

UNITS = 50
"""With fewer units, a table says how uncertain a kappa is."""


def read_scale(file: Path) -> Scale:
    """The scale of a run's scores, by its benchmark; None for other files, and if it is unknown.

    Raises `DataError` for a manifest that cannot be read.
    """
    if file.name != SCORES or not file.with_name(MANIFEST).exists():
        return None
    manifest = read_manifest(file.parent)
    shipped = describe(manifest.benchmark).scale if manifest.benchmark in TITLES else {}
    scale: Scale = shipped or manifest.provenance.get("scale")
    return scale


def warn_of_scales(matched: Match, human: Sequence[Rating], scale: Scale = None) -> str | None:
    """A warning if people do not rate on the judge's scale, None otherwise.

    `human` are the matched ratings, `scale` is the judge's if it is known. A few ratings off it are
    listed. If many are, or it is unknown, the ranges of both sides are compared.
    """
    start = f"WARNING: on {matched.metric}, " if matched.metric else "WARNING: "
    ratings = choose(human, metric=matched.metric or None)

    def outside(low: float, high: float) -> list[str]:
        return [
            f"{label(rating.value)} ({rating.where})"
            for rating in ratings
            if isinstance(rating.value, float | int) and not low <= rating.value <= high
        ]

    # an infinite end is None in manifests
    lowest, highest = ends_of(scale, matched.metric) or (None, None)
    low = -math.inf if lowest is None else lowest
    high = math.inf if highest is None else highest
    off = outside(low, high)
    panel = matched.panel
    judges, people = (matrix[~np.isnan(matrix)] for matrix in (panel.judges, panel.people))
    if panel.ordered and _are_apart(judges, people) and not 0 < 2 * len(off) <= len(ratings):
        outer = outside(judges.min(), judges.max())
        beyond = f" (beyond the judges': {list_values(outer)})" if outer else ""
        return (
            f"{start}judges and people seem to rate on different scales: judges gave "
            f"{_range(judges)}, people {_range(people)}{beyond}. Only Pearson's r, Spearman's rho "
            "and Kendall's tau-b are valid then; all others need one scale."
        )
    if not off:
        return None
    return (
        f"{start}judges rate from {label(low)} to {label(high)}, and people gave "
        f"{list_values(off)}. Values off the scale are used as they are: correct them, or leave "
        "the cells empty."
    )


def _are_apart(judges: Matrix, people: Matrix) -> bool:
    """Whether two sides seem to rate on different scales, by their lowest and highest ratings."""
    fewer = min(len(judges), len(people))
    if fewer < FEWEST:
        return False
    low, high = max(judges.min(), people.min()), min(judges.max(), people.max())
    # a rater who never varies has no range, and is on the scale if others reach it
    if low <= high and min(np.ptp(judges), np.ptp(people)) == 0:
        return False
    whole = max(judges.max(), people.max()) - min(judges.min(), people.min())
    common = max(0.0, high - low) / whole
    return bool(common < SAME_SCALE and not (common and fewer < FEW))


def _range(ratings: Matrix) -> str:
    return " to ".join(map(label, dict.fromkeys((float(ratings.min()), float(ratings.max())))))


def agreement_tables(
    pairs: Iterable[Match],
    human: Sequence[Rating],
    scale: Scale = None,
    *,
    replicates: int,
    seed: int,
) -> tuple[list[Table], list[str]]:
    """For each metric a table of agreement and one of ratings; then the warnings in their notes.

    `scale` is that of the judge's scores.
    """
    tables, warnings = [], []
    for pair in pairs:
        warning = warn_of_scales(pair, human, scale)
        about = [] if warning is None else [warning]
        table = agreement_table(pair, human, replicates=replicates, seed=seed)
        tables += [replace(table, notes=(*about, *table.notes)), ratings_table(pair)]
        warnings += about
    return tables, warnings


def agreement_table(
    matched: Match, human: Sequence[Rating], *, replicates: int, seed: int
) -> Table:
    """The agreement of a judge with people on one metric, with bootstrap intervals.

    `human` are the ratings by people that were matched.
    """
    rows = compare(matched.panel, replicates=replicates, seed=seed)
    compared = {comparison for row in rows.values() for comparison in row}
    notes = [*_conventions(matched, replicates, seed)]
    agreements = rows["agreement"].values()
    if any(cell.value in (0, 1) and cell.low is not None for cell in agreements):
        notes.append("An agreement of 0 or 1 has Wilson's interval for shares: no draw varies.")
    kappas = [cell for name, row in rows.items() if "kappa" in name for cell in row.values()]
    if 0 < (units := min((cell.n or 0 for cell in kappas), default=0)) < UNITS:
        notes.append(
            f"Few units: a kappa of 0.6 over {units} of them is uncertain by "
            f"{1.96 * 0.8 / math.sqrt(units):.1g} either way, for two ratings of one frequency."
        )
    name = re.sub(r"[^\w.-]+", "-", matched.metric).strip("-.")
    return Table(
        name="-".join(filter(None, ("agreement", name))),
        title=" on ".join(filter(None, ("Agreement", matched.metric))),
        columns=tuple(comparison for comparison in COMPARISONS if comparison in compared),
        rows=rows,
        notes=(*notes, *_omissions(matched, human)),
        digits=3,
    )


def ratings_table(matched: Match) -> Table:
    """What each judge and the people chose, and how often a judge agrees with a person.

    Shares of labels, or means of numbers, over the units that a judge and a person rated.
    """
    panel = matched.panel
    rows = {name: panel.judges[[row]] for row, name in enumerate(matched.judges)}
    shown = {name: dict(_chosen(matched, ratings)) for name, ratings in rows.items()}
    for name, ratings in rows.items():
        shares = alike_between(ratings, panel.people).shares.tolist()
        shown[name][AGREES] = as_cell(
            summarise_share(_known(shares, panel.clusters)), 100.0, share=True
        )
    people = PEOPLE_ROW if PEOPLE_ROW not in rows else f"{PEOPLE_ROW} (human)"
    table = {people: dict(_chosen(matched, panel.people)), **shown}
    name = re.sub(r"[^\w.-]+", "-", matched.metric).strip("-.")
    return Table.of(
        "-".join(filter(None, ("ratings", name))),
        " on ".join(filter(None, ("Ratings by people and judges", matched.metric))),
        table,
    )


def _chosen(matched: Match, ratings: Matrix) -> Iterator[tuple[str, Cell]]:
    """The share of each label, or the mean; raters of a unit are in one cluster."""
    clusters = matched.panel.clusters * len(ratings)
    numbers = ratings.reshape(-1).tolist()
    if not matched.labels:
        yield "mean", as_cell(summarise(_known(numbers, clusters)))
    for code, name in enumerate(matched.labels):
        chosen = [number if number != number else float(number == code) for number in numbers]
        yield f"{name} (%)", as_cell(summarise_share(_known(chosen, clusters)), 100.0, share=True)


def _known(numbers: Sequence[float], clusters: Sequence[str]) -> Column:
    """The column of the numbers that are not NaN."""
    pairs = [each for each in zip(numbers, clusters, strict=True) if each[0] == each[0]]
    return Column.of([number for number, _ in pairs], clusters=[cluster for _, cluster in pairs])


def _conventions(matched: Match, replicates: int, seed: int) -> Iterator[str]:
    panel = matched.panel
    yield "Agreement: the probability that two random raters rate a random unit alike."
    if len(panel.judges) + len(panel.people) > 2:
        yield (
            "Pairs pooled: all pairs of ratings count alike, as in the code of MT-Bench's authors; "
            "units with more raters weigh more."
        )
        yield (
            "Cohen's and quadratic weighted kappa, correlations and differences are means over "
            "pairs of raters; so are Fleiss' kappa and Krippendorff's alpha if a judge is compared "
            "with each person."
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
        few = f" Of fewer than {DIALOGUES} dialogues they are rather too narrow."
        yield (
            f"Intervals: 95 % percentiles of {replicates} draws of {dialogues} whole dialogues "
            f"(seed {seed}).{few * (dialogues < DIALOGUES)}"
        )


def _omissions(matched: Match, human: Sequence[Rating]) -> Iterator[str]:
    if unjudged := sum(matched.panel.unjudged.values()):
        yield (
            "Every column is over the units that a judge rated. Units that only people rated: "
            f"{unjudged}."
        )
    if matched.unrated:
        yield f"Units that only a judge rated: {matched.unrated}."
    if matched.later_trials:
        yield (
            f"Of these, {matched.later_trials} are later trials of samples that people rated. A "
            "person's rating of 1 is for the first trial; a rating of the second names 1#2."
        )
    empty = sum(rating.value is None for rating in choose(human, metric=matched.metric or None))
    if empty:
        yield f"Empty ratings by people, left out: {empty}."
