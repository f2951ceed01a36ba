"""`mmconv compare`: runs of one benchmark side by side, with paired differences."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from mmconv.cli.shared.compared_runs import despite_option, runs_argument, take_finished
from mmconv.cli.shared.option_values import FILE
from mmconv.cli.shared.run_folders import data_of
from mmconv.cli.shared.table_output import print_warnings, show_tables, table_options
from mmconv.report.comparison.differences import Comparison, compare
from mmconv.report.comparison.runs import tell_shortfall
from mmconv.report.tables.convbench_names import mark_raised
from mmconv.run_folder.layout import TABLES

PAGE = "comparison.html"


@click.command(name="compare")
@runs_argument
@click.option("--baseline", type=FILE, help="The run that others are compared with.  [the first]")
@despite_option("Compare")
@table_options
def command(
    runs: Sequence[Path],
    baseline: Path | None,
    despite: Sequence[str],
    form: str,
    out: Path | None,
) -> None:
    """Compare RUNS (folders of finished runs of one benchmark) with the first of them.

    Their tables are printed as one, and how far each run differs from the baseline: paired per
    sample, with 95 % intervals, the number of pairs, and what made no pair. Runs over other data or
    trials, or judged otherwise (judge, its prompts, options of the judging), are refused, unless
    --despite says so. Where much of a run is missing, that is told first. Of more than two runs the
    scores stand before the differences; `mmconv leaderboard` ranks them. Of more than two,
    unfinished ones and shards are left out, and named.
    --out also takes a page with the conversations side by side.
    """
    ordered = _baseline_first(runs, baseline)
    comparison = compare(take_finished(ordered, needed=ordered[0]), despite=despite)
    amiss = (told for run in comparison.runs for told in tell_shortfall(run))
    print_warnings((*comparison.warnings, *amiss), form)
    printed = [table for table in comparison.tables if form != "table" or not table.detail]
    if form in {"table", "md"}:
        printed = [mark_raised(table) for table in printed]
    folder = None if out is None else out / TABLES
    show_tables(comparison.tables, form, folder, printed=printed, intervals=True)
    if out is not None:
        page = asyncio.run(_write_page(comparison, out.absolute() / PAGE))
        click.echo(f"The page is {page}", err=True)


def _baseline_first(runs: Sequence[Path], baseline: Path | None) -> tuple[Path, ...]:
    """All runs, each once, in the order in which they are compared."""
    if baseline is None:
        return tuple(runs)
    others = [run for run in runs if run.resolve() != baseline.resolve()]
    return (baseline, *others)


async def _write_page(comparison: Comparison, page: Path) -> Path:
    from mmconv.report.page import write_comparison

    # the data of a run are found from its own working directory
    runs = tuple(replace(run, folder=run.folder.absolute()) for run in comparison.runs)
    comparison = replace(comparison, runs=runs)
    async with data_of(runs[0].folder) as evaluation:
        if evaluation is None:
            return write_comparison(page, comparison)
        library = evaluation.equipment.library
        return write_comparison(page, comparison, library, evaluation.about())
