"""How a run's progress is told: a live line on a terminal, plain log lines elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from mmconv.core.config import RunSpec
from mmconv.core.run_stats import Pace, SeatTally, Tally
from mmconv.report.costs import tell_session_cost

LINE_SECONDS = 10.0


@asynccontextmanager
async def progress(spec: RunSpec, tally: Tally, total: int) -> AsyncIterator[None]:
    """Tell progress on standard error until the block ends; `total` counts plans."""
    teller = _live if sys.stderr.isatty() else _log
    task = asyncio.create_task(teller(spec, tally, total))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def line(spec: RunSpec, tally: Tally, seconds: float, planned: int = 0) -> str:
    """What has happened so far, in one line: calls, rate, what was lost and why lately, cost.

    Calls are out of those `planned`, if that number is known.

    Replies are reused that the store held, or that an equal call of this run brought. Why a call is
    asked again is told in full as long as its model has answered nothing: its address may be wrong.
    """
    seats = tally.seats.values()
    calls = f"{tally.ended:,}/{planned:,} calls" if planned else counted(tally.ended, "call")
    parts = [calls, f"{tally.asked / max(seconds, 1e-9):.1f}/s"]
    if stored := sum(seat.stored for seat in seats):
        parts.append(f"{counted(stored, 'reply', 'replies')} reused")
    if retried := sum(seat.retried for seat in seats):
        reasons = dict.fromkeys(filter(None, map(_why_again, seats)))
        latest = "latest: " if retried > 1 else ""
        parts.append(f"{retried:,} retried ({latest}{', '.join(reasons)})")
    if failures := sum((seat.failures for seat in seats), Counter[str]()):
        parts.append(f"{failures.total():,} failed ({_kinds(failures)})")
    if skipped := sum(seat.skipped for seat in seats):
        parts.append(f"{skipped:,} skipped")
    if price := tell_session_cost(spec, tally):
        parts.append(price)
    return ", ".join(parts)


class _Line:
    """The line of a run of so many plans, which may wait long for its first reply."""

    def __init__(self, spec: RunSpec, tally: Tally, total: int) -> None:
        self._spec, self._tally, self._total = spec, tally, total
        self._started = time.monotonic()
        self._pace = Pace()
        self._pace.mark(self._started, tally)

    @property
    def planned(self) -> int:
        return self._tally.planned_in(self._total)

    def read(self) -> str:
        now = time.monotonic()
        self._pace.mark(now, self._tally)
        text = line(self._spec, self._tally, now - self._started, self.planned)
        if not self._tally.ended:
            return f"{text}; no reply yet: what runs here is loaded first"
        left = self._pace.seconds_left(self._tally, self._total)
        return text if left is None else f"{text}, about {left:.0f} s left"


def counted(count: int, one: str, many: str = "") -> str:
    """A number with its noun; `many` is the plural where that is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _why_again(seat: SeatTally) -> str:
    if not seat.retried or seat.asked or seat.stored:
        return seat.last_retry
    return f"{seat.last_retry}: {seat.retried_for}"


def _kinds(failures: Counter[str]) -> str:
    """The kinds of failures, with how many there are of each if there are several."""
    if len(failures) == 1:
        return next(iter(failures))
    return ", ".join(f"{kind} {count:,}" for kind, count in failures.most_common())


async def _live(spec: RunSpec, tally: Tally, total: int) -> None:
    # rich takes a tenth of a second to import, which a job without a terminal need not pay
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, Progress
    from rich.text import Text

    current = _Line(spec, tally, total)
    bar = Progress(BarColumn())
    task = bar.add_task("", total=None)
    with Live(console=Console(stderr=True)) as live:
        while True:
            bar.update(task, completed=tally.ended, total=current.planned or None)
            # on a line of its own, which wraps, nothing of it is cropped in a narrow terminal
            live.update(Group(bar, Text(current.read())))
            await asyncio.sleep(0.2)


async def _log(spec: RunSpec, tally: Tally, total: int) -> None:
    current = _Line(spec, tally, total)
    while True:
        await asyncio.sleep(LINE_SECONDS)
        sys.stderr.write(f"{current.read()}\n")
        sys.stderr.flush()
