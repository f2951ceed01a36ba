"""`mmconv report`: the page of a finished run, written again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import click

from mmconv.cli.file_errors import writing
from mmconv.cli.option_values import FILE
from mmconv.cli.run_folders import enter_run
from mmconv.errors import ConfigError, InputError, StoreError
from mmconv.evaluation import Evaluation, open_evaluation
from mmconv.report.changes import check_beside
from mmconv.report.output import PAGE
from mmconv.report.page import write_page
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


@asynccontextmanager
async def data_of(folder: Path) -> AsyncIterator[Evaluation | None]:
    """A run with the data that it was made from; None, and a line that says why, without them."""
    async with AsyncExitStack() as stack:
        evaluation = None
        try:
            spec, place, shard = enter_run(folder)
            opened = open_evaluation(spec, place, shard, create=False, folder=folder)
            found = await stack.enter_async_context(opened)
            check_beside(folder, found.manifest())
            evaluation = found
        except (InputError, StoreError) as error:
            click.echo(f"The page has no pictures and references: {error}", err=True)
        yield evaluation
