"""Runs as the worker executes them, and what requests about runs share."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated, Any, Final

import orjson
from fastapi import Depends, Request
from prometheus_client import Gauge

from mmconv.api.schemas import Progress
from mmconv.benchmarks.base import Benchmark
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError
from mmconv.engine import Runner
from mmconv.engine.resources import Resources
from mmconv.engine.run import Evaluation
from mmconv.engine.setup import build_benchmark
from mmconv.service.errors import Problem
from mmconv.service.jobs import DONE, JobProgress, ending_of_halt
from mmconv.service.metrics import Metrics, RunnerMetrics
from mmconv.service.runs.requests import RunRequest, name_run, resolve
from mmconv.service.settings import Settings
from mmconv.service.state import Service
from mmconv.service.worker import FindMissing, Opener, ProcessMark, Worker
from mmconv.store.jobs import Ending, Job

RUN: Final = "run"
"""The kind of jobs that are runs of benchmarks."""

CACHED = 8
"""How many built benchmarks are cached. Each holds the texts of its data set."""


class BenchmarkCache:
    """The last few benchmarks that were built: their data is checked, they are ready to plan.

    Building reads all data, in a thread, one benchmark at a time. So the worker need not check what
    a request has checked. Image metadata goes into the store: after a restart images are hashed but
    not decoded again.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._built: OrderedDict[str, Benchmark[Any, Any]] = OrderedDict()
        self._building = asyncio.Lock()

    async def get(self, spec: RunSpec) -> Benchmark[Any, Any]:
        """The benchmark of a run. Raises `InputError` for options or data."""
        name = spec.model_dump_json()
        if name not in self._built:
            async with self._building:
                # Another request may have built it meanwhile.
                if name not in self._built:
                    read = self._resources_for(spec).read_data
                    self._built[name] = await read(partial(build_benchmark, spec))
                    if len(self._built) > CACHED:
                        self._built.popitem(last=False)
        self._built.move_to_end(name)
        return self._built[name]

    async def evaluation(self, spec: RunSpec) -> Evaluation:
        """A run with roles of its own, so that stopping it stops nothing else."""
        return Evaluation(
            spec=spec,
            place=self._service.settings.place,
            resources=self._resources_for(spec),
            benchmark=await self.get(spec),
        )

    def _resources_for(self, spec: RunSpec) -> Resources:
        service = self._service
        return Resources(
            spec=spec,
            store=service.store,
            library=service.library,
            models=service.models.lend(spec),
            facts=service.facts,
        )


class RunWork:
    """A run as `mmconv.service.worker.Work`. Its report page is made on first request."""

    def __init__(
        self, settings: Settings, metrics: Metrics, benchmarks: BenchmarkCache, job: Job
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._benchmarks = benchmarks
        self._job = job
        self._evaluation: Evaluation | None = None
        self._runner: Runner | None = None
        self._counted: RunnerMetrics | None = None
        self._stopped = False
        self._progress = JobProgress()

    def progress(self) -> dict[str, Any]:
        """The fields of `Progress`, and the name of the run's folder once it is known."""
        if self._runner is None or self._evaluation is None or self._counted is None:
            return {**self._job.progress, **asdict(Progress())}
        self._counted.update(self._runner.stats)
        progress = self._progress.read(self._runner.stats, self._evaluation.plan_count)
        return progress | {"folder": self._evaluation.run_id}

    def stop(self) -> None:
        """Make no new calls."""
        self._stopped = True
        if self._runner is not None:
            self._runner.stop()

    async def run(self) -> Ending | None:
        """Run to the end. The result names the run's folder."""
        self._evaluation = await open_run(self._settings, self._benchmarks, self._job)
        names = RunRequest.model_validate_json(self._job.spec).models
        self._counted = RunnerMetrics(self._metrics, RUN, names, self._job.owner)
        self._runner = self._evaluation.runner()
        if self._stopped:
            return None
        result = await self._evaluation.run(self._runner, page=False)
        if not result.complete:
            return ending_of_halt(self._job, self._runner.stats, self.progress())
        summary = {
            "folder": result.folder.name,
            "scores": result.scores,
            "unscored": dict(result.unscored),
        }
        return Ending(
            state="done",
            progress=self.progress() | DONE,
            lost=result.stats.lost,
            result=orjson.dumps(summary).decode(),
        )


async def open_run(
    settings: Settings, benchmarks: BenchmarkCache, job: Job, *, other_models: bool = False
) -> Evaluation:
    """The evaluation that a job stands for; with `other_models` by today's settings.

    Raises `ConfigError` if the operator has changed what it names, `InputError` if the data cannot
    be read.
    """
    request = RunRequest.model_validate_json(job.spec)
    try:
        spec = resolve(settings, request)
    except Problem as problem:
        raise ConfigError(problem.message) from problem
    if name_run(request, spec) != job.id and not other_models:
        raise ConfigError("what this run names is configured otherwise by now; post it again")
    return await benchmarks.evaluation(spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResources:
    """What requests about runs share: the service, built benchmarks, and this process's worker.

    Reports are made one at a time (`reporting`), and so are live views of runs (`viewing`): each
    keeps a processor busy for a while. `working` ends when the process does.
    """

    service: Service
    benchmarks: BenchmarkCache
    worker: Worker
    working: asyncio.Task[None]
    reporting: asyncio.Lock = field(default_factory=asyncio.Lock)
    viewing: asyncio.Lock = field(default_factory=asyncio.Lock)


@asynccontextmanager
async def open_run_resources(
    service: Service, openers: Mapping[str, Opener], find_missing: FindMissing
) -> AsyncIterator[RunResources]:
    """Start the worker. At the end let the calls under way finish within the settings' time.

    `openers` are those of other kinds of jobs than runs.
    """
    settings = service.settings
    benchmarks = BenchmarkCache(service)
    mark = ProcessMark(settings.out / "workers")
    run_opener = partial(RunWork, settings, service.metrics, benchmarks)
    worker = Worker(
        service.queue,
        {RUN: run_opener, **openers},
        mark,
        service.draining,
        settings.runs_at_once,
        find_missing,
    )
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
    resources: RunResources = request.app.state.resources
    return resources


ServedRuns = Annotated[RunResources, Depends(_resources)]
"""A parameter: what requests about runs share."""
