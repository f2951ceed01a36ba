"""`--dry-run` and `--max-cost`: the cost of calls, estimated or limited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import click

from mmconv.cli.shared.table_output import print_tables
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.plans import Plan
from mmconv.core.run_stats import RunStats
from mmconv.engine import Runner
from mmconv.report.costs import Forecast, cost, format_dollars, session_cost

COST_OPTIONS = (
    click.option(
        "--dry-run", is_flag=True, help="Count calls, tokens and dollars; send no request."
    ),
    click.option(
        "--max-cost",
        type=click.FloatRange(0),
        metavar="DOLLARS",
        help="Stop when this session has cost more; every model's file needs a price.",
    ),
)

BATCH = 500
"""How many plans are looked up in the cache at once."""


async def print_forecast(
    spec: RunSpec, runner: Runner, plans: Iterator[Plan], check: Callable[[], None]
) -> None:
    """Print the cost of the calls that are not cached, and any `ConfigError` of `check`."""
    forecast = await make_forecast(spec, runner, plans)
    print_tables([forecast.table], "table")
    try:
        check()
    except ConfigError as error:
        click.echo(f"A run would not start: {error}", err=True)


async def make_forecast(spec: RunSpec, runner: Runner, plans: Iterator[Plan]) -> Forecast:
    """Count the calls of all plans, and which of them are cached."""
    forecast = Forecast(spec)
    while batch := [*islice(plans, BATCH)]:
        cached = await asyncio.gather(*map(runner.recall, batch))
        for plan, replies in zip(batch, cached, strict=True):
            forecast.add(plan, replies)
    return forecast


@dataclass(frozen=True, slots=True)
class Budget:
    """The US dollars that the calls of one session may cost.

    Raises `ConfigError` that names every model without a price.
    """

    spec: RunSpec
    dollars: float

    def __post_init__(self) -> None:
        unpriced = [
            f"{role} ({model.label})"
            for role, model in self.spec.models.items()
            if model.price is None
        ]
        if unpriced:
            raise ConfigError(
                f"--max-cost: no price for {', '.join(unpriced)}; add `price: {{input: 2.5, "
                "output: 10}` to the model's file, in US dollars per million tokens (0 and 0 if it "
                "is free)"
            )

    def spent(self, stats: RunStats) -> str | None:
        """The reason why a run must stop; None if it may go on."""
        for role, counts in stats.models.items():
            model = self.spec.models[role]
            if counts.unmetered and cost(model, 1, 1):
                return (
                    f"--max-cost: the cost of {role} ({model.label}) is unknown, since its replies "
                    "do not report their tokens; leave out --max-cost, or write `price: {input: 0, "
                    "output: 0}` into the model's file if it is free"
                )
        dollars = session_cost(self.spec, stats) or 0.0
        if dollars <= self.dollars:
            return None
        return (
            f"--max-cost {self.dollars:g}: the calls of this session have cost "
            f"${format_dollars(dollars)}"
        )
