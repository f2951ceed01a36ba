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
from mmconv.core.types import Table
from mmconv.report.agreement.files import read_ratings
from mmconv.report.agreement.panels import (
    FIELDS,
    Rating,
    choose,
    distinct,
    list_values,
    match,
    require_fields,
)
from mmconv.report.agreement.tables import agreement_tables, read_scale
from mmconv.report.corrections import correct_run
from mmconv.run_folder.layout import SCORES, TABLES
from mmconv.stats.agreement.many_raters import Level

_EXISTING = click.Path(exists=True, path_type=Path)


@click.command(name="agree")
@click.argument("runs", type=_EXISTING, nargs=-1, metavar="[RUN]...")
@click.option(
    "--judge",
    type=_EXISTING,
    help="In place of RUN: its scores.jsonl, or any file of ratings.",
)
@click.option(
    "--human",
    "people",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    required=True,
    help="A file of people's ratings. Repeatable.",
)
@click.option(
    "--correct",
    is_flag=True,
    help="Correct the numbers of each RUN by these ratings, here and in its tables.",
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
def agree_command(
    runs: Sequence[Path], judge: Path | None, people: Sequence[Path], correct: bool, **values: Any
) -> None:
    """Compare ratings by the judge of each RUN with ratings of the same samples by people.

    Rating files (.csv, .tsv, .jsonl, .json, .xlsx) have the fields sample and value (a number or a
    label), and optionally rater, metric, condition, turn, cluster (the dialogue; by default the
    sample) and run (the name of the run's folder). Intervals come from a bootstrap over dialogues.

    In a run with --trials, the second trial of sample 1 is named 1#2, and a rating of 1 belongs to
    the first trial. Trials that no person rated are left out and counted.

    In a run with --order both, the judge's rating is the mean over both sides.

    Agreement, kappas, alpha and the mean difference need ratings on one scale; correlations do not.

    With --correct the tables of each RUN get columns of corrected numbers, which compare and
    leaderboard show too: what people would have given all samples, if those that they rated were
    drawn at random. The judge's own numbers stay.
    """
    if bool(runs) == bool(judge):
        raise ConfigError("name the folders of runs, or a file of ratings with --judge")
    sources = runs or ([judge] if judge else [])
    if correct and not all(source.is_dir() for source in sources):
        raise ConfigError("--correct needs folders of runs, and not a file of ratings")
    human = [rating for path in people for rating in read_ratings(path)]
    tables: list[Table] = []
    warnings: dict[str, None] = {}
    for source in sources:
        made, about = _agreement(source, human, correct=correct, **values)
        if len(sources) > 1:
            made = [
                replace(each, name=f"{source.name}-{each.name}", title=f"{each.title}, {source}")
                for each in made
            ]
        tables += made
        warnings |= dict.fromkeys(about)
    print_warnings(warnings, values["form"])
    show_tables(tables, values["form"], values["out"], said=warnings, intervals=True)
    for source in sources if correct else ():
        click.echo(
            f"{source / TABLES} has the corrected columns; mmconv report {source} renews its page",
            err=True,
        )


def _agreement(
    source: Path, people: Sequence[Rating], *, correct: bool, **values: Any
) -> tuple[list[Table], list[str]]:
    file = source / SCORES if source.is_dir() else source
    name = source.resolve().name if source.is_dir() else None
    human = [each for each in people if name is None or each.run in (None, name)]
    if not human:
        known = list_values(distinct("run", people))
        raise ConfigError(f"no rating is of the run {name}; runs in the files: {known}")
    fields = {name: values[name] for name in FIELDS}
    judged = read_ratings(file, _read_tags(values["tags"]))
    require_fields([*judged, *human], **fields)
    judged, human = (choose(ratings, **fields) for ratings in (judged, human))
    pairs = match(judged, human, tie=values["tie"], level=values["level"])
    draws = {name: values[name] for name in ("replicates", "seed")}
    tables, warnings = agreement_tables(pairs, human, read_scale(file), **draws)
    return [*tables, *(correct_run(source, judged, human) if correct else ())], warnings


def _read_tags(texts: Sequence[str]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name and value):
            raise ConfigError(f"--tag {text!r}: expected NAME=VALUE")
        tags[name] = value
    return tags


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
