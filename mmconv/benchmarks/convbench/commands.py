"""ConvBench's commands: draft annotations with a model, and review them."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from images import ImageStore
from judges import PromptSet
from mmconv.benchmarks.base.dataset import Dataset
from mmconv.benchmarks.base.review import held
from mmconv.benchmarks.convbench.annotation import ROLE, Annotator
from mmconv.benchmarks.convbench.data import Row, load_rows
from mmconv.benchmarks.convbench.drafts import Drafts, draft_file
from mmconv.benchmarks.convbench.options import ConvBenchOptions
from mmconv.benchmarks.data_files.records import name_few
from mmconv.cli.shared.basics import FILE, comma_list, writing_option
from mmconv.cli.shared.costs import COST_OPTIONS, Budget, print_forecast
from mmconv.cli.shared.options import SAMPLE_OPTIONS, with_options
from mmconv.cli.shared.progress import counted, line, progress
from mmconv.cli.shared.run_folders import place
from mmconv.cli.shared.session import (
    EXIT_FAILURES,
    stopped_by_interrupt,
    tell_stopped,
    typed,
)
from mmconv.core.config import RunSpec, override
from mmconv.core.documents import validate
from mmconv.core.errors import ConfigError
from mmconv.core.run_stats import StopReason
from mmconv.core.types import Sampling
from mmconv.engine.driver import Runner
from mmconv.engine.resources import open_models, open_resources
from mmconv.engine.run import Place
from mmconv.engine.setup import check_calls, check_keys
from mmconv.service.command import PORT_OPTION, RATER_OPTION, serve_review

MAX_TOKENS = 2048
"""The longest reply by default."""

SETTABLE = (f"models.{ROLE}.", f"sampling.{ROLE}.", "seed=")
"""The fields that --set takes here; the others of a run file have no effect."""


@click.command(name="annotate")
@click.argument("benchmark", type=click.Choice(["convbench"]))
@click.option("--data", type=FILE, required=True, help="The dataset's file.")
@click.option("--images", type=FILE, help="The folder of its images.")
@click.option("--sheet", help="The sheet, if several of a workbook have the columns.")
@click.option("--annotator", metavar="MODEL", required=True, help="The model that drafts.")
@click.option("--annotations", type=FILE, help="Existing annotations, joined by ID.")
@click.option("--out", type=FILE, required=True, help="The .jsonl file to add the drafts to.")
@click.option(
    "--store",
    default=Place().store_url,
    show_default=True,
    help="Cache of replies: a path or a database URL.",
)
@with_options(*SAMPLE_OPTIONS)
@click.option("--prompts", type=FILE, help="Folder with prompt files that replace mmconv's.")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    help="The longest reply; a draft that is cut off is not written.  "
    f"[default: the model file's, or {MAX_TOKENS}]",
)
@click.option("--skip-bad-records", is_flag=True, help="Continue without incomplete records.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="FIELD=VALUE",
    help=f"Set a field of the model or its sampling, such as sampling.{ROLE}.temperature=0.7.",
)
@with_options(*COST_OPTIONS)
def annotate_command(**values: Any) -> None:
    """Draft captions, references, focus points and categories for rows without them.

    Existing columns are kept, and only missing ones are requested. Drafts are marked "status":
    "draft" until a person changes that to "verified" in the file; a run on drafts needs
    --allow-drafts.

    The same command resumes. A row with a failed call is not written: such rows are listed, and
    the exit code is 1. At the end the lines are sorted in the order of the rows.
    """
    sys.exit(asyncio.run(_annotate(SimpleNamespace(**values))))


@click.command(name="review")
@click.argument("file", type=FILE)
@click.option("--data", type=FILE, required=True, help="The dataset's file.")
@click.option("--images", type=FILE, help="The folder of its images.")
@click.option("--sheet", help="The sheet, if several of a workbook have the columns.")
@RATER_OPTION
@PORT_OPTION
def review_command(
    file: Path,
    data: Path,
    images: Path | None,
    sheet: str | None,
    rater: str | None,
    port: int | None,
) -> None:
    """Correct and verify the drafts in FILE in a web page, until Ctrl-C.

    FILE is what `mmconv annotate` wrote. The page shows the image and the instructions next to each
    draft. Accepting a draft sets its status to verified, with your name and the time; a run refuses
    rejected ones. Each change is in the file at once.
    """
    library = ImageStore()
    options = ConvBenchOptions(data=data, images=images, sheet=sheet, skip_bad_records=True)
    rows = load_rows(options, RunSpec(benchmark="convbench", models={}), library).samples
    drafts, unknown = draft_file(file, rows)
    if unknown:
        click.echo(
            f"Not shown, since the data have no row with an image for them: ID {name_few(unknown)}",
            err=True,
        )
    statuses = [draft.status for draft in drafts.read().values()]
    click.echo(f"{counted(len(statuses), 'draft')}, {statuses.count('verified')} verified")
    serve_review(drafts, library, rater, port)


def _spec(args: SimpleNamespace) -> RunSpec:
    """The annotator as a run's only model role; raises `ConfigError` for fields without effect."""
    for item in args.overrides:
        if not item.startswith(SETTABLE):
            raise ConfigError(
                f"--set {item!r}: annotate takes only models.{ROLE}.FIELD, sampling.{ROLE}.FIELD "
                "and seed"
            )
    document: dict[str, Any] = {
        "benchmark": args.benchmark,
        "models": {ROLE: args.annotator},
        "limit": args.limit,
        "shuffle": args.shuffle,
    }
    if args.sample_id is not None:
        document["samples"] = comma_list(args.sample_id, "--sample-id")
    if args.max_tokens is not None:
        document["sampling"] = {ROLE: {"max_tokens": args.max_tokens}}
    return validate(RunSpec, override(document, args.overrides), "command line")


async def _annotate(args: SimpleNamespace) -> int:
    if args.out.resolve() == args.data.resolve():
        raise ConfigError(f"--out {args.out}: this is the data file; name another file")
    spec = _spec(args)
    budget = None if args.max_cost is None else Budget(args.max_cost, spec)
    annotator = Annotator(
        prompts=PromptSet(args.benchmark, args.prompts), sampling=Sampling(max_tokens=MAX_TOKENS)
    )
    where = place(Place().out, args.store)
    async with (
        open_resources(where.store_url) as resources,
        open_models(spec, resources) as models,
    ):
        options = ConvBenchOptions(
            data=args.data,
            images=args.images,
            sheet=args.sheet,
            annotations=args.annotations,
            skip_bad_records=args.skip_bad_records,
        )
        dataset = await resources.read_data(partial(load_rows, options, spec))
        rows = dataset.samples
        check_calls(spec, (call for row in rows for call in annotator.calls(row)))
        if args.dry_run:
            plans = Drafts(args.out, args.annotations, rows).plans(annotator)
            runner = Runner(models, resources.store, offline=True)
            await print_forecast(spec, runner, plans, partial(check_keys, spec, [ROLE]))
            return 0
        with writing_option("--out", args.out), held(args.out):
            drafts = Drafts(args.out, args.annotations, rows)
            check = partial(check_keys, spec, [ROLE])
            runner = Runner(models, resources.store, before_asking=check)
            complete, stop_reason = await _draft(drafts, annotator, spec, runner, budget)
    for sentence in _summary(args, drafts, dataset):
        click.echo(sentence)
    return _exit_code(args.store, drafts, complete, stop_reason)


async def _draft(
    drafts: Drafts, annotator: Annotator, spec: RunSpec, runner: Runner, budget: Budget | None
) -> tuple[bool, StopReason | None]:
    """Request the drafts; returns whether all were requested, and why the run stopped by itself."""
    started = time.monotonic()
    drafts.copy_whole()
    if budget is not None:
        budget.watch(spec, runner)
    async with progress(spec, runner.stats, len(drafts.missing)):
        with stopped_by_interrupt(runner.stop):
            complete = await runner.run(drafts.plans(annotator), drafts.finish)
    if complete and budget is not None and (spent := budget.spent()):
        click.echo(spent, err=True)
    click.echo(line(spec, runner.stats, time.monotonic() - started))
    drafts.sort()
    return complete, runner.stats.stop_reason


def _summary(args: SimpleNamespace, drafts: Drafts, dataset: Dataset[Row]) -> Iterator[str]:
    if drafts.missing or drafts.copied or drafts.present:
        yield f"{counted(drafts.written, 'draft')} written to {args.out}"
    else:
        rows = counted(drafts.rows, "row")
        yield f"Nothing is missing: {rows} with all columns. Nothing was written to {args.out}."
    if drafts.copied:
        yield f"{counted(drafts.copied, 'row')} copied unchanged from {args.annotations}"
    if drafts.present:
        yield f"{counted(drafts.present, 'row')} with a line in {args.out} not requested"
    if drafts.lacks:
        yield (
            f"Something is missing in the lines of {_listed(drafts.lacks)}. Lines are never "
            f"changed; to complete them, give --annotations {args.out} and another --out."
        )
    if drafts.unreadable:
        yield (
            f"Categories are empty in {_listed(drafts.unreadable)}: neither of two replies could "
            "be read."
        )
    if dataset.bad:
        yield f"{counted(len(dataset.bad), 'bad record')} left out (--skip-bad-records)"
    if dataset.other_problems:
        unused = counted(len(dataset.other_problems), "annotation or column")
        yield f"{unused} not used, or bad"
    if drafts.written:
        options = {"--data": args.data, "--images": args.images, "--sheet": args.sheet}
        named = [str(word) for option in options.items() if option[1] for word in option]
        review = shlex.join(["mmconv", "review", str(args.out), *named])
        yield (
            f"No person has checked the drafts. Correct and verify them: {review}\n"
            f"Until then a run needs --annotations {args.out} --allow-drafts, and its tables say "
            "so."
        )


def _exit_code(store: str, drafts: Drafts, complete: bool, stop_reason: StopReason | None) -> int:
    if drafts.faults:
        failed = counted(len(drafts.faults), "row")
        click.echo(f"Nothing was written for {failed} that could not be completed:", err=True)
        alike: dict[tuple[str, ...], list[str]] = {}
        for row_id, faults in drafts.faults.items():
            alike.setdefault(faults, []).append(row_id)
        for faults, rows in alike.items():
            click.echo(f"  {_listed(rows)}: {'; '.join(faults)}", err=True)
    if not complete:
        return tell_stopped(store, stop_reason)
    if drafts.faults:
        click.echo(f"Replies are cached. Request the rest with:\n  {typed(store)}", err=True)
        return EXIT_FAILURES
    return 0


def _listed(rows: Iterable[str]) -> str:
    names = list(rows)
    return f"{counted(len(names), 'row')} (ID {name_few(names)})"
