"""`mmconv agree` and `rescore`: judges, measured against people and papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click

from mmconv.benchmarks.base.replay import as_published
from mmconv.benchmarks.registry import RESCORED, find_rescorer
from mmconv.cli.shared.table_output import print_warnings, show_tables, table_options
from mmconv.core.errors import ConfigError
from mmconv.report.agreement.files import read_ratings
from mmconv.report.agreement.panels import FIELDS, choose, match, require_fields
from mmconv.report.agreement.tables import agreement_table, read_scale, warn_of_scales
from mmconv.run_folder.layout import SCORES
from mmconv.stats.agreement.many_raters import Level

_EXISTING = click.Path(exists=True, path_type=Path)


@click.command(name="agree")
@click.option(
    "--judge",
    type=_EXISTING,
    required=True,
    help="A run's folder, its scores.jsonl, or a file of ratings.",
)
@click.option(
    "--human",
    "people",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    required=True,
    help="A file of people's ratings. Repeatable.",
)
@click.option("--metric", help="Only ratings of this metric.")
@click.option("--condition", help="Only ratings under this condition.")
@click.option("--turn", help="Only ratings of this turn; 0 is the whole conversation.")
@click.option(
    "--tag",
    "tags",
    metavar="NAME=VALUE",
    multiple=True,
    help="Only scores with this tag, such as reading=ours. Repeatable.",
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
    help="Bootstrap draws for each interval.",
)
@click.option("--seed", default=0, show_default=True, help="Random seed of the draws.")
@table_options
def agree_command(judge: Path, people: Sequence[Path], **values: Any) -> None:
    """Compare ratings by a judge with ratings of the same samples by people.

    Rating files (.csv, .tsv, .jsonl, .json, .xlsx) have the fields sample and value (a number or a
    label), and optionally rater, metric, condition, turn and cluster (the dialogue; by default the
    sample). Intervals come from a bootstrap over dialogues.

    In a run with --trials, the second trial of sample 1 is named 1#2, and a rating of 1 belongs to
    the first trial. Trials that no person rated are left out and counted.

    In a run with --order both, the judge's rating is the mean over both sides.

    Agreement, kappas, alpha and the mean difference need ratings on one scale; correlations do not.
    """
    tags: dict[str, str] = {}
    for text in values["tags"]:
        name, _, value = text.partition("=")
        if not (name and value):
            raise ConfigError(f"--tag {text!r}: expected NAME=VALUE")
        tags[name] = value
    fields = {name: values[name] for name in FIELDS}
    file = judge / SCORES if judge.is_dir() else judge
    judged = read_ratings(file, tags)
    human = [rating for path in people for rating in read_ratings(path)]
    require_fields([*judged, *human], **fields)
    judged, human = (choose(ratings, **fields) for ratings in (judged, human))
    matches = match(judged, human, tie=values["tie"], level=values["level"])
    tables = [
        agreement_table(pair, human, replicates=values["replicates"], seed=values["seed"])
        for pair in matches
    ]
    scale = read_scale(file)
    warnings = [warn_of_scales(pair, human, scale) for pair in matches]
    print_warnings(filter(None, warnings), values["form"])
    warned = [
        replace(table, notes=(warning, *table.notes)) if warning else table
        for table, warning in zip(tables, warnings, strict=True)
    ]
    printed = tables if values["form"] == "table" else warned
    show_tables(warned, values["form"], values["out"], printed=printed, intervals=True)


@click.command(name="rescore", options_metavar="", no_args_is_help=True)
@click.argument("benchmark", metavar="|".join(RESCORED))
@click.option(
    "--judgements",
    "files",
    metavar="FILE...",
    type=_EXISTING,
    multiple=True,
    required=True,
    help="Files in the authors' layout, one per model.",
)
# an option takes one value each time; the further files of a shell pattern are arguments
@click.argument("more", nargs=-1, type=_EXISTING, metavar="--judgements FILE... [OPTIONS]")
@click.option(
    "--skip-bad-records", is_flag=True, help="Continue without incomplete records; tables say so."
)
@table_options
def rescore_command(
    benchmark: str,
    files: tuple[Path, ...],
    more: tuple[Path, ...],
    skip_bad_records: bool,
    form: str,
    out: Path | None,
) -> None:
    """Score published judgements with the parsers, scores and tables of a run.

    No request is sent. Prints every table of the benchmark; notes say how much the files have of
    what was published. With --format json that is one object: table -> row -> column -> value, n,
    missing. Printed values are rounded as the authors round, by Python's round; files in --out have
    full precision.
    """
    if benchmark not in RESCORED:
        raise ConfigError(
            f"judgements of {benchmark!r} cannot be read; there are: {', '.join(RESCORED)}"
        )
    rescore = find_rescorer(benchmark)
    tables = rescore([*files, *more], skip_bad=skip_bad_records)
    show_tables(tables, form, out, printed=as_published(tables))
