"""Tables of agreement: a row for each measure, a column for each comparison, and notes on both.

The measures are those of `mmconv.stats.agreement.panel`; here is said what they are over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mmconv.agreement.matching import Match
from mmconv.agreement.ratings import Rating, choose
from mmconv.core.types import Cell, Table
from mmconv.stats.agreement.panel import ALL, CONSENSUS, DIFFERENCE, EACH, PEOPLE, Panel, compare

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
