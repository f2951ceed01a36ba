"""`mmconv run`, `check` and `score`: the commands that evaluate."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from mmconv.cli.shared.basics import FILE, writing
from mmconv.cli.shared.costs import COST_OPTIONS, Budget
from mmconv.cli.shared.options import (
    AUDIT,
    BENCHMARKS,
    PLACE_OPTIONS,
    RAY,
    SPEC_OPTIONS,
    TARGET,
    BenchmarkCommand,
    read_spec,
    with_options,
)
from mmconv.cli.shared.run_folders import open_existing, open_new, place
from mmconv.cli.shared.session import FAILURES_OPTION, evaluate, exit_code, forecast_new, run_new
from mmconv.cli.shared.table_output import print_tables
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.protocols import ImageSource
from mmconv.engine.run import Place
from mmconv.engine.setup import about_models, check_ready, is_served
from mmconv.run_folder.layout import Shard
from model_zoo.providers import provider_of


@click.command(name="run", cls=BenchmarkCommand, epilog=BENCHMARKS)
@TARGET
@with_options(*SPEC_OPTIONS, *PLACE_OPTIONS)
@click.option("--shard", default="1/1", metavar="I/N", help="Run only part I of N equal parts.")
@RAY
@AUDIT
@click.option("--page/--no-page", default=True, help="Write report.html at the end.")
@with_options(*COST_OPTIONS)
@FAILURES_OPTION
def run_command(target: str, out: Path, store: str, shard: str, **values: Any) -> None:
    """Run a benchmark from a run file, or by name with options. The same command resumes it.

    `mmconv options BENCHMARK` lists a benchmark's model roles, conditions and options.

    A MODEL is a .yaml file, a name listed by `mmconv models`, or provider/model:
    hf//checkpoints/llava, vllm//checkpoints/x, openai/gpt-4o, reference/chrf. With --candidate
    reference, the human references of the data are evaluated as if a model had written them.
    """
    spec, where, part = read_spec(target, values), place(out, store), Shard.parse(shard)
    budget = None if values["max_cost"] is None else Budget(values["max_cost"], spec)
    if values["dry_run"]:
        asyncio.run(forecast_new(spec, where, part))
        return
    result = asyncio.run(
        run_new(spec, where, part, page=values["page"], budget=budget, audit=values["audit"])
    )
    sys.exit(exit_code(result, store, values["max_failures"]))


@click.command(name="score")
@click.argument("run", type=FILE)
@AUDIT
def score_command(run: Path, audit: Path | None) -> None:
    """Score RUN (a run's folder) again from the cache, with the current parsers and tables.

    No request is sent.
    """
    asyncio.run(score_run(run.absolute(), audit and audit.absolute()))


async def score_run(folder: Path, audit: Path | None) -> None:
    """Score the run in the folder again, corrected by an audit if one is named."""
    async with open_existing(folder) as evaluation:
        with writing(folder):
            if audit is not None:
                evaluation.cite(audit)
            await evaluate(evaluation, offline=True)


@click.command(name="check", cls=BenchmarkCommand, epilog=BENCHMARKS)
@TARGET
@with_options(*SPEC_OPTIONS, *PLACE_OPTIONS)
@click.option(
    "--models",
    is_flag=True,
    help="Open the configuration, tokenizer and processor of checkpoints, without their weights.",
)
@click.option("--servers", is_flag=True, help="Check that the servers serve the models.")
def check_command(
    target: str, *, out: Path, store: str, models: bool, servers: bool, **values: Any
) -> None:
    """Check options, models, keys, prompts, data and images, without a call to a model."""
    spec = read_spec(target, values)
    asyncio.run(_check(spec, place(out, store), models=models, servers=servers))


async def _check(spec: RunSpec, where: Place, *, models: bool, servers: bool) -> None:
    async with open_new(spec, where) as evaluation:
        conditions = ", ".join(evaluation.benchmark.conditions)
        click.echo(f"{evaluation.samples} samples under {conditions}: data in order")
        if (table := evaluation.benchmark.data_table()) is not None:
            print_tables([table], "table")
        facts = about_models(spec)
        for role, model in spec.models.items():
            click.echo(f"  {role}: {model.label} ({model.provider})")
            for name, fact in facts.get(role, {}).items():
                click.echo(f"    {name}: {fact}")
        for note in evaluation.notes:
            click.echo(f"  note: {note}")
        others = "" if models else ", tokenizers and processors (--models)"
        others += "" if servers else ", servers (--servers)"
        click.echo(f"Not checked: weights{others}; `mmconv chat MODEL` tries a model.")
        click.echo(f"A run would be written to {evaluation.folder}")
        evaluation.check_keys()
    check_ready(spec)
    await _check_models(spec, evaluation.resources.library, models=models, servers=servers)


async def _check_models(spec: RunSpec, images: ImageSource, *, models: bool, servers: bool) -> None:
    faults = []
    for role, model in spec.models.items():
        try:
            if models and provider_of(model).open_renderer(model, images) is not None:
                click.echo(f"{role}: {model.label}: configuration, tokenizer and processor open")
            if servers and await is_served(model):
                click.echo(f"{role}: {model.label} is served")
        except ConfigError as error:
            faults.append(f"{role}: {error}")
    if faults:
        raise ConfigError("\n".join(faults))
