"""`mmconv check`: is a configuration right, is all of its data there."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from mmconv.cli.shared.run_folders import open_new, place, place_options
from mmconv.cli.shared.run_options import NAMED, read_spec, spec_options
from mmconv.cli.shared.table_output import print_tables
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.protocols import ImageSource
from mmconv.engine.run import Place
from mmconv.engine.setup import about_models, check_ready, is_served
from model_zoo.providers import provider_of


@click.command(name="check", epilog=NAMED)
@click.argument("target", metavar="RUN.yaml|BENCHMARK|MODULE:CLASS")
@spec_options
@place_options
@click.option(
    "--models",
    is_flag=True,
    help="Open the configuration, tokenizer and processor of checkpoints, without their weights.",
)
@click.option("--servers", is_flag=True, help="Ask the models' servers what they serve.")
def command(target: str, *, models: bool, servers: bool, **chosen: Any) -> None:
    """Check options, models, keys, prompts, data and images without a call to a model."""
    where = place(chosen.pop("out"), chosen.pop("store"))
    asyncio.run(_check(read_spec(target, chosen), where, models=models, servers=servers))


async def _check(spec: RunSpec, where: Place, *, models: bool, servers: bool) -> None:
    async with open_new(spec, where) as evaluation:
        conditions = ", ".join(evaluation.benchmark.conditions)
        click.echo(f"{evaluation.samples} samples under {conditions}: data in order")
        if (data_table := getattr(evaluation.benchmark, "data_table", None)) is not None:
            print_tables([data_table()], "table")
        facts = about_models(spec)
        for seat, model in spec.seats.items():
            click.echo(f"  {seat}: {model.label} ({model.provider})")
            for name, fact in facts.get(seat, {}).items():
                click.echo(f"    {name}: {fact}")
        for note in evaluation.notes:
            click.echo(f"  note: {note}")
        others = "" if models else ", tokenizers and processors (--models)"
        others += "" if servers else ", servers (--servers)"
        click.echo(f"Not checked: weights{others}; `mmconv chat MODEL` tries a model.")
        click.echo(f"A run would be written to {evaluation.folder}")
        evaluation.check_keys()
    check_ready(spec)
    if models:
        _open_checkpoints(spec, evaluation.equipment.library)
    if servers:
        await _check_servers(spec)


def _open_checkpoints(spec: RunSpec, images: ImageSource) -> None:
    """Open all of each checkpoint but its weights; raises `ConfigError` of every one that fails."""
    faults = []
    for role, model in spec.seats.items():
        try:
            if provider_of(model).open_renderer(model, images) is not None:
                click.echo(f"{role}: {model.label}: configuration, tokenizer and processor open")
        except ConfigError as error:
            faults.append(f"{role}: {error}")
    if faults:
        raise ConfigError("\n".join(faults))


async def _check_servers(spec: RunSpec) -> None:
    """Print which models are served; raises `ConfigError` of every server that fails."""
    faults = []
    for seat, model in spec.seats.items():
        try:
            if await is_served(model):
                click.echo(f"{seat}: {model.label} is served")
        except ConfigError as error:
            faults.append(f"{seat}: {error}")
    if faults:
        raise ConfigError("\n".join(faults))
