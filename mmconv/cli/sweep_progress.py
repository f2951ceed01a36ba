"""The progress of a sweep: a live matrix on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mmconv.cli.shared.basics import visible
from mmconv.cli.shared.progress import at_the_same_time, counted
from mmconv.core.run_stats import Throughput
from mmconv.engine.sweep import CellState, Sweep

if TYPE_CHECKING:
    from rich.table import Table

LINE_SECONDS = 30.0

STYLES = {"done": "green", "failed": "red", "running": "bold"}
"""How the status of a cell looks in the matrix."""


@asynccontextmanager
async def show_progress(sweep: Sweep) -> AsyncIterator[None]:
    """Show the matrix on standard error until the block ends, or a line once in a while."""
    show = _live if sys.stderr.isatty() else _log
    async with at_the_same_time(show(Progress(sweep))):
        yield


def print_change(state: CellState) -> None:
    """Print a new status of a cell; on a terminal only failures, since the matrix has the rest."""
    if state.status == "failed" or not sys.stderr.isatty():
        status = {"running": "started"}.get(state.status, state.status)
        if state.found:
            status = "done by an earlier session"
        reason = f": {state.reason}" if state.reason else ""
        _write(f"{state.cell.name}: {status}{reason}")


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
        throughput.mark(time.monotonic(), stats)
        planned = max(stats.planned_in(state.plans), stats.ended)
        parts = [f"{stats.ended / planned:.0%}", f"{throughput.rate:.1f}/s"]
        if stats.lost:
            parts.append(f"{stats.lost:,} failed")
        if waits:
            parts.append(waits)
        elif (left := throughput.seconds_left(stats, state.plans)) is not None:
            parts.append(f"{_duration(left)} left")
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

    def matrix(self) -> Table:
        """A row for each model (and seed), a column for each benchmark."""
        from rich.table import Table

        cells = self._sweep.cells
        columns = [*dict.fromkeys(state.cell.benchmark for state in cells)]
        texts: dict[str, dict[str, str]] = {}
        for state in cells:
            style = STYLES.get(state.status, "dim")
            text = f"[{style}]{self.describe(state)}[/]"
            texts.setdefault(state.cell.row, {})[state.cell.benchmark] = text
        table = Table("model", *columns)
        for row, described in texts.items():
            table.add_row(visible(row), *(described.get(name, "") for name in columns))
        return table


async def _live(progress: Progress) -> None:
    # rich takes a tenth of a second to import; a job without a terminal does not need it
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    def render() -> Group:
        return Group(progress.matrix(), Text(progress.totals()))

    with Live(console=Console(stderr=True), get_renderable=render, auto_refresh=False) as live:
        while True:
            live.refresh()
            await asyncio.sleep(0.5)


async def _log(progress: Progress) -> None:
    while True:
        await asyncio.sleep(LINE_SECONDS)
        _write(progress.line())


def _write(line: str) -> None:
    # not click.echo, which would write into the matrix instead of above it
    sys.stderr.write(f"{visible(line)}\n")
    sys.stderr.flush()


def _duration(seconds: float) -> str:
    """Seconds, minutes or hours, in two digits."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"
