"""`mmconv annotate`: draft the annotations that a data set lacks, for a person to verify."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from judges import PromptSet
from mmconv.benchmarks.choosing import choose
from mmconv.benchmarks.convbench.annotation import SEAT, Annotator
from mmconv.benchmarks.convbench.data import Row, Source, Survey, load_rows, source_keys, survey
from mmconv.benchmarks.convbench.drafts import DraftFile, Drafting, held
from mmconv.cli.shared.costs import Budget, cost_options, print_forecast
from mmconv.cli.shared.option_values import FILE, comma_list
from mmconv.cli.shared.progress import counted, line, progress
from mmconv.cli.shared.run_folders import place
from mmconv.cli.shared.run_options import choice_options
from mmconv.cli.shared.session import EXIT_FAILURES, stopped_by_interrupt, tell_stopped, typed
from mmconv.core.config import RunSpec, override, validate
from mmconv.core.errors import ConfigError
from mmconv.core.run_stats import Halt
from mmconv.core.types import Sampling
from mmconv.engine.resources import Equipment, open_equipment
from mmconv.engine.run import Place
from mmconv.engine.setup import check_calls, check_keys

SHOWN = 20
"""How many rows are named at most."""

LONGEST = 2048
"""How many tokens a reply has at most, where nothing else is said."""

SETTABLE = (f"seats.{SEAT}.", f"sampling.{SEAT}.", "seed=")
"""How the fields begin that --set takes here: the others of a run file decide nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What was asked for on the command line."""

    benchmark: str
    data: Path
    images: Path
    sheet: str | None
    annotator: str
    annotations: Path | None
    out: Path
    store: str
    limit: int | None
    shuffle: int | None
    samples: str | None
    prompts: Path | None
    max_tokens: int | None
    skip_bad_records: bool
    overrides: tuple[str, ...]
    dry_run: bool
    max_cost: float | None

    @property
    def spec(self) -> RunSpec:
        """The annotator as a run's only seat; raises `ConfigError` for what cannot be set."""
        for item in self.overrides:
            if not item.startswith(SETTABLE):
                raise ConfigError(
                    f"--set {item!r}: what can be set here is seats.{SEAT}.FIELD, "
                    f"sampling.{SEAT}.FIELD and seed"
                )
        document: dict[str, Any] = {
            "benchmark": self.benchmark,
            "seats": {SEAT: self.annotator},
            "limit": self.limit,
            "shuffle": self.shuffle,
        }
        if self.samples is not None:
            document["samples"] = comma_list(self.samples, "--samples")
        if self.max_tokens is not None:
            document["sampling"] = {SEAT: {"max_tokens": self.max_tokens}}
        return validate(RunSpec, override(document, self.overrides), "command line")

    def source(self) -> Source:
        """The rows, as a run without judges reads them."""
        everything = Source(
            data=self.data,
            images=self.images,
            sheet=self.sheet,
            annotations=self.annotations,
            skip_bad=self.skip_bad_records,
        )
        return replace(everything, choice=choose(self.spec, source_keys(everything)))

    def file(self) -> DraftFile:
        """The file of drafts as it is now."""
        return DraftFile(self.out, self.annotations)


@click.command(name="annotate")
@click.argument("benchmark", type=click.Choice(["convbench"]))
@click.option("--data", type=FILE, required=True, help="The benchmark's data file.")
@click.option("--images", type=FILE, required=True, help="The folder of its images.")
@click.option("--sheet", help="The sheet of a workbook with several that fit.")
@click.option("--annotator", metavar="MODEL", required=True, help="The model that drafts.")
@click.option("--annotations", type=FILE, help="Annotations that there are already, by ID.")
@click.option("--out", type=FILE, required=True, help="The .jsonl file to add the drafts to.")
@click.option("--store", default=Place().store_url, show_default=True, help="Path or database URL.")
@choice_options
@click.option("--prompts", type=FILE, help="A folder whose prompt files replace ours.")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    help="The longest reply; a draft that is cut off is not written.  "
    f"[default: the model file's, or {LONGEST}]",
)
@click.option("--skip-bad-records", is_flag=True, help="Go on without incomplete records.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="FIELD=VALUE",
    help=f"Set a field of the model or of its sampling, as in sampling.{SEAT}.temperature=0.7.",
)
@cost_options
def command(**chosen: Any) -> None:
    """Draft captions, references, focus points and categories for rows that lack them.

    What a row has is kept, and only what is missing is asked. Drafts are marked "status": "draft"
    until a person changes that to "verified" in the file; a run on drafts needs --allow-drafts.
    Running again asks only what is not answered yet. A row with a failed call is not written: such
    rows are listed, and the exit code is 1. In the end the lines stand in the rows' order.
    """
    sys.exit(asyncio.run(_annotate(Chosen(**chosen))))


async def _annotate(chosen: Chosen) -> int:
    """Draft, or tell what that would cost, and return the exit code."""
    if chosen.out.resolve() == chosen.data.resolve():
        raise ConfigError(f"--out {chosen.out}: this is the data file, which is read; name another")
    spec = chosen.spec
    budget = None if chosen.max_cost is None else Budget(spec, chosen.max_cost)
    annotator = Annotator(
        prompts=PromptSet(chosen.benchmark, chosen.prompts),
        sampling=Sampling(max_tokens=LONGEST),
    )
    where = place(Place().out, chosen.store)
    async with open_equipment(spec, where.store_url) as equipment:
        source = chosen.source()
        found = await equipment.read_data(partial(survey, source))

        def rows() -> Iterator[Row]:
            return load_rows(source, equipment.library, found)

        check_calls(spec, (call for row in rows() for call in annotator.calls(row)))
        if chosen.dry_run:
            drafting = Drafting(annotator=annotator, file=chosen.file())
            plans, runner = drafting.plans(rows()), equipment.runner(offline=True)
            await print_forecast(spec, runner, plans, partial(check_keys, spec, [SEAT]))
            return 0
        with held(chosen.out):
            drafting = Drafting(annotator=annotator, file=chosen.file())
            complete, halt = await _draft(drafting, equipment, rows, budget)
    for sentence in _sentences(chosen, drafting, found):
        click.echo(sentence)
    return _exit_code(chosen, drafting, complete, halt)


async def _draft(
    drafting: Drafting,
    equipment: Equipment,
    rows: Callable[[], Iterator[Row]],
    budget: Budget | None,
) -> tuple[bool, Halt | None]:
    """Ask for the drafts; whether that went to its end, and why it stopped by itself, if it did."""
    started = time.monotonic()
    drafting.settle(rows())
    runner = equipment.runner(before_asking=partial(check_keys, equipment.spec, [SEAT]))
    if budget is not None:
        runner.enough = budget.spent
    async with progress(equipment.spec, runner.tally, drafting.lacking):
        with stopped_by_interrupt(runner):
            complete = await runner.run(drafting.plans(rows()), drafting.finish)
    if complete and budget is not None and (spent := budget.spent(runner.tally)):
        click.echo(spent, err=True)
    click.echo(line(equipment.spec, runner.tally, time.monotonic() - started))
    drafting.arrange()
    return complete, runner.tally.halt


def _sentences(chosen: Chosen, drafting: Drafting, found: Survey) -> Iterator[str]:
    """What was done, what was not, and what a person has to do now."""
    if drafting.lacking or drafting.copied or drafting.present:
        yield f"{counted(drafting.written, 'draft')} written to {chosen.out}"
    else:
        whole = counted(drafting.rows, "row")
        yield f"Nothing is lacking: {whole} with all columns. Nothing was written to {chosen.out}."
    if drafting.copied:
        yield f"{counted(drafting.copied, 'row')} taken over as they are from {chosen.annotations}"
    if drafting.present:
        yield f"{counted(drafting.present, 'row')} with a line in {chosen.out} not asked about"
    if drafting.lacks:
        yield (
            f"Something is missing in the lines of {_shown(drafting.lacks)}. Lines are never "
            f"changed; to complete them, give --annotations {chosen.out} and another --out."
        )
    if drafting.unreadable:
        yield (
            f"Categories are left empty in {_shown(drafting.unreadable)}: "
            "neither of two replies could be read."
        )
    if found.intake.bad:
        yield f"{counted(len(found.intake.bad), 'bad record')} left out (--skip-bad-records)"
    if found.unused_annotations:
        unused = counted(len(found.unused_annotations), "annotation")
        yield f"{unused} not used: bad, or of no row"
    if drafting.written:
        yield (
            "No person has checked the drafts: read them, mend them, and set status to verified. "
            f"Until then a run needs --annotations {chosen.out} --allow-drafts, and its tables say "
            "so."
        )


def _exit_code(chosen: Chosen, drafting: Drafting, complete: bool, halt: Halt | None) -> int:
    """The exit code; what stands in the way of 0 is told on standard error."""
    if drafting.faults:
        failed = counted(len(drafting.faults), "row")
        click.echo(f"Nothing was written for {failed} that could not be completed:", err=True)
        alike: dict[tuple[str, ...], list[str]] = {}
        for row_id, faults in drafting.faults.items():
            alike.setdefault(faults, []).append(row_id)
        for faults, rows in alike.items():
            click.echo(f"  {_shown(rows)}: {'; '.join(faults)}", err=True)
    if not complete:
        return tell_stopped(chosen.store, halt)
    if drafting.faults:
        click.echo(
            f"What was answered is kept. Ask for the rest with:\n  {typed(chosen.store)}", err=True
        )
        return EXIT_FAILURES
    return 0


def _shown(rows: Iterable[str]) -> str:
    names = list(rows)
    more = "" if len(names) <= SHOWN else f" and {len(names) - SHOWN} more"
    return f"{counted(len(names), 'row')} (ID {', '.join(names[:SHOWN])}{more})"
