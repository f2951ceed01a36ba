"""`mmconv score`: parse and aggregate a run again, asking nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from mmconv.cli.shared.file_errors import writing
from mmconv.cli.shared.option_values import FILE
from mmconv.cli.shared.run_folders import open_made
from mmconv.cli.shared.session import evaluate


@click.command(name="score")
@click.argument("run", type=FILE)
def command(run: Path) -> None:
    """Score RUN (a run's folder) again from the store, with today's parsers and tables."""
    asyncio.run(_score(run.absolute()))


async def _score(folder: Path) -> None:
    async with open_made(folder) as evaluation:
        with writing(folder):
            await evaluate(evaluation, offline=True)
