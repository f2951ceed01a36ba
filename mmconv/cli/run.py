"""`mmconv run`: run a benchmark, or say what it would cost."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from mmconv.cli.shared.costs import Budget, cost_options, print_forecast
from mmconv.cli.shared.run_folders import open_new, place, place_options
from mmconv.cli.shared.run_options import NAMED, read_spec, spec_options
from mmconv.cli.shared.session import MAX_FAILURES, exit_code, run_new
from mmconv.core.config import RunSpec
from mmconv.engine.run import Place
from mmconv.run_folder.layout import Shard


@click.command(name="run", epilog=NAMED)
@click.argument("target", metavar="RUN.yaml|BENCHMARK|MODULE:CLASS")
@spec_options
@place_options
@click.option("--shard", default="1/1", metavar="I/N", help="Run only one of N equal parts.")
@click.option("--page/--no-page", default=True, help="Write report.html at the end.")
@cost_options
@click.option(
    "--max-failures",
    type=click.FloatRange(0, 1),
    default=MAX_FAILURES,
    show_default=True,
    help="Leave with exit code 1 if a larger share of calls failed, or of verdicts is not whole.",
)
def command(target: str, out: Path, store: str, shard: str, **chosen: Any) -> None:
    """Run a benchmark from a run file, or by name with options; running it again resumes.

    `mmconv options BENCHMARK` lists a benchmark's seats, conditions and options.

    A model is a .yaml file, a name listed by `mmconv models`, or provider/model:
    hf//checkpoints/llava, vllm//checkpoints/x, openai/gpt-4o, reference/chrf.
    """
    dry_run, page = chosen.pop("dry_run"), chosen.pop("page")
    max_failures, max_cost = chosen.pop("max_failures"), chosen.pop("max_cost")
    spec = read_spec(target, chosen)
    where = place(out, store)
    part = Shard.parse(shard)
    budget = None if max_cost is None else Budget(spec, max_cost)
    if dry_run:
        asyncio.run(_forecast(spec, where, part))
        return
    result = asyncio.run(run_new(spec, where, part, page=page, budget=budget))
    sys.exit(exit_code(result, store, max_failures))


async def _forecast(spec: RunSpec, where: Place, part: Shard) -> None:
    async with open_new(spec, where, part) as evaluation:
        plans = (plan for plan, _ in evaluation.plans())
        runner = evaluation.runner(offline=True)
        await print_forecast(spec, runner, plans, evaluation.check_keys)
