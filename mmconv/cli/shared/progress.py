"""The progress of a run: a live line on a terminal, plain log lines elsewhere."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from mmconv.cli.shared.basics import visible
from mmconv.core.config import RunSpec
from mmconv.core.run_stats import ModelStats, RunStats, Throughput
from mmconv.report.costs import describe_session_cost

LINE_SECONDS = 10.0
REFRESH_SECONDS = 0.25


@asynccontextmanager
async def progress(spec: RunSpec, stats: RunStats, total: int) -> AsyncIterator[None]:
    """Print progress on standard error until the block ends; `total` counts plans."""
    current = _Line(spec, stats, total)
    async with shown(current.read, current.picture, LINE_SECONDS):
        yield


@asynccontextmanager
async def shown(
    line: Callable[[], str], picture: Callable[[], Any], seconds: float
) -> AsyncIterator[None]:
    """Show a picture (rich) on a terminal, else print a line every `seconds`, until the end."""

    async def show() -> None:
        if not sys.stderr.isatty():
            while True:
                await asyncio.sleep(seconds)
                write(line())
        # rich takes a tenth of a second to import; a job without a terminal does not need it
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        with Live(console=console, get_renderable=picture, auto_refresh=False) as live:
            while True:
                live.refresh()
                await asyncio.sleep(REFRESH_SECONDS)

    task = asyncio.create_task(show())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def write(text: str) -> None:
    """Print a line on standard error; click.echo would write into a picture, not above it."""
    sys.stderr.write(f"{visible(text)}\n")
    sys.stderr.flush()


def counted(count: int, one: str, many: str = "") -> str:
    """A number with its noun; `many` is the plural, by default `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """A time in seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"


def line(spec: RunSpec, stats: RunStats, seconds: float, planned: int = 0) -> str:
    """What has happened so far, in one line: calls (of those `planned`), rate, losses, cost.

    A reply is reused if it was cached, or if an equal call of this run brought it. As long as a
    model has answered nothing, the reason of a retry is given in full: its address may be wrong.
    """
    roles = stats.models.values()
    calls = f"{stats.ended:,}/{planned:,} calls" if planned else counted(stats.ended, "call")
    parts = [calls, f"{stats.requested / max(seconds, 0.1):.1f}/s"]
    if stored := sum(role.cached for role in roles):
        parts.append(f"{counted(stored, 'reply', 'replies')} reused")
    if retried := sum(role.retried for role in roles):
        reasons = dict.fromkeys(filter(None, map(_retry_reason, roles)))
        latest = "latest: " if retried > 1 else ""
        parts.append(f"{retried:,} retried ({latest}{', '.join(reasons)})")
    if failures := sum((role.failures for role in roles), Counter[str]()):
        kinds = [f"{kind} {count:,}" for kind, count in failures.most_common()]
        if len(failures) == 1:
            kinds = [*failures]
        parts.append(f"{failures.total():,} failed ({', '.join(kinds)})")
    if skipped := sum(role.skipped for role in roles):
        parts.append(f"{skipped:,} skipped")
    if price := describe_session_cost(spec, stats):
        parts.append(price)
    return ", ".join(parts)


def _retry_reason(role: ModelStats) -> str:
    if not role.retried or role.requested or role.cached:
        return role.last_retry
    return f"{role.last_retry}: {role.retried_for}"


class _Line:
    """The line of a run of `total` plans."""

    def __init__(self, spec: RunSpec, stats: RunStats, total: int) -> None:
        self._spec, self._total = spec, total
        self.stats = stats
        self._throughput = Throughput()
        self._throughput.measure(stats, total)

    @property
    def planned(self) -> int:
        return self.stats.planned_in(self._total)

    def read(self) -> str:
        progress = self._throughput.measure(self.stats, self._total)
        text = line(self._spec, self.stats, progress.seconds, progress.planned)
        if waits := self.stats.describe_wait():
            return f"{text}; {waits}"
        if not self.stats.ended:
            return f"{text}; no reply yet: local models are loaded first"
        left = progress.seconds_left
        return text if left is None else f"{text}, about {duration(left)} left"

    def picture(self) -> Any:
        """The line under a bar."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        bar = ProgressBar(total=self.planned or None, completed=self.stats.ended, width=40)
        # on its own line it wraps; in the bar's line a narrow terminal would cut it
        return Group(bar, Text(f"\n{self.read()}"))
