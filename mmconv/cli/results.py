"""`mmconv report`, `export` and `merge`: what is made of finished runs and their caches."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path

import click

from mmconv.cli.shared.basics import FILE, writing
from mmconv.cli.shared.options import AUDIT
from mmconv.cli.shared.run_folders import data_of, open_existing
from mmconv.core.errors import ConfigError, StoreError
from mmconv.report.changed_inputs import check_exported
from mmconv.report.exports import TOOLS
from mmconv.report.page import write_page
from mmconv.run_folder.layout import PAGE
from mmconv.run_folder.saved_run import read_finished
from mmconv.store.connections import require_folder, without_password
from mmconv.store.merging import merge


@click.command(name="report")
@click.argument("run", type=FILE)
@AUDIT
def report_command(run: Path, audit: Path | None) -> None:
    """Write the page of RUN (the folder of a finished run) and print its path.

    Images and references come from the run's data. If the data are gone or have changed, a new
    page does without them, and an existing page is not replaced. With --audit the run is scored
    again first.
    """
    folder = run.absolute()
    if audit is not None:
        from mmconv.cli.evaluating import score_run

        asyncio.run(score_run(folder, audit.absolute()))
    with writing(folder):
        click.echo(asyncio.run(_report(folder)))


async def _report(folder: Path) -> Path:
    read_finished(folder)  # a damaged run is refused; one without its data still has a page
    page = folder / PAGE
    async with data_of(folder) as evaluation:
        if evaluation is not None:
            return evaluation.write_page()
        if page.exists():
            raise ConfigError(
                f"{page} exists and may contain them: move it away to write a page without"
            )
        return write_page(folder)


@click.command(name="export")
@click.argument("run", type=FILE)
@click.option("--to", "name", type=click.Choice(list(TOOLS)), required=True, help="The tool.")
@click.option(
    "--out", type=FILE, required=True, help="The folder to write into; for inspect the .eval file."
)
def export_command(run: Path, name: str, out: Path) -> None:
    """Write RUN (a run's folder) for another tool. No request is sent.

    Failed calls and missing scores are marked as each format can. A log for Inspect needs the run's
    data and cache and contains the images; the others are made of the run's folder alone. Files of
    lmms-eval, VLMEvalKit and Inspect can be read again: `--candidate replay/FILE`.
    """
    tool = TOOLS[name]
    if tool.package and find_spec(tool.package) is None:
        missing = tool.package.replace("_", "-")
        raise ConfigError(f"--to {name} needs a package: pip install {missing}, and run again")
    if tool.write is None:
        samples = asyncio.run(_write_inspect(run.absolute(), out.absolute()))
        click.echo(f"{samples} samples are in {out}")
        out = out.parent
    else:
        for path in tool.write(read_finished(run.absolute()), out):
            click.echo(path)
    click.echo(tool.then.format(out=out))


async def _write_inspect(folder: Path, out: Path) -> int:
    from mmconv.report.exports.inspect_log import Log

    if out.suffix != ".eval":
        raise ConfigError(f"--out {out}: the name of an Inspect log must end with .eval")
    run = read_finished(folder)
    async with open_existing(folder) as evaluation:
        log = Log(run, evaluation.benchmark, evaluation.resources.library)
        runner = evaluation.runner(offline=True)
        await evaluation.carry_out(runner, log.add)
        store = evaluation.place.absolute_store
        if not runner.stats.replies:
            raise StoreError(f"{store} has no reply of {evaluation.run_id}")
        check_exported(evaluation.folder, evaluation.manifest(), runner.stats, store)
    await asyncio.to_thread(log.write, out)
    return len(log.samples)


@click.command(name="merge")
@click.argument("target", metavar="INTO")
@click.argument("sources", nargs=-1, required=True, metavar="FROM...")
def merge_command(target: str, sources: tuple[str, ...]) -> None:
    """Copy all replies of the caches FROM into the cache INTO. Replies of INTO are never replaced.

    Caches are paths or database URLs. Afterwards run the whole benchmark with --store INTO: it
    finds every reply and writes the tables.
    """
    require_folder(target, target)
    report = merge(target, sources)
    click.echo(f"{report.added} replies added, {report.present} were there already")
    if report.changed:
        message = f"{report.changed} replies were changed after they were written: not copied"
        click.echo(message, err=True)
    if report.conflicts:
        click.echo(
            f"{report.conflicts} keys have different texts; those of {without_password(target)} "
            "were kept",
            err=True,
        )
