"""`mmconv run`: run a benchmark, or say what it would cost."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from mmconv.cli.session import EXIT_FAILURES, EXIT_INTERRUPTED, evaluate, typed
from mmconv.cli.specs import open_new, place, place_options, read_spec, spec_options, writing
from mmconv.cli.tabling import print_tables
from mmconv.config import RunSpec
from mmconv.errors import ConfigError
from mmconv.evaluation import Place, Result, Shard
from mmconv.report.forecast import forecast


@click.command(name="run")
@click.argument("target", metavar="RUN.yaml|BENCHMARK")
@spec_options
@place_options
@click.option("--shard", default="1/1", metavar="I/N", help="Run only one of N equal parts.")
@click.option("--page/--no-page", default=True, help="Write report.html at the end.")
@click.option("--dry-run", is_flag=True, help="Count calls and tokens, ask nothing.")
@click.option(
    "--max-failures",
    type=click.FloatRange(0, 1),
    default=0.01,
    show_default=True,
    help="Leave with exit code 1 if a larger share of calls failed, or of verdicts was unreadable.",
)
def command(target: str, out: Path, store: str, shard: str, **chosen: Any) -> None:
    """Run a benchmark from a run file, or by name with options; running it again resumes.

    `mmconv options BENCHMARK` lists a benchmark's seats, conditions and options.

    A model is a .yaml file, a name listed by `mmconv models`, or provider/model:
    hf//checkpoints/llava, vllm//checkpoints/x, openai/gpt-4o, reference/chrf.
    """
    dry_run, page = chosen.pop("dry_run"), chosen.pop("page")
    max_failures = chosen.pop("max_failures")
    spec = read_spec(target, chosen)
    where = place(out, store)
    part = Shard.parse(shard)
    if dry_run:
        asyncio.run(_forecast(spec, where, part))
        return
    result = asyncio.run(_run(spec, where, part, page=page))
    lost = result.tally.lost / max(1, result.tally.ended)
    unread = result.shortfall.unread / max(1, result.shortfall.verdicts)
    if not result.complete:
        click.echo(f"Stopped; what was answered is kept. Resume with:\n  {typed()}", err=True)
        sys.exit(EXIT_INTERRUPTED)
    if lost > max_failures:
        click.echo(
            f"{lost:.1%} of the calls failed or were skipped (allowed: {max_failures:.1%}); "
            f"{result.folder / 'transcripts.jsonl'} says why. Run again to ask them again.",
            err=True,
        )
        sys.exit(EXIT_FAILURES)
    if unread > max_failures:
        click.echo(
            f"{unread:.1%} of the verdicts could not be read (allowed: {max_failures:.1%}); "
            f"`mmconv show {result.folder} SAMPLE` prints what the judge said.",
            err=True,
        )
        sys.exit(EXIT_FAILURES)


async def _run(spec: RunSpec, where: Place, part: Shard, *, page: bool) -> Result:
    async with open_new(spec, where, part) as evaluation:
        with writing(evaluation.folder):
            return await evaluate(evaluation, page=page)


async def _forecast(spec: RunSpec, where: Place, part: Shard) -> None:
    async with open_new(spec, where, part) as evaluation:
        plans = (plan for plan, _ in evaluation.plans())
        print_tables([forecast(spec, plans)], "table")
        try:
            evaluation.check_keys()
        except ConfigError as error:
            click.echo(f"A run would not start: {error}", err=True)
