"""What commands on several runs take: RUNS, `--despite`, and which of the runs take part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from mmconv.cli.shared.option_values import FILE, Command
from mmconv.core.errors import ConfigError
from mmconv.report.comparison.mismatches import KINDS
from mmconv.report.comparison.runs import finished_among


def runs_argument(command: Command) -> Command:
    """Add RUNS, folders of runs; of what `runs/*` stands for, the store is passed over.

    The command raises `ConfigError` for what is not there, such as a pattern that nothing fits.
    """
    return click.argument("runs", type=FILE, nargs=-1, required=True, callback=_runs)(command)


def despite_option(verb: str) -> Callable[[Command], Command]:
    """Add `--despite`; `verb` is what the command does to runs that differ."""
    return click.option(
        "--despite",
        type=click.Choice(KINDS),
        multiple=True,
        help=f"{verb} although these differ; the output says so first. May be given several times.",
    )


def take_finished(runs: Sequence[Path], *, needed: Path | None = None) -> tuple[Path, ...]:
    """The folders that take part; on standard error stands which do not, and why.

    Raises as `mmconv.report.comparison.runs.finished_among` does.
    """
    finished, left_out = finished_among(runs, needed=needed)
    for told in left_out:
        click.echo(told, err=True)
    return finished


def _runs(ctx: click.Context, parameter: click.Parameter, given: Sequence[Path]) -> list[Path]:
    for folder in given:
        if not folder.exists():
            raise ConfigError(f"{folder}: no run lies here: there is no such folder")
    return [each for each in given if not (each.name.startswith("store.sqlite") and each.is_file())]
