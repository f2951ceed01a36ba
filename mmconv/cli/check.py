"""`mmconv check`: is a configuration right, is all of its data there."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from mmconv.cli.specs import place, place_options, read_spec, spec_options
from mmconv.evaluation import open_evaluation


@click.command(name="check")
@click.argument("target", metavar="RUN.yaml|BENCHMARK")
@spec_options
@place_options
def command(target: str, **chosen: Any) -> None:
    """Check options, models, keys, prompts, data and images without asking a model anything."""
    where = place(chosen.pop("out"), chosen.pop("store"))
    asyncio.run(_check(read_spec(target, chosen), where))


async def _check(spec: Any, where: Any) -> None:
    async with open_evaluation(spec, where) as evaluation:
        conditions = ", ".join(evaluation.benchmark.conditions)
        click.echo(f"{evaluation.samples} samples under {conditions}: data in order")
        for seat, model in spec.seats.items():
            click.echo(f"  {seat}: {model.label} ({model.provider})")
        for note in evaluation.notes:
            click.echo(f"  note: {note}")
        click.echo("Not checked: checkpoints and servers; `mmconv chat MODEL` tries one.")
        click.echo(f"A run would be written to {evaluation.folder}")
        evaluation.check_keys()
