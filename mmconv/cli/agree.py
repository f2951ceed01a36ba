"""`mmconv agree`: how far a judge agrees with people, and people among themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click

from mmconv.agreement.matching import match
from mmconv.agreement.rating_files import read_ratings
from mmconv.agreement.ratings import FIELDS, choose, require_fields
from mmconv.agreement.scales import read_scale, warn_of_scales
from mmconv.agreement.tables import agreement_table
from mmconv.cli.shared.table_output import print_warnings, show_tables, table_options
from mmconv.core.errors import ConfigError
from mmconv.run_folder.layout import SCORES
from mmconv.stats.agreement.many_raters import Level


@click.command(name="agree")
@click.option(
    "--judge",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="A run's folder or its scores.jsonl, or ratings.",
)
@click.option(
    "--human",
    "people",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
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

    Files of ratings (.csv, .tsv, .jsonl, .json, .xlsx) have the fields sample and value, a number
    or a label, and where there are several: rater, metric, condition, turn, cluster (the dialogue,
    by default the sample). Intervals come from draws of whole dialogues.

    In a run with --trials, sample 1 is named 1#2 in its second trial. People rate an answer, and
    another trial has another one: a rating of 1 meets the first trial alone, one of the second
    names 1#2. Trials that no person rated are left out and counted.

    In a run with --order both the judge's rating is the mean over both sides, as in its tables.

    Agreement, kappas, alpha and the mean difference need ratings on one scale; the correlations
    do not.
    """
    fields = {name: chosen[name] for name in FIELDS}
    file = judge / SCORES if judge.is_dir() else judge
    judged = read_ratings(file, dict(map(_tag, chosen["tags"])))
    human = [rating for path in people for rating in read_ratings(path)]
    require_fields([*judged, *human], **fields)
    judged, human = (choose(ratings, **fields) for ratings in (judged, human))
    matches = match(judged, human, tie=chosen["tie"], level=chosen["level"])
    tables = [
        agreement_table(each, human, replicates=chosen["replicates"], seed=chosen["seed"])
        for each in matches
    ]
    scale = read_scale(file)
    warnings = [warn_of_scales(each, human, scale) for each in matches]
    print_warnings(filter(None, warnings), chosen["form"])
    warned = [
        replace(table, notes=(warning, *table.notes)) if warning else table
        for table, warning in zip(tables, warnings, strict=True)
    ]
    printed = tables if chosen["form"] == "table" else warned
    show_tables(warned, chosen["form"], chosen["out"], printed=printed, intervals=True)


def _tag(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ConfigError(f"--tag {text!r}: expected NAME=VALUE")
    return name, value
