"""`mmconv compare` and `leaderboard`: several runs of one benchmark."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from mmconv.cli.shared.basics import FILE, comma_list
from mmconv.cli.shared.run_folders import data_of
from mmconv.cli.shared.table_output import folded, print_warnings, show_tables, table_options
from mmconv.core.errors import ConfigError
from mmconv.report.comparison.differences import Comparison, compare
from mmconv.report.comparison.leaderboard import make_leaderboard
from mmconv.report.comparison.runs import KINDS, finished_among, quality_warnings
from mmconv.report.power import plan
from mmconv.report.tables.cells import show_counts_once
from mmconv.run_folder.layout import TABLES

PAGE = "comparison.html"


def _runs(ctx: click.Context, parameter: click.Parameter, runs: Sequence[Path]) -> list[Path]:
    """The folders without the cache, which a pattern like runs/* also matches."""
    for folder in runs:
        if not folder.exists():
            raise ConfigError(f"{folder}: no run found (folder does not exist)")
    return [run for run in runs if not (run.name.startswith("store.sqlite") and run.is_file())]


RUNS = click.argument("runs", type=FILE, nargs=-1, required=True, callback=_runs)

ALLOW_MISMATCH = click.option(
    "--allow-mismatch",
    type=click.Choice(KINDS),
    multiple=True,
    help="Accept runs that differ in this; the output says so first. Repeatable.",
)


def take_finished(runs: Sequence[Path], *, needed: Path | None = None) -> tuple[Path, ...]:
    """The folders that take part; prints which do not. Raises as `finished_among` does."""
    finished, left_out = finished_among(runs, needed=needed)
    for message in left_out:
        click.echo(message, err=True)
    return finished


@click.command(name="compare")
@RUNS
@click.option("--baseline", type=FILE, help="The run to compare with.  [default: the first]")
@click.option(
    "--margin",
    type=click.FloatRange(min=0, min_open=True),
    help="Name the differences shown to be below this, in their columns' unit.",
)
@ALLOW_MISMATCH
@table_options
def compare_command(
    runs: Sequence[Path],
    baseline: Path | None,
    margin: float | None,
    allow_mismatch: Sequence[str],
    form: str,
    out: Path | None,
) -> None:
    """Compare RUNS (folders of finished runs of one benchmark) with the first of them.

    Prints scores side by side, and differences to the baseline: paired per sample, with 95 %
    intervals, the number of pairs, and why samples have no pair. `mmconv leaderboard` ranks runs.

    Runs over other data or trials, or judged differently (judge, prompts, judging options), are
    refused unless --allow-mismatch names the difference. A run with many missing scores is named
    first. Of more than two runs, unfinished ones and shards are left out.

    --out also writes a page with the conversations side by side.
    """
    ordered = tuple(runs)
    if baseline is not None:
        others = (run for run in runs if run.resolve() != baseline.resolve())
        ordered = (baseline, *others)
    finished = take_finished(ordered, needed=ordered[0])
    comparison = compare(finished, despite=allow_mismatch, margin=margin)
    missing = (message for run in comparison.runs for message in quality_warnings(run))
    print_warnings((*comparison.warnings, *missing), form)
    printed = [table for table in comparison.tables if form != "table" or not table.detail]
    folder = None if out is None else out / TABLES
    said = comparison.warnings
    show_tables(comparison.tables, form, folder, printed=printed, said=said, intervals=True)
    if out is not None:
        page = asyncio.run(write_page(comparison, out.absolute() / PAGE))
        click.echo(f"The page is {page}", err=True)


async def write_page(comparison: Comparison, page: Path) -> Path:
    """Write the page of a comparison, with images if the data are there; returns its path."""
    from mmconv.report.page import write_comparison

    # opening a run's data changes the working directory
    runs = tuple(replace(run, folder=run.folder.absolute()) for run in comparison.runs)
    comparison = replace(comparison, runs=runs)
    async with data_of(runs[0].folder) as evaluation:
        if evaluation is None:
            return write_comparison(page, comparison)
        library = evaluation.resources.library
        return write_comparison(page, comparison, library, evaluation.metadata())


@click.command(name="leaderboard")
@RUNS
@click.option("--sort", metavar="COLUMN", help="Sort by this column.  [default: the main score]")
@click.option("--columns", metavar="LIST", help="Columns, separated by commas.  [default: all]")
@ALLOW_MISMATCH
@table_options
def leaderboard_command(
    runs: Sequence[Path],
    sort: str | None,
    columns: str | None,
    allow_mismatch: Sequence[str],
    form: str,
    out: Path | None,
) -> None:
    """Rank RUNS (folders of finished runs of one benchmark), one row each, the best first.

    Every grading has its own tables: scores with 95 % intervals, and the ranks that paired
    differences allow; for ConvBench also deltas, and the levels that failures come from. Tables at
    the end show how answers ended, tokens and prices.

    Runs over other data, samples or trials, or judged differently (judge, prompts, judging
    options), are refused unless --allow-mismatch names the difference. A run with many missing
    scores is marked. Unfinished runs and shards are left out and named.
    """
    chosen = () if columns is None else comma_list(columns, "--columns")
    board = make_leaderboard(take_finished(runs), sort=sort, columns=chosen, despite=allow_mismatch)
    if form == "table":
        lines = [*map(folded, board.brief)]
        if board.brief != board.warnings:
            lines.append("All of it: --format json, or the pages of these runs.")
        if lines:
            click.echo("\n".join([*lines, ""]))
    else:
        print_warnings(board.warnings, form)
    is_for_people = form in {"table", "md"}
    printed = [*map(show_counts_once, board.tables)] if is_for_people else board.tables
    show_tables(board.tables, form, out, printed=printed, said=board.warnings, intervals=True)


@click.command(name="power")
@click.argument("runs", metavar="RUN [RUN]|BENCHMARK", type=FILE, nargs=-1, required=True)
@click.option(
    "--effect",
    metavar="NUMBER",
    required=True,
    help="The true difference to be found: 0.5 of ratings, 5% of shares and win rates.",
)
@click.option(
    "--label-price",
    type=click.FloatRange(min=0),
    metavar="DOLLARS",
    help="What people's ratings of one sample cost; models need prices too.",
)
@table_options
def power_command(
    runs: Sequence[Path], effect: str, label_price: float | None, form: str, out: Path | None
) -> None:
    """Plan how many samples, trials, verdicts or labels find an effect with 80 % power.

    The pilot is a run for changes between its conditions, or two for differences between them.
    Without one, the name convbench takes errors that come with mmconv.
    """
    try:
        size = float(effect.removesuffix("%"))
    except ValueError:
        size = 0.0
    if not 0 < size < math.inf:
        raise click.BadParameter(f"{effect!r} is not a number above 0, such as 0.5 or 5%")
    table = plan([*runs], size, percent=effect.endswith("%"), label_price=label_price)
    show_tables([table], form, out)
