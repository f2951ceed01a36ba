"""What runs need beside what requests share: built benchmarks, and this process's worker.

Opened after the service and closed before it: the worker then waits for the calls under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Final

from fastapi import Depends, Request
from prometheus_client import Gauge

from mmconv.service.benchmarks import Benchmarks
from mmconv.service.presence import Presence
from mmconv.service.run_work import RunWork
from mmconv.service.state import Service
from mmconv.service.worker import Lacks, Opener, Worker

RUN: Final = "run"
"""The kind of jobs that are runs of benchmarks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Built benchmarks, and the worker that carries jobs out.

    Reports are made in turn (`reporting`), and so are live views of runs (`viewing`): each keeps
    a processor busy for a while. `working` ends when the process does.
    """

    benchmarks: Benchmarks
    worker: Worker
    working: asyncio.Task[None]
    reporting: asyncio.Lock = field(default_factory=asyncio.Lock)
    viewing: asyncio.Lock = field(default_factory=asyncio.Lock)


@asynccontextmanager
async def open_desk(
    service: Service, others: Mapping[str, Opener], lacks: Lacks
) -> AsyncIterator[Desk]:
    """Start the worker; at the end let the calls under way finish within the settings' time.

    `others` open jobs of other kinds than runs; `lacks` tells which are for other servers.
    """
    settings = service.settings
    benchmarks = Benchmarks(service)
    presence = Presence(settings.out / "workers")
    openers: dict[str, Opener] = {
        RUN: partial(RunWork, settings, service.metrics, benchmarks),
        **others,
    }
    worker = Worker(
        service.queue, openers, presence, service.draining, settings.runs_at_once, lacks
    )
    busy = Gauge("mmconv_jobs", "Jobs under way here.", registry=service.metrics.registry)
    busy.set_function(lambda: worker.busy)
    working = asyncio.create_task(worker.work())
    try:
        yield Desk(benchmarks=benchmarks, worker=worker, working=working)
    finally:
        service.drain()
        try:
            await working
        finally:
            await worker.finish(settings.drain_seconds)
            presence.close()


async def _desk(request: Request) -> Desk:
    found = request.app.state.desk
    assert isinstance(found, Desk)
    return found


Runs = Annotated[Desk, Depends(_desk)]
"""A parameter that takes the desk."""
