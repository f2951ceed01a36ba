"""Looking at a job until it ends, for a client that waits; the queue is asked, not a worker.

So it does not matter which process carries the job out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from mmconv.service.access import Caller
from mmconv.service.state import Service
from mmconv.store.jobs import Job

LOOK_SECONDS = 1.0
"""How often the queue is asked; a worker tells its progress as often."""


async def watch(shared: Service, caller: Caller, job: Job) -> AsyncIterator[Job]:
    """The job now, and again every so often until it is not active, is gone, or the server ends.

    Raises `Problem` 429 at once where too many requests of the caller watch already.
    """
    with shared.meters.of(caller.name).watching(caller.limits):
        found: Job | None = job
        while found is not None and not shared.draining.is_set():
            yield found
            if not found.is_active:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await shared.draining.wait()
            found = await shared.queue.get(job.id)


async def wait(shared: Service, caller: Caller, job: Job, seconds: float) -> Job:
    """The job when it has ended, or as it is after so many seconds; raises as `watch` does."""
    last = job
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for each in watch(shared, caller, job):
                last = each
    return last
