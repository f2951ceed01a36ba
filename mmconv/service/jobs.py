"""Jobs of any kind: list, remove, watch and measure them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, ClassVar

import orjson

from mmconv.core.run_stats import Progress, StopReason, Throughput
from mmconv.engine import Runner
from mmconv.service.access import Caller
from mmconv.service.errors import Problem
from mmconv.service.http.requests import unknown_page
from mmconv.service.metrics import RunnerMetrics, WorkName
from mmconv.service.models import words_of_halt
from mmconv.service.state import Readable, Service
from mmconv.store.jobs import Ending, Filter, Job

FULL_SECONDS = 30.0
"""`Retry-After` for a token with too many jobs."""

LOOK_SECONDS = 1.0
"""How often a watched job is read from the queue. Workers write its progress as often."""


async def job_page(
    shared: Readable, chosen: Filter, after: str | None, limit: int
) -> tuple[list[Job], str | None]:
    """At most `limit` jobs after the one named `after`, and the last one's id if more follow.

    Raises `Problem` 400 for an `after` that the list does not hold; it may have been removed since.
    """
    try:
        jobs = await shared.queue.page(chosen, after=after, limit=limit + 1)
    except KeyError:
        raise unknown_page() from None
    page = jobs[:limit]
    return page, page[-1].id if len(jobs) > limit else None


async def remove_job(
    shared: Service,
    job: Job,
    clear: Callable[[Job, Iterable[Job]], None] = lambda _job, _others: None,
) -> None:
    """Remove a job that has ended. Raises `Problem` 409 for another.

    `clear` removes its files; it gets the job as it is then, and the other jobs.
    """
    left = await shared.queue.remove(job.id, clear)
    if left is not None and left.is_active:
        raise Problem(
            409,
            f"it is {left.state}: stop it (DELETE without purge), and remove it when it has ended",
            param="purge",
            code="under_way",
        )


def too_many_jobs(caller: Caller) -> Problem:
    """429 for a token that has as many jobs as it may have."""
    return Problem(
        429,
        f"{caller.limits.concurrent_runs} runs and long dialogues of this token wait or are under "
        "way, and it may have no more; GET /v1/runs and GET /v1/dialogues list them",
        code="too_many_runs",
        retry_after=FULL_SECONDS,
    )


async def watch(shared: Readable, caller: Caller, job: Job) -> AsyncIterator[Job]:
    """The job now, and again every second until it ends, is removed, or the server shuts down.

    The queue is read, so any process may execute the job. Raises `Problem` 429 at once if too many
    requests of the caller watch already.
    """
    with shared.meters[caller.name].watching(caller.limits):
        current: Job | None = job
        while current is not None and not shared.draining.is_set():
            yield current
            if not current.is_active:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await shared.draining.wait()
            current = await shared.queue.get(job.id)


async def wait(shared: Service, caller: Caller, job: Job, seconds: float) -> Job:
    """The job when it has ended, or as it is after some seconds. Raises as `watch` does."""
    last = job
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for current in watch(shared, caller, job):
                last = current
    return last


class RunnerWork:
    """A job whose calls a `Runner` makes, as `mmconv.service.worker.Work`."""

    kind: ClassVar[WorkName]

    def __init__(self, shared: Service, job: Job) -> None:
        self._shared = shared
        self._job = job
        self._runner: Runner | None = None
        self._stopped = False
        self._started = time.monotonic()
        self._pace = Throughput()

    def begin(self, runner: Runner, plans: int, names: Mapping[str, str]) -> bool:
        """Show the progress of this runner from now on. Returns False if the job was stopped.

        `names` are the public names of its models, by role.
        """
        self._runner = runner
        self._plans = plans
        self._metrics = RunnerMetrics(self._shared.metrics, self.kind, names, self._job.owner)
        return not self._stopped

    def progress(self) -> dict[str, Any]:
        """The fields of `Progress`, and what the job noted besides."""
        if self._runner is None:
            return {**self._job.progress, **asdict(Progress())}
        stats, now = self._runner.stats, time.monotonic()
        self._metrics.update(stats)
        self._pace.mark(now, stats)
        progress = Progress.of(stats, self._plans, self._pace, now - self._started)
        return asdict(progress)

    def stop(self) -> None:
        """Make no new calls."""
        self._stopped = True
        if self._runner is not None:
            self._runner.stop()

    def done(self, lost: int, result: object) -> Ending:
        """The ending of a job that ran to its end."""
        progress = self.progress() | {"rate": 0.0, "seconds_left": 0.0}
        text = orjson.dumps(result).decode()
        return Ending(state="done", progress=progress, lost=lost, result=text)

    def halted(self, reason: StopReason | None) -> Ending | None:
        """The ending of a job whose runner stopped by itself; None if somebody stopped it."""
        if reason is None:
            return None
        words = words_of_halt(reason, self._job.id)
        return Ending(state="failed", progress=self.progress(), error=words)
