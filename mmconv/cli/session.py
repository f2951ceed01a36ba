"""One evaluation on a terminal: progress, Ctrl-C, and the tables at the end."""

from __future__ import annotations

import asyncio
import gc
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from mmconv.cli.progress import line, progress
from mmconv.cli.tabling import print_tables
from mmconv.evaluation import Evaluation, Result
from mmconv.report.layout import TABLES
from mmconv.report.output import PAGE
from mmconv.report.shortfalls import headline_gap
from mmconv.runner import Runner, collect_rarely

EXIT_FAILURES = 1
EXIT_INTERRUPTED = 130


async def evaluate(evaluation: Evaluation, *, offline: bool = False, page: bool = True) -> Result:
    """Run, or with `offline` score again; prints the tables and where they lie.

    The first Ctrl-C lets the calls under way finish, the second one does not.
    """
    collect_rarely()
    runner = evaluation.runner(offline=offline)
    async with progress(evaluation.spec, runner.tally, evaluation.plan_count):
        with stopped_by_interrupt(runner):
            result = await evaluation.run(runner, page=page)
    printed = [table for table in result.tables if not table.detail]
    print_tables(printed, "table", folder=Path(TABLES))
    click.echo()
    for message in _losses(result):
        click.echo(message, err=True)
    told = line(evaluation.spec, result.tally, result.seconds)
    click.echo(f"{told}; {result.seconds:.1f} s")
    click.echo(f"Everything is in {result.folder}")
    if result.complete and page:
        click.echo(f"The report: {result.folder / PAGE}")
    gc.freeze()  # What is left goes with the process; looking through it would take its time.
    return result


def _losses(result: Result) -> Iterator[str]:
    """What was not answered or not read, with an example for each kind of failure."""
    for name, seat in result.tally.seats.items():
        for kind, count in seat.failures.items():
            yield f"{count} calls of {name} failed ({kind}), for instance: {seat.examples[kind]}"
    unasked = sum(seat.unasked for seat in result.tally.seats.values())
    if unasked:
        yield f"{unasked} calls were never asked: this run is not finished"
    notable = [*result.shortfall.sentences(), *headline_gap(result.tables)]
    yield from (told for told in result.shortfall.sentences(least=0) if told not in notable)
    yield from (f"CAREFUL: {told}" for told in notable)


def typed() -> str:
    """The command that was typed: what to run again."""
    return shlex.join(["mmconv", *sys.argv[1:]])


@contextmanager
def stopped_by_interrupt(runner: Runner) -> Iterator[None]:
    """Let the first Ctrl-C stop the runner; the second one interrupts as ever."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        click.echo(
            "Stopping: waiting for the calls under way (Ctrl-C again to drop them).", err=True
        )
        runner.stop()

    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
