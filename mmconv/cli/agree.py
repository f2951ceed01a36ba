"""`mmconv agree`: how far a judge agrees with people, and people among themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np

from mmconv.cli.matching import FIELDS, Match, choose, match
from mmconv.cli.ratings import Rating, read_ratings
from mmconv.cli.tabling import show_tables, table_options
from mmconv.errors import ConfigError
from mmconv.stats.agreement import Level
from mmconv.stats.panel import ALL, CONSENSUS, EACH, PEOPLE, Panel, compare
from mmconv.values import Table

COMPARISONS = (EACH, CONSENSUS, PEOPLE, ALL)

LIBRARIES = ("krippendorff", "statsmodels")
"""What the extra `agree` installs."""

MOST_CELLS = 20_000_000
"""Units times squared distinct ratings up to which Krippendorff's alpha fits into memory."""

_EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(name="agree")
@click.option("--judge", type=_EXISTING, required=True, help="A run's scores.jsonl, or ratings.")
@click.option(
    "--human",
    "people",
    type=_EXISTING,
    multiple=True,
    required=True,
    help="Ratings by people; may be given several times.",
)
@click.option("--metric", help="Only ratings on this metric.")
@click.option("--condition", help="Only ratings under this condition.")
@click.option("--turn", help="Only ratings of this turn; 0 is the whole conversation.")
@click.option(
    "--tag",
    "tags",
    metavar="NAME=VALUE",
    multiple=True,
    help="Only scores with this tag, such as reading=ours; may be given several times.",
)
@click.option(
    "--level",
    type=click.Choice(get_args(Level)),
    help="Level of Krippendorff's alpha.  [default: ordinal, or nominal for labels]",
)
@click.option("--tie", metavar="VALUE", help="The rating that is a tie.  [default: the label tie]")
@click.option(
    "--replicates",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="Bootstrap draws behind each interval.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the draws.")
@table_options
def command(judge: Path, people: Sequence[Path], **chosen: Any) -> None:
    """Compare ratings by a judge with ratings of the same samples by people.

    Files of ratings (.csv, .jsonl, .json, .xlsx) have the fields sample and value, a number or a
    label, and where there are several: rater, metric, condition, turn, cluster (the dialogue, by
    default the sample). Intervals come from draws of whole dialogues.
    """
    _require_libraries()
    fields = {name: chosen[name] for name in FIELDS}
    judged = choose(read_ratings(judge, dict(map(_tag, chosen["tags"]))), **fields)
    human = choose((rating for path in people for rating in read_ratings(path)), **fields)
    matches = match(judged, human, tie=chosen["tie"], level=chosen["level"])
    tables = [_table(each, human, chosen["replicates"], chosen["seed"]) for each in matches]
    show_tables(tables, chosen["form"], chosen["out"], intervals=True)


def _tag(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ConfigError(f"--tag {text!r}: expected NAME=VALUE")
    return name, value


def _require_libraries() -> None:
    missing = " ".join(name for name in LIBRARIES if find_spec(name) is None)
    if missing:
        raise ConfigError(f"agreement needs more libraries: pip install {missing}, and run again")


def _table(matched: Match, human: Sequence[Rating], replicates: int, seed: int) -> Table:
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
