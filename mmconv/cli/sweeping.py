"""`mmconv sweep`: many models on many benchmarks, in one process."""

from __future__ import annotations

import asyncio
import gc
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from mmconv.cli.comparing import write_page
from mmconv.cli.shared.basics import FILE, visible
from mmconv.cli.shared.costs import MAX_COST, Budget, make_forecast
from mmconv.cli.shared.options import PLACE_OPTIONS, RAY, with_options
from mmconv.cli.shared.progress import counted, duration, shown, write
from mmconv.cli.shared.run_folders import open_new, place
from mmconv.cli.shared.session import (
    EXIT_FAILURES,
    EXIT_INTERRUPTED,
    FAILURES_OPTION,
    favour_requests,
    find_shortfall,
    stopped_by_interrupt,
    typed,
)
from mmconv.cli.shared.table_output import folded, print_result, print_tables
from mmconv.core.config import CANDIDATE, ModelSpec, RunSpec
from mmconv.core.errors import MmconvError
from mmconv.core.run_stats import Throughput
from mmconv.core.types import Cell as TableCell
from mmconv.core.types import Table
from mmconv.engine import Runner
from mmconv.engine.matrix import Cell, read_sweep
from mmconv.engine.run import Place
from mmconv.engine.sweep import CellState, Sweep
from mmconv.report.comparison.differences import compare
from mmconv.report.comparison.leaderboard import make_leaderboard
from mmconv.report.costs import Forecast
from mmconv.report.tables.cells import show_counts_once
from mmconv.report.tables.formats import write_tables
from mmconv.run_folder.layout import TABLES
from mmconv.run_folder.saved_run import read_finished
from model_zoo.loading_threads import end_with_loads
from model_zoo.ray import gpus_of

LINE_SECONDS = 30.0

STYLES = {"done": "green", "failed": "red", "running": "bold"}

COLUMNS = ("GPUs", "calls", "cached", "to request", "input tokens", "output tokens", "US dollars")


@click.command(name="sweep")
@click.argument("target", metavar="SWEEP.yaml", type=FILE)
@with_options(*PLACE_OPTIONS)
@RAY
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Set a field of the run file of all cells, such as limit=10.",
)
@click.option("--dry-run", is_flag=True, help="Print the matrix with its costs; send no request.")
@MAX_COST
@click.option("--page/--no-page", default=True, help="Write the pages of runs and comparisons.")
@FAILURES_OPTION
def sweep_command(  # noqa: PLR0913 - one parameter for each option
    target: Path,
    out: Path,
    store: str,
    overrides: Sequence[str],
    *,
    dry_run: bool,
    max_cost: float | None,
    page: bool,
    max_failures: float,
) -> None:
    """Run every model of a sweep file on every benchmark. The same command resumes it.

    A cell of the matrix is an ordinary run, in a folder of its own. Finished ones are skipped.
    Models are loaded once each, as many at a time as the GPUs allow; what fails, fails its cells
    alone. See configs/sweeps/README.md.
    """
    cells, where = read_sweep(target, overrides), place(out, store)
    if dry_run:
        asyncio.run(_forecast(cells, where))
        return
    budget = None if max_cost is None else Budget(max_cost, *(cell.spec for cell in cells))
    states = asyncio.run(_run(cells, where, budget, page=page, max_failures=max_failures))
    folder = out / f"sweep-{target.stem}"
    is_stopped = any(state.status in ("stopped", "waiting") for state in states)
    names = () if is_stopped else dict.fromkeys(state.cell.benchmark for state in states)
    for name in names:
        runs = [state.folder for state in states if state.cell.benchmark == name and state.folder]
        _print_results(name, runs, folder / name, page=page)
    gc.freeze()  # else the interpreter would scan all objects as it exits
    sys.exit(_exit_code(states, store, is_stopped=is_stopped))


async def _run(
    cells: Sequence[Cell],
    where: Place,
    budget: Budget | None,
    *,
    page: bool,
    max_failures: float,
) -> list[CellState]:
    favour_requests()

    def watch(spec: RunSpec, runner: Runner) -> None:
        if budget is not None:
            budget.watch(spec, runner)

    shortfall = partial(find_shortfall, max_failures=max_failures)
    sweep = Sweep(cells, where, page=page, shortfall=shortfall, report=print_change, watch=watch)
    progress = Progress(sweep)
    async with shown(progress.line, progress.picture, LINE_SECONDS):
        with stopped_by_interrupt(sweep.stop):
            await sweep.run()
    return sweep.cells


def _print_results(name: str, runs: Sequence[Path], folder: Path, *, page: bool) -> None:
    if not runs:
        return
    click.echo(f"\n== {name}")
    if len(runs) == 1:
        run = read_finished(runs[0])
        print_result(run.tables, run.manifest.notes, runs[0])
        return
    try:
        board = make_leaderboard(runs)
        for warning in board.brief:
            click.echo(folded(warning))
        print_tables([show_counts_once(board.tables[0])], "table", said=board.warnings)
        comparison = compare(tuple(runs))
        write_tables(folder / TABLES, (*board.tables, *comparison.tables))
        click.echo(f"\nLeaderboard and comparison with {runs[0].name}: {folder / TABLES}")
        if page:
            path = asyncio.run(write_page(comparison, folder.absolute() / "comparison.html"))
            click.echo(f"The page: {path}")
    except MmconvError as error:
        folders = shlex.join(map(str, runs))
        click.echo(visible(f"no leaderboard of {name}: {error}\nThe runs: {folders}"), err=True)


def _exit_code(states: Sequence[CellState], store: str, *, is_stopped: bool) -> int:
    failed = [state for state in states if state.status == "failed"]
    done = sum(state.status == "done" for state in states)
    click.echo(f"\n{done} of {len(states)} cells are done")
    if not failed and not is_stopped:
        return 0
    for state in failed:
        click.echo(visible(f"{state.cell.name} failed: {state.reason}"), err=True)
    click.echo(f"All replies are cached. Resume with:\n  {typed(store)}", err=True)
    code = EXIT_INTERRUPTED if is_stopped else EXIT_FAILURES
    end_with_loads(code)
    return code


async def _forecast(cells: Sequence[Cell], where: Place) -> None:
    forecasts: dict[str, Forecast] = {}
    problems: list[str] = []
    for cell in cells:
        try:
            async with open_new(cell.spec, where) as evaluation:
                plans = (plan for plan, _ in evaluation.plans())
                runner = evaluation.runner(offline=True)
                forecasts[cell.name] = await make_forecast(cell.spec, runner, plans)
                evaluation.check_keys()
        except MmconvError as error:
            problems.append(f"{cell.name} would not start: {error}")
    print_tables([_matrix(cells, forecasts)], "table")
    for problem in problems:
        click.echo(visible(problem), err=True)


def _matrix(cells: Sequence[Cell], forecasts: Mapping[str, Forecast]) -> Table:
    rows = {}
    for cell in cells:
        gpus = TableCell(value=_count_gpus(cell.spec.models[CANDIDATE]))
        known = [forecasts[cell.name]] if cell.name in forecasts else []
        rows[cell.name] = {"GPUs": gpus} | (Forecast.total(known) if known else {})
    rows["all"] = Forecast.total(forecasts.values())
    judges = {
        model.label: _count_gpus(model)
        for cell in cells
        for role, model in cell.spec.models.items()
        if role != CANDIDATE and gpus_of(model, 1)
    }
    return Table(
        name="sweep",
        title=f"Calls of {counted(len(cells), 'cell')}",
        columns=COLUMNS,
        rows={
            name: {column: row[column] for column in COLUMNS if column in row}
            for name, row in rows.items()
        },
        notes=(
            "Tokens and dollars are estimates for the calls to request. A call that several cells "
            "share is counted in each of them and requested once.",
            *(f"{name} keeps its GPUs ({gpus}) to the end." for name, gpus in judges.items()),
        ),
        digits=0,
    )


def _count_gpus(model: ModelSpec) -> str:
    share = gpus_of(model, 1)
    if share and model.replicas == "auto":
        return "all free"
    return f"{share * int(model.replicas or 1) if share else 0:g}"


# --- progress: a live matrix on a terminal, plain lines elsewhere --------------------------------


def print_change(state: CellState) -> None:
    """Print a new status of a cell; on a terminal only failures, since the matrix has the rest."""
    if state.status == "failed" or not sys.stderr.isatty():
        status = {"running": "started"}.get(state.status, state.status)
        if state.found:
            status = "done by an earlier session"
        reason = f": {state.reason}" if state.reason else ""
        write(f"{state.cell.name}: {status}{reason}")


class Progress:
    """The cells as texts, with the throughput of those that run."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._throughputs: dict[str, Throughput] = {}

    def describe(self, state: CellState) -> str:
        """A cell in a few words: share of its calls, rate, failures, time left."""
        stats = state.stats
        if state.status != "running":
            return state.status
        waits = "" if stats is None else stats.describe_wait()
        if stats is None or not stats.ended:
            return waits or "loading"
        if stats.finished == state.plans:
            return "writing results"
        throughput = self._throughputs.setdefault(state.cell.name, Throughput())
        progress = throughput.measure(stats, state.plans)
        planned = max(progress.planned, stats.ended)
        parts = [f"{stats.ended / planned:.0%}", f"{progress.rate:.1f}/s"]
        if stats.lost:
            parts.append(f"{stats.lost:,} failed")
        if waits:
            parts.append(waits)
        elif (left := progress.seconds_left) is not None:
            parts.append(f"{duration(left)} left")
        return ", ".join(parts)

    def totals(self) -> str:
        """The counts of the whole sweep."""
        cells, placement = self._sweep.cells, self._sweep.placement
        stats = [state.stats for state in cells if state.stats is not None]
        ended = sum(state.status not in ("waiting", "running") for state in cells)
        parts = [
            f"{ended}/{counted(len(cells), 'cell')}",
            f"{counted(sum(each.requested for each in stats), 'reply', 'replies')} requested",
            f"{sum(each.lost for each in stats):,} failed",
        ]
        if self._sweep.on_ray:
            parts.append(f"{placement.used:g} of {placement.gpus:g} GPUs")
        return ", ".join(parts)

    def line(self) -> str:
        """The totals, and each cell that runs."""
        running = (state for state in self._sweep.cells if state.status == "running")
        cells = (f"{state.cell.name} ({self.describe(state)})" for state in running)
        return "; ".join([self.totals(), *cells])

    def picture(self) -> Any:
        """A row for each model (and seed), a column for each benchmark; and the totals."""
        from rich.console import Group
        from rich.table import Table as Grid
        from rich.text import Text

        cells = self._sweep.cells
        columns = [*dict.fromkeys(state.cell.benchmark for state in cells)]
        texts: dict[str, dict[str, str]] = {}
        for state in cells:
            style = STYLES.get(state.status, "dim")
            text = f"[{style}]{self.describe(state)}[/]"
            texts.setdefault(state.cell.row, {})[state.cell.benchmark] = text
        grid = Grid("model", *columns)
        for row, described in texts.items():
            grid.add_row(visible(row), *(described.get(name, "") for name in columns))
        return Group(grid, Text(self.totals()))
