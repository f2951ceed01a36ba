"""What a job's runner tells of it: how far it has come, and why it stopped by itself."""

from __future__ import annotations

from typing import Any

from mmconv.answers import Progress
from mmconv.service.models.failures import words_of_halt
from mmconv.store.jobs import Ending, Job
from mmconv.tally import Tally


def progress_of(tally: Tally, total: int, seconds: float) -> Progress:
    """What a runner has counted so far, without how fast it was."""
    seats = tally.seats.values()
    return Progress(
        conversations=tally.finished,
        total=total,
        replies=tally.replies,
        asked=tally.asked,
        stored=sum(seat.stored for seat in seats),
        failed=sum(seat.failed for seat in seats),
        skipped=sum(seat.skipped for seat in seats),
        retried=sum(seat.retried for seat in seats),
        input_tokens=sum(seat.input_tokens for seat in seats),
        output_tokens=sum(seat.output_tokens for seat in seats),
        seconds=round(seconds, 1),
    )


def ending_of_halt(job: Job, tally: Tally, progress: dict[str, Any]) -> Ending | None:
    """The end of a job whose runner stopped before its own, where nobody else had it stopped."""
    if tally.halt is None:
        return None
    return Ending(state="failed", progress=progress, error=words_of_halt(tally.halt, job.id))
