"""`--dry-run` and `--max-cost`: the cost of calls, estimated or limited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice

import click

from mmconv.cli.shared.table_output import print_tables
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.plans import Plan
from mmconv.core.run_stats import RunStats
from mmconv.engine import Runner
from mmconv.report.costs import Forecast, format_dollars, is_paid, session_cost

MAX_COST = click.option(
    "--max-cost",
    type=click.FloatRange(0),
    metavar="DOLLARS",
    help="Stop when this session has cost more; every model's file needs a price.",
)

COST_OPTIONS = (
    click.option(
        "--dry-run", is_flag=True, help="Count calls, tokens and dollars; send no request."
    ),
    MAX_COST,
)

BATCH = 500


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


class Budget:
    """The US dollars of one session; `ConfigError` if a model of its runs `specs` has no price."""

    def __init__(self, dollars: float, *specs: RunSpec) -> None:
        self._dollars = dollars
        self._sessions: list[tuple[RunSpec, RunStats]] = []
        unpriced = dict.fromkeys(
            f"{role} ({model.label})"
            for spec in specs
            for role, model in spec.models.items()
            if model.price is None
        )
        if unpriced:
            raise ConfigError(
                f"--max-cost: no price for {', '.join(unpriced)}; add `price: {{input: 2.5, "
                "output: 10}` to the model's file, in US dollars per million tokens (0 and 0 if it "
                "is free)"
            )

    def count(self, spec: RunSpec, stats: RunStats) -> None:
        """Count what this run costs from now on."""
        self._sessions.append((spec, stats))

    def watch(self, spec: RunSpec, runner: Runner) -> None:
        """Count what this run costs, and stop it when too much is spent."""
        self.count(spec, runner.stats)
        runner.enough = self.spent

    def spent(self) -> str | None:
        """The reason why every run must stop; None if they may go on."""
        dollars = 0.0
        for spec, stats in self._sessions:
            for role, counts in stats.models.items():
                model = spec.models[role]
                if counts.session.unmetered and is_paid(model):
                    return (
                        f"--max-cost: the cost of {role} ({model.label}) is unknown, since its "
                        "replies do not report their tokens; leave out --max-cost, or write "
                        "`price: {input: 0, output: 0}` into the model's file if it is free"
                    )
            dollars += session_cost(spec, stats) or 0.0
        if dollars <= self._dollars:
            return None
        return (
            f"--max-cost {self._dollars:g}: the calls of this session have cost "
            f"${format_dollars(dollars)}"
        )
