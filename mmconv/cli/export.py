"""`mmconv export`: a run as a log of another tool."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mmconv.cli.shared.option_values import FILE
from mmconv.cli.shared.run_folders import open_made
from mmconv.core.errors import ConfigError, StoreError
from mmconv.core.plans import Finished
from mmconv.engine.run import Evaluation
from mmconv.report.changed_inputs import check_exported
from mmconv.run_folder.layout import MANIFEST
from mmconv.run_folder.saved_run import read_finished

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample

SUFFIX = ".eval"


@click.command(name="export")
@click.argument("run", type=FILE)
@click.option("--to", "tool", type=click.Choice(["inspect"]), required=True, help="Whose log.")
@click.option("--out", type=FILE, required=True, help="The file to write; ends with .eval.")
def command(run: Path, tool: str, out: Path) -> None:
    """Write RUN (a run's folder) as a log that `inspect view` opens.

    A sample under a condition is a sample there, a trial an epoch; every call with its prompt is in
    the transcript, pictures are in the file. Nothing is asked: replies come from the store. Needs
    the package inspect-ai (pip install 'mmconv[inspect]').
    """
    if find_spec("inspect_ai") is None:
        raise ConfigError("logs of Inspect need its package: pip install inspect-ai, and run again")
    if out.suffix != SUFFIX:
        raise ConfigError(f"--out {out}: a log of Inspect is a file that ends with {SUFFIX}")
    target = out.absolute()
    samples = asyncio.run(_export(run.absolute(), target))
    click.echo(f"{samples} samples are in {out}; `inspect view --log-dir {out.parent}` shows them")


async def _export(folder: Path, out: Path) -> int:
    from mmconv.report.inspect_export.log import Heading, write_log

    run = read_finished(folder)
    async with open_made(folder) as evaluation:
        heading = Heading(
            run=folder.name,
            spec=evaluation.spec,
            manifest=run.manifest,
            written=datetime.fromtimestamp((folder / MANIFEST).stat().st_mtime, tz=UTC),
            # how long its last session took is not told of a run that was only scored
            seconds=0.0 if run.summary is None else run.summary.seconds,
        )
        samples = await _samples(evaluation, heading.written)
    out.parent.mkdir(parents=True, exist_ok=True)
    await asyncio.to_thread(write_log, out, heading, samples)
    return len(samples)


async def _samples(evaluation: Evaluation, written: datetime) -> list[EvalSample]:
    """All samples of the run in its order.

    Raises `StoreError` where the store holds no reply, `DataError` as `check_exported` does.
    """
    from mmconv.report.inspect_export.log import data_uris
    from mmconv.report.inspect_export.sample import Setting, eval_sample

    setting = Setting(
        benchmark=evaluation.benchmark,
        labels={seat: model.label for seat, model in evaluation.spec.seats.items()},
        pictures=data_uris(evaluation.equipment.library),
        written=written,
    )
    made: dict[int, EvalSample] = {}

    def finish(finished: Finished, sample: Any) -> None:
        made[finished.plan.order] = eval_sample(setting, finished, sample)

    runner = evaluation.runner(offline=True)
    await evaluation.carry_out(runner, finish)
    store = evaluation.place.absolute_store
    if not runner.tally.replies:
        raise StoreError(f"{store} holds no reply of {evaluation.run_id}")
    check_exported(evaluation.folder, evaluation.manifest(), runner.tally.unasked, store)
    return [made[order] for order in sorted(made)]
