"""Tables of agreement: a row for each measure, a column for each comparison, and notes on both.

The measures are those of `mmconv.stats.panel`; here is said what they are over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from mmconv.agreement.matching import Match
from mmconv.agreement.ratings import Rating, choose
from mmconv.stats.panel import ALL, CONSENSUS, EACH, PEOPLE, Panel, compare
from mmconv.values import Table

COMPARISONS = (EACH, CONSENSUS, PEOPLE, ALL)

MOST_CELLS = 20_000_000
"""Units times squared distinct ratings up to which Krippendorff's alpha fits into memory."""


def agreement_table(
    matched: Match, human: Sequence[Rating], *, replicates: int, seed: int
) -> Table:
    """How far a judge agrees with people on one metric, with intervals by bootstrap.

    Of `human`, the ratings by people that were matched, the empty ones are counted in a note.
    """
    panel = matched.panel
    too_fine = _cells(panel) > MOST_CELLS
    if too_fine:
        panel = replace(panel, level=None)
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
            *_omissions(matched, human, too_fine=too_fine),
        ),
        digits=3,
    )


def _cells(panel: Panel) -> int:
    """What Krippendorff's alpha would hold in memory: a number per unit and pair of ratings."""
    given = np.concatenate((panel.judges, panel.people))
    return int(given.shape[1] * len(np.unique(given[~np.isnan(given)])) ** 2)


def _conventions(panel: Panel, replicates: int, seed: int) -> Iterator[str]:
    yield "Agreement: the probability that two raters, drawn at random, rate a random unit alike."
    if len(panel.judges) + len(panel.people) > 2:
        yield (
            "Pairs pooled: all pairs of ratings count alike, as in the code of MT-Bench's authors; "
            "units with more raters weigh more."
        )
        yield (
            "Cohen's kappa and rank correlations are means over pairs of raters; so are Fleiss' "
            "kappa and Krippendorff's alpha where a judge is compared with each person."
        )
    if len(panel.people) > 1:
        yield (
            "Consensus: the majority of people for agreement, kappas and nominal alpha, without "
            "units that have none; their mean for the rest."
        )
    if replicates:
        dialogues = len(set(panel.clusters))
        yield (
            f"Intervals: 95 % percentiles of {replicates} draws of {dialogues} whole dialogues "
            f"(seed {seed})."
        )


def _omissions(matched: Match, human: Sequence[Rating], *, too_fine: bool) -> Iterator[str]:
    if unjudged := sum(matched.panel.unjudged.values()):
        yield (
            "Every column is over the units that a judge rated. Units that people rated and no "
            f"judge did: {unjudged}."
        )
    if matched.unrated:
        yield f"Units that a judge rated and no person did: {matched.unrated}."
    empty = sum(rating.value is None for rating in choose(human, metric=matched.metric or None))
    if empty:
        yield f"Empty ratings by people, left out: {empty}."
    if too_fine:
        yield "Krippendorff's alpha is left out: too many distinct ratings. Round them to have it."
