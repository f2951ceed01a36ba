"""The folders of runs and their cache: new runs, and runs that exist."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import click

from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError, InputError, StoreError
from mmconv.engine.run import Evaluation, Place, open_evaluation, open_saved, read_run
from mmconv.report.changed_inputs import check_beside
from mmconv.run_folder.layout import PAGE, TRANSCRIPTS, WHOLE, Shard
from mmconv.store.connections import require_folder


def place(out: Path, store: str) -> Place:
    """Where a run is written, created if needed; `StoreError` for a cache in no folder."""
    require_folder(store, f"--store {store}", made=out)
    return Place(out=out, store=store)


@asynccontextmanager
async def open_new(spec: RunSpec, where: Place, part: Shard = WHOLE) -> AsyncIterator[Evaluation]:
    """A run that may not exist yet; raises as `open_evaluation` and `Evaluation.check_calls` do."""
    async with open_evaluation(spec, where, part) as evaluation:
        evaluation.check_calls()
        yield evaluation


@asynccontextmanager
async def open_existing(folder: Path) -> AsyncIterator[Evaluation]:
    """The run in a folder, with its data as they are today.

    Raises as `enter_run` and `mmconv.engine.run.open_saved` do; if the data cannot be read,
    the message also names the files of the run that do not need them.
    """
    spec, where, shard = enter_run(folder)
    async with AsyncExitStack() as stack:
        try:
            opened = open_saved(folder, spec, where, shard)
            evaluation = await stack.enter_async_context(opened)
        except InputError as error:
            if files := [name for name in (PAGE, TRANSCRIPTS) if (folder / name).exists()]:
                hint = f"Without its data this run still has {' and '.join(files)} in {folder}."
                error.args = (f"{error}\n{hint}",)
            raise
        yield evaluation


@asynccontextmanager
async def data_of(folder: Path) -> AsyncIterator[Evaluation | None]:
    """A run with the data that its page needs; None, after a message, if they are not there."""
    async with AsyncExitStack() as stack:
        evaluation = None
        try:
            spec, where, shard = enter_run(folder)
            opened = open_saved(folder, spec, where, shard)
            run = await stack.enter_async_context(opened)
            check_beside(folder, run.manifest())
            evaluation = run
        except (InputError, StoreError) as error:
            click.echo(f"The page has no images and references: {error}", err=True)
        yield evaluation


def enter_run(folder: Path) -> tuple[RunSpec, Place, Shard]:
    """Read a run's folder and change into that in which it was started; raises `InputError`."""
    spec, where, shard, started_in = read_run(folder)
    try:
        os.chdir(started_in)
    except OSError as error:
        raise ConfigError(
            f"{folder} was started in {started_in}, where its data should be: "
            f"{error.strerror or error}. If the data have moved, run the same command there: "
            "cached replies are not requested again"
        ) from error
    return spec, where, shard
