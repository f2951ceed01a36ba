"""One evaluation on a terminal: progress, Ctrl-C or SIGTERM, and the tables at the end."""

from __future__ import annotations

import asyncio
import gc
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from mmconv.cli.shared.basics import visible, writing
from mmconv.cli.shared.costs import Budget, print_forecast
from mmconv.cli.shared.progress import counted, line, progress
from mmconv.cli.shared.run_folders import open_new
from mmconv.cli.shared.table_output import print_result
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError, MmconvError, UserCodeError
from mmconv.core.run_stats import RunStats, StopReason
from mmconv.engine.garbage import collect_rarely
from mmconv.engine.run import Evaluation, Place, Result
from mmconv.report.data_quality import PARTIAL, UNREADABLE, find_notable
from mmconv.run_folder.layout import PAGE, TRANSCRIPTS, WHOLE, Shard
from mmconv.store.connections import has_password, without_password
from model_zoo.loading_threads import end_with_loads

SWITCH_SECONDS = 0.001
"""How long another thread may hold up the one that sends requests: a fifth of Python's default."""

EXIT_FAILURES = 1
EXIT_INTERRUPTED = 130

MAX_FAILURES = 0.01
"""Default of the share of calls that may fail, and of verdicts that may be unreadable."""

FAILURES_OPTION = click.option(
    "--max-failures",
    type=click.FloatRange(0, 1),
    default=MAX_FAILURES,
    show_default=True,
    metavar="SHARE",
    help="Exit with code 1 if a larger share of calls failed, or of verdicts is incomplete.",
)

PERMANENT: frozenset[str] = frozenset({"context", "filter", "rejected"})

MORE_ROOM = (
    "Fewer tokens for a reply leave a prompt more room in the context: set "
    "sampling.ROLE.max_tokens, as in --set sampling.candidate.max_tokens=512."
)


async def forecast_new(spec: RunSpec, where: Place, part: Shard = WHOLE) -> None:
    """Print what a run would cost. Raises as `open_new` does."""
    async with open_new(spec, where, part) as evaluation:
        plans = (plan for plan, _ in evaluation.plans())
        runner = evaluation.runner(offline=True)
        await print_forecast(spec, runner, plans, evaluation.check_keys)


async def run_new(
    spec: RunSpec,
    where: Place,
    part: Shard = WHOLE,
    *,
    page: bool = True,
    budget: Budget | None = None,
    audit: Path | None = None,
) -> Result:
    """Start or resume a run with `evaluate`; raises as `open_new`, and `ConfigError` on writing."""
    async with open_new(spec, where, part) as evaluation:
        for change in evaluation.changed():
            click.echo(change, err=True)
        with writing(evaluation.folder):
            if audit is not None:
                evaluation.cite(audit)
            return await evaluate(evaluation, page=page, budget=budget)


async def evaluate(
    evaluation: Evaluation,
    *,
    offline: bool = False,
    page: bool = True,
    budget: Budget | None = None,
) -> Result:
    """Run, or with `offline` score again; prints the results and their folder.

    After the first Ctrl-C or SIGTERM, or if `budget` is spent, calls under way finish. The second
    signal drops them.
    """
    favour_requests()
    runner = evaluation.runner(offline=offline)
    if budget is not None:
        budget.watch(evaluation.spec, runner)
    async with progress(evaluation.spec, runner.stats, evaluation.plan_count):
        with stopped_by_interrupt(runner.stop), _advised(evaluation, runner.stats):
            result = await evaluation.run(runner, page=page)
    if result.complete:
        print_result(result.tables, evaluation.notes, result.folder)
    for message in _losses(result):
        click.echo(message, err=True)
    if result.complete and budget is not None and (spent := budget.spent()):
        click.echo(spent, err=True)
    usage = f"{line(evaluation.spec, result.stats, result.seconds)}; {result.seconds:.1f} s"
    if result.complete:
        click.echo(f"{usage}\nEverything is in {result.folder}")
        if page:
            click.echo(f"The report: {result.folder / PAGE}")
    else:
        ended = f"{result.stats.finished} of {evaluation.plan_count} conversations"
        click.echo(f"NOT FINISHED, no results yet: {ended}; {usage}")
    gc.freeze()  # else the interpreter would scan all objects as it exits
    return result


def favour_requests() -> None:
    """Have other work of this process delay requests as little as possible."""
    collect_rarely()
    sys.setswitchinterval(SWITCH_SECONDS)


@contextmanager
def _advised(evaluation: Evaluation, stats: RunStats) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(error, MmconvError) and not isinstance(error, ConfigError | UserCodeError):
            raise
        if not stats.replies:
            raise
        command = "run the same command again"
        if stats.finished == evaluation.plan_count:
            command = f"`mmconv score {evaluation.folder}` writes the results without a request"
        advice = f"All replies are cached. Fix the error and {command}."
        if isinstance(error, MmconvError):
            raise type(error)(f"{error}\n{advice}") from error
        error.add_note(advice)
        raise


def _losses(result: Result) -> Iterator[str]:
    for name, role in result.stats.models.items():
        for kind, count in role.failures.items():
            failed = f"{counted(count, 'call')} of {name} failed ({kind})"
            yield visible(f"{failed}, for instance: {role.examples[kind]}")
    if unrequested := result.stats.unrequested:
        verb = "was" if unrequested == 1 else "were"
        yield f"{counted(unrequested, 'call')} {verb} never requested: this run is not finished"
    if result.complete:
        notable = find_notable(result.quality, result.tables)
        yield from (loss for loss in result.quality.losses(least=0) if loss not in notable)
        yield from (f"WARNING: {warning}" for warning in notable)


def exit_code(result: Result, store: str, max_failures: float = MAX_FAILURES) -> int:
    """The exit code of a run with the cache `store`; its reason goes to standard error."""
    if not result.complete:
        return tell_stopped(store, result.stats.stop_reason)
    if (message := find_shortfall(result, max_failures)) is None:
        return 0
    click.echo(message, err=True)
    return EXIT_FAILURES


def find_shortfall(result: Result, max_failures: float) -> str | None:
    """The reason why a complete run counts as failed; None if it does not."""
    lost = result.stats.lost / max(1, result.stats.ended)
    judged = result.quality.judged()
    unread = (judged[UNREADABLE] + judged[PARTIAL]) / max(1, judged.total())
    if lost > max_failures:
        return (
            f"{lost:.1%} of the calls failed or were skipped (allowed: {max_failures:.1%}); "
            f"{result.folder / TRANSCRIPTS} has the reasons. {_advice(result.stats)}"
        )
    if unread > max_failures:
        return (
            f"{unread:.1%} of the verdicts could not be read, or not in full "
            f"(allowed: {max_failures:.1%}); "
            f"`mmconv show {result.folder} SAMPLE` prints the judge's replies."
        )
    return None


def _advice(stats: RunStats) -> str:
    kinds = {kind for role in stats.models.values() for kind in role.failures}
    advice = "Run again to retry them."
    if kinds and kinds <= PERMANENT and not stats.unrequested:
        advice = f"A retry fails again ({', '.join(sorted(kinds))}) unless the cause is fixed."
    return f"{advice} {MORE_ROOM}" if "context" in kinds else advice


def tell_stopped(store: str, stop_reason: StopReason | None) -> int:
    """Say why a run stopped and how to resume it; ends the process if a model is being loaded."""
    failure = None if stop_reason is None else stop_reason.failure
    if stop_reason is not None:
        click.echo(visible(stop_reason.description), err=True)
    if failure is not None and failure.kind == "context":
        click.echo(MORE_ROOM, err=True)
    click.echo(f"Stopped; all replies are cached. Resume with:\n  {typed(store)}", err=True)
    code = EXIT_INTERRUPTED if failure is None else EXIT_FAILURES
    end_with_loads(code)
    return code


def typed(store: str) -> str:
    """The command that was typed, without the password in its `store`'s URL."""
    arguments, advice = sys.argv[1:], ""
    if has_password(store):
        arguments = [text.replace(store, without_password(store)) for text in arguments]
        advice = "\n  (without the store's password: put it in again, or set PGPASSWORD)"
    return shlex.join(["mmconv", *arguments]) + advice


@contextmanager
def stopped_by_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Stop a run or a sweep at the first Ctrl-C or SIGTERM; the second interrupts the command.

    After `stop` calls under way finish. Batch systems send SIGTERM some time before they kill a
    job.
    """
    loop = asyncio.get_running_loop()
    signals = signal.SIGINT, signal.SIGTERM

    def reset() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.default_int_handler)

    def on_signal() -> None:
        reset()
        click.echo(
            "Stopping: waiting for the calls under way (Ctrl-C again to drop them).", err=True
        )
        stop()

    for number in signals:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        reset()
