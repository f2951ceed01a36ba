"""`mmconv leaderboard`: runs of one benchmark as a short table, the best first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import click

from mmconv.cli.option_values import FILE, comma_list
from mmconv.cli.tabling import print_warnings, show_tables, table_options
from mmconv.report.compared_runs import KINDS
from mmconv.report.counts import tell_counts_once
from mmconv.report.leaderboard import make_leaderboard
from mmconv.values import Table


@click.command(name="leaderboard")
@click.argument("runs", type=FILE, nargs=-1, required=True)
@click.option("--sort", metavar="COLUMN", help="What to sort by.  [the benchmark's headline]")
@click.option("--columns", metavar="LIST", help="The columns to show, with commas.  [all]")
@click.option(
    "--despite",
    type=click.Choice(KINDS),
    multiple=True,
    help="Rank although these differ; the output says so first. May be given several times.",
)
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
    end stands how answers ended, and what the runs took. Runs over other data or samples, or by
    another judge or other prompts, are refused, unless --despite says so. Where much of a run is
    missing, that is told first, and its row is marked.
    """
    chosen = () if columns is None else comma_list(columns, "--columns")
    board = make_leaderboard(runs, sort=sort, columns=chosen, despite=despite)
    print_warnings(board.warnings, form)
    printed = [_shown(table, form, board.warnings) for table in board.tables]
    show_tables(board.tables, form, out, printed=printed, intervals=True)


def _shown(table: Table, form: str, above: Collection[str]) -> Table:
    """The table for readers: counts once, and without what stands above all tables."""
    if form not in {"table", "md"}:
        return table
    notes = table.notes if form == "md" else (note for note in table.notes if note not in above)
    return tell_counts_once(replace(table, notes=tuple(notes)))
