"""Where runs and their store lie: a run that is to be made, and one that is there already."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import click

from mmconv.cli.shared.option_values import FILE, Command, require_utf8
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError, InputError, StoreError
from mmconv.engine.run import Evaluation, Place, open_evaluation, read_run
from mmconv.report.changed_inputs import check_beside
from mmconv.run_folder.layout import PAGE, TRANSCRIPTS, WHOLE, Shard
from mmconv.store.address import require_folder


def place_options(command: Command) -> Command:
    """Add the options that say where runs and their store lie."""
    out = click.option(
        "--out", type=FILE, default=Path("runs"), show_default=True, help="Folder of the runs."
    )
    store = click.option(
        "--store", default="", help="Store: a path or a database URL.  [default: OUT/store.sqlite]"
    )
    return out(store(command))


def place(out: Path, store: str) -> Place:
    """Where the run is written.

    The folder of the runs, where the default one lies, is made. Raises `StoreError` for a store in
    a folder that is not there, `ConfigError` for a folder whose name is not UTF-8.
    """
    for path in (Path.cwd(), out.absolute()):
        require_utf8(str(path))
    require_folder(store, f"--store {store}", made=out)
    return Place(out=out, store=store)


@asynccontextmanager
async def open_new(spec: RunSpec, where: Place, part: Shard = WHOLE) -> AsyncIterator[Evaluation]:
    """A run that is to be made, refused where its models are known to be unfit for it.

    Raises as `mmconv.engine.run.open_evaluation` and `Evaluation.check_calls` do.
    """
    async with open_evaluation(spec, where, part) as evaluation:
        evaluation.check_calls()
        yield evaluation


@asynccontextmanager
async def open_made(folder: Path) -> AsyncIterator[Evaluation]:
    """A run that lies in its folder, with its data as they are today.

    Raises as `enter_run` and `mmconv.engine.run.open_evaluation` do; where the data cannot be read,
    the message also tells what of the run still can.
    """
    spec, found, shard = enter_run(folder)
    async with AsyncExitStack() as stack:
        try:
            opened = open_evaluation(spec, found, shard, create=False, folder=folder)
            evaluation = await stack.enter_async_context(opened)
        except InputError as error:
            if left := [name for name in (PAGE, TRANSCRIPTS) if (folder / name).exists()]:
                told = f"Without its data this run still has {' and '.join(left)} in {folder}."
                error.args = (f"{error}\n{told}",)
            raise
        yield evaluation


@asynccontextmanager
async def data_of(folder: Path) -> AsyncIterator[Evaluation | None]:
    """A run with the data that its page needs; None, and a line that says why, without them."""
    async with AsyncExitStack() as stack:
        evaluation = None
        try:
            spec, where, shard = enter_run(folder)
            opened = open_evaluation(spec, where, shard, create=False, folder=folder)
            found = await stack.enter_async_context(opened)
            check_beside(folder, found.manifest())
            evaluation = found
        except (InputError, StoreError) as error:
            click.echo(f"The page has no pictures and references: {error}", err=True)
        yield evaluation


def enter_run(folder: Path) -> tuple[RunSpec, Place, Shard]:
    """What a run's folder says of itself, from the folder that the run was started in.

    A run's paths are as they were typed, so the process goes there. Raises `InputError`.
    """
    spec, found, shard, started_in = read_run(folder)
    try:
        os.chdir(started_in)
    except OSError as error:
        raise ConfigError(
            f"{folder} was started in {started_in}, where its data are looked for: "
            f"{error.strerror or error}. Where they lie elsewhere by now, give its command again "
            "there: what the store holds is not asked again"
        ) from error
    return spec, found, shard
