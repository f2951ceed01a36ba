"""`--dry-run` and `--max-cost`: what calls would cost, told or bounded before they are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import click

from mmconv.cli.shared.option_values import Command
from mmconv.cli.shared.table_output import print_tables
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.plans import Plan
from mmconv.core.run_stats import Tally
from mmconv.engine import Runner
from mmconv.report.costs import cost, session_cost, tell_dollars
from mmconv.report.forecast import Forecast

EXAMPLE = "{input: 2.5, output: 10}"

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


@dataclass(frozen=True, slots=True)
class Budget:
    """So many US dollars for the calls of a run that are asked in one session.

    Raises `ConfigError` that names every model without a price.
    """

    spec: RunSpec
    dollars: float

    def __post_init__(self) -> None:
        unpriced = [
            f"{seat} ({model.label})"
            for seat, model in self.spec.seats.items()
            if model.price is None
        ]
        if unpriced:
            raise ConfigError(
                f"--max-cost: no price is known of {', '.join(unpriced)}; write `price: {EXAMPLE}` "
                "into the model's file, in US dollars per million tokens (0 and 0 where it costs "
                "nothing)"
            )

    def spent(self, tally: Tally) -> str | None:
        """Why a run has to stop by what it has asked; None where it may go on."""
        for name, seat in tally.seats.items():
            model = self.spec.seats[name]
            if seat.unmetered and cost(model, 1, 1):
                return _untold(name, model)
        dollars = session_cost(self.spec, tally) or 0.0
        if dollars <= self.dollars:
            return None
        spent = tell_dollars(dollars)
        return f"--max-cost {self.dollars:g}: the calls of this session have cost ${spent}"


def _untold(seat: str, model: ModelSpec) -> str:
    return (
        f"--max-cost: what {seat} ({model.label}) costs is not known: its replies do not tell how "
        "many tokens they take; leave out --max-cost, or write `price: {input: 0, output: 0}` into "
        "the model's file where it costs nothing"
    )
