"""What requests about runs share: the service, built benchmarks, and this process's worker.

Opened after the service and closed before it: the worker then waits for the calls under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from fastapi import Depends, Request
from prometheus_client import Gauge

from mmconv.service.jobs.live_processes import ProcessMark
from mmconv.service.jobs.worker import Lacks, Opener, Worker
from mmconv.service.runs.benchmark_cache import BenchmarkCache
from mmconv.service.runs.execution import RUN, RunWork
from mmconv.service.state import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResources:
    """What requests share, built benchmarks, and the worker that carries jobs out.

    Reports are made in turn (`reporting`), and so are live views of runs (`viewing`): each keeps
    a processor busy for a while. `working` ends when the process does.
    """

    service: Service
    benchmarks: BenchmarkCache
    worker: Worker
    working: asyncio.Task[None]
    reporting: asyncio.Lock = field(default_factory=asyncio.Lock)
    viewing: asyncio.Lock = field(default_factory=asyncio.Lock)


@asynccontextmanager
async def open_run_resources(
    service: Service, others: Mapping[str, Opener], lacks: Lacks
) -> AsyncIterator[RunResources]:
    """Start the worker; at the end let the calls under way finish within the settings' time.

    `others` open jobs of other kinds than runs; `lacks` tells which are for other servers.
    """
    settings = service.settings
    benchmarks = BenchmarkCache(service)
    mark = ProcessMark(settings.out / "workers")
    openers: dict[str, Opener] = {
        RUN: partial(RunWork, settings, service.metrics, benchmarks),
        **others,
    }
    worker = Worker(service.queue, openers, mark, service.draining, settings.runs_at_once, lacks)
    busy = Gauge("mmconv_jobs", "Jobs under way here.", registry=service.metrics.registry)
    busy.set_function(lambda: worker.busy)
    working = asyncio.create_task(worker.work())
    try:
        yield RunResources(service=service, benchmarks=benchmarks, worker=worker, working=working)
    finally:
        service.drain()
        try:
            await working
        finally:
            await worker.finish(settings.drain_seconds)
            mark.close()


async def _resources(request: Request) -> RunResources:
    found = request.app.state.resources
    assert isinstance(found, RunResources)
    return found


Resources = Annotated[RunResources, Depends(_resources)]
"""A parameter that takes what runs need."""
