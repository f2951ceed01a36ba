"""`--dry-run` and `--max-cost`: what calls would cost, told or bounded before they are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

import click

from mmconv.cli.tabling import print_tables
from mmconv.config import RunSpec
from mmconv.errors import ConfigError
from mmconv.plans import Plan
from mmconv.report.forecast import Forecast
from mmconv.runner import Runner

Command = TypeVar("Command", bound=Callable[..., Any])

AT_ONCE = 500
"""How many plans are looked up in the store together."""


def cost_options(command: Command) -> Command:
    """Add the options that tell what calls would cost, and that bound it."""
    dry_run = click.option(
        "--dry-run", is_flag=True, help="Count calls that are to be asked, and tokens; ask nothing."
    )
    max_cost = click.option(
        "--max-cost",
        type=click.FloatRange(0),
        metavar="DOLLARS",
        help="Stop when what was asked in this session costs more; the models' files need prices.",
    )
    return dry_run(max_cost(command))


async def print_forecast(
    spec: RunSpec, runner: Runner, plans: Iterator[Plan], check: Callable[[], None]
) -> None:
    """Print what asking these plans would cost, without what the runner's store holds.

    What `check` raises as a `ConfigError` is told as what stands in the way.
    """
    found = Forecast(spec)
    while some := [*islice(plans, AT_ONCE)]:
        held = await asyncio.gather(*map(runner.recall, some))
        for plan, replies in zip(some, held, strict=True):
            found.add(plan, replies)
    print_tables([found.table], "table")
    try:
        check()
    except ConfigError as error:
        click.echo(f"A run would not start: {error}", err=True)
