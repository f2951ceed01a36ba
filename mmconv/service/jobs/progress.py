"""The progress of a job while its runner works, and why the runner stopped by itself."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from mmconv.answers import Progress
from mmconv.core.run_stats import RunStats, Throughput
from mmconv.service.models.failures import words_of_halt
from mmconv.store.jobs import Ending, Job


class JobProgress:
    """What a job has done since this was made, and how fast."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._throughput = Throughput()

    def read(self, stats: RunStats, plans: int) -> dict[str, Any]:
        """The fields of `Progress`; the job has so many plans."""
        now = time.monotonic()
        self._throughput.mark(now, stats)
        left = self._throughput.seconds_left(stats, plans)
        seats = stats.seats.values()
        progress = Progress(
            calls=stats.ended,
            planned=stats.planned_in(plans),
            conversations=stats.finished,
            total=plans,
            replies=stats.replies,
            asked=stats.asked,
            stored=sum(seat.stored for seat in seats),
            failed=sum(seat.failed for seat in seats),
            skipped=sum(seat.skipped for seat in seats),
            retried=sum(seat.retried for seat in seats),
            input_tokens=sum(seat.input_tokens for seat in seats),
            output_tokens=sum(seat.output_tokens for seat in seats),
            rate=round(self._throughput.rate, 2),
            seconds=round(now - self._started, 1),
            seconds_left=None if left is None else round(left, 1),
        )
        return asdict(progress)


DONE = {"rate": 0.0, "seconds_left": 0.0}
"""What a job's progress says once it has come to its end."""


def ending_of_halt(job: Job, stats: RunStats, progress: dict[str, Any]) -> Ending | None:
    """The end of a job whose runner stopped before its own, where nobody else had it stopped."""
    if stats.stop_reason is None:
        return None
    return Ending(state="failed", progress=progress, error=words_of_halt(stats.stop_reason, job.id))
