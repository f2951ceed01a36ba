"""`mmconv report`: the page of a finished run, written again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from mmconv.cli.shared.file_errors import writing
from mmconv.cli.shared.option_values import FILE
from mmconv.cli.shared.run_folders import data_of
from mmconv.core.errors import ConfigError
from mmconv.report.page import write_page
from mmconv.run_folder.layout import PAGE
from mmconv.run_folder.saved_run import read_finished


@click.command(name="report")
@click.argument("run", type=FILE)
def command(run: Path) -> None:
    """Write the page of RUN (the folder of a finished run) and print where it is.

    Pictures and references come from the run's data. Where these are gone or have changed, the page
    does without, and does not replace one that is there.
    """
    folder = run.absolute()
    with writing(folder):
        click.echo(asyncio.run(_report(folder)))


async def _report(folder: Path) -> Path:
    # A spoilt run is told at once; where only its data are gone, it still has a page.
    read_finished(folder)
    page = folder / PAGE
    async with data_of(folder) as evaluation:
        if evaluation is not None:
            return evaluation.write_page()
        if page.exists():
            raise ConfigError(f"{page} may have them: move it away to have a page without")
        return write_page(folder)
