"""A run of a benchmark as the worker carries it out: its request, its evaluation, its progress."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

import orjson

from mmconv.answers import Progress
from mmconv.core.errors import ConfigError
from mmconv.engine import Runner
from mmconv.engine.run import Evaluation
from mmconv.service.errors.problems import Problem
from mmconv.service.jobs.progress import DONE, JobProgress, ending_of_halt
from mmconv.service.metrics import Metrics, RunnerMetrics
from mmconv.service.runs.benchmark_cache import BenchmarkCache
from mmconv.service.runs.requests import RunRequest, name_run, resolve
from mmconv.service.settings import Settings
from mmconv.store.jobs import Ending, Job

RUN: Final = "run"
"""The kind of jobs that are runs of benchmarks."""


class RunWork:
    """See `mmconv.service.jobs.worker.Work`. The report as a page is made when it is asked for."""

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
        """The fields of `Progress`, and the name of the run's folder as soon as it is known."""
        if self._runner is None or self._evaluation is None or self._counted is None:
            return {**self._job.progress, **asdict(Progress())}
        self._counted.tell(self._runner.stats)
        progress = self._progress.read(self._runner.stats, self._evaluation.plan_count)
        return progress | {"folder": self._evaluation.run_id}

    def stop(self) -> None:
        """Ask nothing more."""
        self._stopped = True
        if self._runner is not None:
            self._runner.stop()

    async def run(self) -> Ending | None:
        """Run to the end; the result names the run's folder."""
        self._evaluation = await open_run(self._settings, self._benchmarks, self._job)
        names = RunRequest.model_validate_json(self._job.spec).seats
        self._counted = RunnerMetrics(self._metrics, RUN, names, self._job.owner)
        self._runner = self._evaluation.runner()
        if self._stopped:
            return None
        result = await self._evaluation.run(self._runner, page=False)
        if not result.complete:
            return ending_of_halt(self._job, self._runner.stats, self.progress())
        told = {
            "folder": result.folder.name,
            "scores": result.scores,
            "unscored": dict(result.unscored),
        }
        return Ending(
            state="done",
            progress=self.progress() | DONE,
            lost=result.stats.lost,
            result=orjson.dumps(told).decode(),
        )


async def open_run(
    settings: Settings, benchmarks: BenchmarkCache, job: Job, *, other_models: bool = False
) -> Evaluation:
    """The evaluation that a job stands for; with `other_models` by today's settings.

    Raises `ConfigError` where the operator has configured otherwise by now what it names,
    `InputError` where the data cannot be read.
    """
    request = RunRequest.model_validate_json(job.spec)
    try:
        spec = resolve(settings, request)
    except Problem as problem:
        raise ConfigError(problem.message) from problem
    if name_run(request, spec) != job.id and not other_models:
        raise ConfigError("what this run names is configured otherwise by now; post it again")
    return await benchmarks.evaluation(spec)
