"""The progress of a run: a live line on a terminal, plain log lines elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from mmconv.core.config import RunSpec
from mmconv.core.run_stats import ModelStats, RunStats, Throughput
from mmconv.report.costs import describe_session_cost

LINE_SECONDS = 10.0


@asynccontextmanager
async def progress(spec: RunSpec, stats: RunStats, total: int) -> AsyncIterator[None]:
    """Print progress on standard error until the block ends; `total` counts plans."""
    show = _live if sys.stderr.isatty() else _log
    async with at_the_same_time(show(_Line(spec, stats, total))):
        yield


@asynccontextmanager
async def at_the_same_time(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine until the block ends."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def counted(count: int, one: str, many: str = "") -> str:
    """A number with its noun; `many` is the plural, by default `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def line(spec: RunSpec, stats: RunStats, seconds: float, planned: int = 0) -> str:
    """What has happened so far, in one line: calls (of those `planned`), rate, losses, cost.

    A reply is reused if it was cached, or if an equal call of this run brought it. As long as a
    model has answered nothing, the reason of a retry is given in full: its address may be wrong.
    """
    roles = stats.models.values()
    calls = f"{stats.ended:,}/{planned:,} calls" if planned else counted(stats.ended, "call")
    parts = [calls, f"{stats.requested / max(seconds, 1e-9):.1f}/s"]
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
        self._started = time.monotonic()
        self._throughput = Throughput()
        self._throughput.mark(self._started, stats)

    @property
    def planned(self) -> int:
        return self.stats.planned_in(self._total)

    def read(self) -> str:
        now = time.monotonic()
        self._throughput.mark(now, self.stats)
        text = line(self._spec, self.stats, now - self._started, self.planned)
        if waits := self.stats.describe_wait():
            return f"{text}; {waits}"
        if not self.stats.ended:
            return f"{text}; no reply yet: local models are loaded first"
        left = self._throughput.seconds_left(self.stats, self._total)
        return text if left is None else f"{text}, about {left:.0f} s left"


async def _live(current: _Line) -> None:
    # rich takes a tenth of a second to import; a job without a terminal does not need it
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, Progress
    from rich.text import Text

    bar = Progress(BarColumn())
    task = bar.add_task("", total=None)
    with Live(console=Console(stderr=True)) as live:
        while True:
            bar.update(task, completed=current.stats.ended, total=current.planned or None)
            # on its own line it wraps; in the bar's line a narrow terminal would cut it
            live.update(Group(bar, Text(current.read())))
            await asyncio.sleep(0.2)


async def _log(current: _Line) -> None:
    while True:
        await asyncio.sleep(LINE_SECONDS)
        sys.stderr.write(f"{current.read()}\n")
        sys.stderr.flush()
