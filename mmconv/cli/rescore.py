"""`mmconv rescore`: the tables that judgements published by a benchmark's authors lead to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

import click

from mmconv.benchmarks.registry import RESCORED, find_rescorer
from mmconv.benchmarks.shared.rescore import as_published
from mmconv.cli.shared.table_output import show_tables, table_options
from mmconv.core.errors import ConfigError
from mmconv.core.types import Table


class Rescorer(Protocol):
    """Reads files in the authors' layout."""

    def __call__(self, files: Sequence[Path], *, skip_bad: bool = False) -> tuple[Table, ...]:
        """Raises `DataError` for bad records, unless `skip_bad` leaves them out."""
        ...


_EXISTING = click.Path(exists=True, path_type=Path)


@click.command(name="rescore", options_metavar="", no_args_is_help=True)
@click.argument("benchmark", metavar="|".join(RESCORED))
@click.option(
    "--judgements",
    "files",
    metavar="FILE...",
    type=_EXISTING,
    multiple=True,
    required=True,
    help="Files in the authors' layout, one for each model.",
)
# An option takes one value each time it is given: further files come as arguments.
@click.argument("more", nargs=-1, type=_EXISTING, metavar="--judgements FILE... [OPTIONS]")
@click.option(
    "--skip-bad-records", is_flag=True, help="Go on without incomplete records; tables say so."
)
@table_options
def command(
    benchmark: str,
    files: tuple[Path, ...],
    more: tuple[Path, ...],
    skip_bad_records: bool,
    form: str,
    out: Path | None,
) -> None:
    """Read published judgements with the parsers, scores and tables of a live run.

    Nothing is asked. Every table of the benchmark is printed, and what the files hide: what is
    missing, renamed, merged or out of range. With --format json that is one object: table -> row
    -> column -> value, n, missing. Printed values are rounded as the authors round, by Python's
    round; files in --out hold them in full.
    """
    tables = _find(benchmark)([*files, *more], skip_bad=skip_bad_records)
    show_tables(tables, form, out, printed=as_published(tables))


def _find(benchmark: str) -> Rescorer:
    if benchmark not in RESCORED:
        raise ConfigError(
            f"no judgements of {benchmark!r} can be read; there are: {', '.join(RESCORED)}"
        )
    return cast("Rescorer", find_rescorer(benchmark))
