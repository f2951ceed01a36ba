"""`mmconv annotate`: draft the annotations that a data set lacks, for a person to verify."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from judges import PromptSet
from mmconv.assemble import check_calls, check_keys
from mmconv.benchmarks.convbench.annotation import SEAT, Annotator
from mmconv.benchmarks.convbench.data import Row, Source, Survey, load_rows, survey
from mmconv.benchmarks.convbench.drafts import DraftFile, Drafting
from mmconv.cli.option_values import FILE
from mmconv.cli.progress import line, progress
from mmconv.cli.run_folders import place
from mmconv.cli.session import EXIT_FAILURES, stopped_by_interrupt, tell_stopped, typed
from mmconv.config import RunSpec, validate
from mmconv.equipment import Equipment, open_equipment
from mmconv.errors import ConfigError
from mmconv.evaluation import Place
from mmconv.tally import Halt
from mmconv.values import Sampling

SHOWN = 20


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
    prompts: Path | None
    max_tokens: int
    skip_bad_records: bool

    @property
    def source(self) -> Source:
        """The rows, as a run without judges reads them."""
        return Source(
            data=self.data,
            images=self.images,
            sheet=self.sheet,
            annotations=self.annotations,
            skip_bad=self.skip_bad_records,
            limit=self.limit,
        )


@click.command(name="annotate")
@click.argument("benchmark", type=click.Choice(["convbench"]))
@click.option("--data", type=FILE, required=True, help="The benchmark's data file.")
@click.option("--images", type=FILE, required=True, help="The folder of its images.")
@click.option("--sheet", help="The sheet of a workbook with several that fit.")
@click.option("--annotator", metavar="MODEL", required=True, help="The model that drafts.")
@click.option("--annotations", type=FILE, help="Annotations that there are already, by ID.")
@click.option("--out", type=FILE, required=True, help="The .jsonl file to add the drafts to.")
@click.option("--store", default=Place().store_url, show_default=True, help="Path or database URL.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many rows.")
@click.option("--prompts", type=FILE, help="A folder whose prompt files replace ours.")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    default=2048,
    show_default=True,
    help="The longest reply; a draft that is cut off is not written.",
)
@click.option("--skip-bad-records", is_flag=True, help="Go on without incomplete records.")
def command(**chosen: Any) -> None:
    """Draft captions, references, focus points and categories for rows that lack them.

    What a row has is kept, and only what is missing is asked. Drafts are marked "status": "draft"
    until a person changes that to "verified" in the file; a run on drafts needs --allow-drafts.
    Running again asks only what is not answered yet. A row with a failed call is not written: such
    rows are listed, and the exit code is 1. In the end the lines stand in the rows' order.
    """
    sys.exit(asyncio.run(_annotate(Chosen(**chosen))))


async def _annotate(chosen: Chosen) -> int:
    """Draft, tell what came of it, and return the exit code."""
    if chosen.out.resolve() == chosen.data.resolve():
        raise ConfigError(f"--out {chosen.out}: this is the data file, which is read; name another")
    document = {"benchmark": chosen.benchmark, "seats": {SEAT: chosen.annotator}}
    spec = validate(RunSpec, document, "command line")
    annotator = Annotator(
        prompts=PromptSet(chosen.benchmark, chosen.prompts),
        sampling=Sampling(max_tokens=chosen.max_tokens),
    )
    where = place(Place().out, chosen.store)
    async with open_equipment(spec, where.store_url) as equipment:
        found = await equipment.read_data(partial(survey, chosen.source))

        def rows() -> Iterator[Row]:
            return load_rows(chosen.source, equipment.library, found)

        check_calls(spec, (call for row in rows() for call in annotator.calls(row)))
        drafting = Drafting(annotator=annotator, file=DraftFile(chosen.out, chosen.annotations))
        complete, halt = await _draft(drafting, equipment, drafting.settle(rows()), rows())
        drafting.arrange()
    for sentence in _sentences(chosen, drafting, found):
        click.echo(sentence)
    return _exit_code(chosen, drafting, complete, halt)


async def _draft(
    drafting: Drafting, equipment: Equipment, total: int, rows: Iterable[Row]
) -> tuple[bool, Halt | None]:
    """Ask for the drafts; whether that went to its end, and why it stopped by itself, if it did."""
    started = time.monotonic()
    runner = equipment.runner(before_asking=partial(check_keys, equipment.spec, [SEAT]))
    async with progress(equipment.spec, runner.tally, total):
        with stopped_by_interrupt(runner):
            complete = await runner.run(drafting.plans(rows), drafting.finish)
    click.echo(line(equipment.spec, runner.tally, time.monotonic() - started))
    return complete, runner.tally.halt


def _sentences(chosen: Chosen, drafting: Drafting, found: Survey) -> Iterator[str]:
    """What was done, what was not, and what a person has to do now."""
    yield f"{drafting.written} drafts written to {chosen.out}"
    if drafting.copied:
        yield f"{drafting.copied} rows were taken over from {chosen.annotations} as they are"
    if drafting.present:
        yield f"{drafting.present} rows had a line in {chosen.out} and were not asked about"
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
    if found.left_out:
        yield f"{len(found.left_out)} bad records were left out (--skip-bad-records)"
    if found.unused_annotations:
        yield f"{len(found.unused_annotations)} annotations belong to no row, or are bad"
    if drafting.written:
        yield (
            "No person has checked the drafts: read them, mend them, and set status to verified. "
            f"Until then a run needs --annotations {chosen.out} --allow-drafts, and its tables say "
            "so."
        )


def _exit_code(chosen: Chosen, drafting: Drafting, complete: bool, halt: Halt | None) -> int:
    """The exit code; what stands in the way of 0 is told on standard error."""
    if drafting.faults:
        click.echo(
            f"{len(drafting.faults)} rows could not be completed; nothing was written for them:",
            err=True,
        )
        for row_id, faults in drafting.faults.items():
            click.echo(f"  ID {row_id}: {'; '.join(faults)}", err=True)
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
    return f"{len(names)} rows (ID {', '.join(names[:SHOWN])}{more})"
