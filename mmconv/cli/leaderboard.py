"""`mmconv leaderboard`: runs of one benchmark as a short table, the best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from mmconv.cli.shared.compared_runs import despite_option, runs_argument, take_finished
from mmconv.cli.shared.option_values import comma_list
from mmconv.cli.shared.table_output import folded, print_warnings, show_tables, table_options
from mmconv.core.types import Table
from mmconv.report.comparison.leaderboard import Leaderboard, make_leaderboard
from mmconv.report.tables.cells import tell_counts_once
from mmconv.stats import INTERVALS


@click.command(name="leaderboard")
@runs_argument
@click.option("--sort", metavar="COLUMN", help="What to sort by.  [the benchmark's headline]")
@click.option("--columns", metavar="LIST", help="The columns to show, with commas.  [all]")
@despite_option("Rank")
@table_options
def command(
    runs: Sequence[Path],
    sort: str | None,
    columns: str | None,
    despite: Sequence[str],
    form: str,
    out: Path | None,
) -> None:
    """Rank RUNS (folders of finished runs of one benchmark), a row each, the best first.

    Every grading has tables of its own: scores with 95 % intervals, and ranks as far as paired
    differences tell runs apart; ConvBench's deltas, and the levels that failures come from. At the
    end stands how answers ended, and what the runs took. Runs over other data, samples or trials,
    or judged otherwise (judge, its prompts, options of the judging), are refused, unless --despite
    says so. Where much of a run is missing, that is told first, and its row is marked. Unfinished
    runs and shards are left out, and named.
    """
    chosen = () if columns is None else comma_list(columns, "--columns")
    finished = take_finished(runs)
    board = make_leaderboard(finished, sort=sort, columns=chosen, despite=despite)
    if form == "table":
        _print_in_brief(board)
    else:
        print_warnings(board.warnings, form)
    show_tables(board.tables, form, out, printed=_shown(board, form), intervals=True)


def _print_in_brief(board: Leaderboard) -> None:
    """A line for each run of which something must be known, and where all of it is told."""
    lines = [*board.brief]
    if board.brief != board.warnings:
        lines.append("All of it: --format json, or the pages of these runs.")
    if lines:
        click.echo("\n".join([*map(folded, lines), ""]))


def _shown(board: Leaderboard, form: str) -> Sequence[Table]:
    """The tables for readers: counts and the rule for intervals once, no warning of those above."""
    if form not in {"table", "md"}:
        return board.tables
    said = {*(board.warnings if form == "table" else ())}
    shown: list[Table] = []
    for table in reversed(board.tables):
        notes = tuple(note for note in table.notes if note not in said)
        said.update({INTERVALS}.intersection(notes))
        shown.insert(0, tell_counts_once(replace(table, notes=notes)))
    return shown
