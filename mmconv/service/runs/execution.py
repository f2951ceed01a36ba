"""Runs as jobs: how the worker executes them, and how requests find them, their folder and data."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
from fastapi import Path as InPath
from pydantic import Field
from pydantic_core import to_jsonable_python

from mmconv.benchmarks.base import Benchmark
from mmconv.core.errors import ConfigError, InputError
from mmconv.core.run_stats import Progress
from mmconv.engine.run import Evaluation
from mmconv.report.page.content import About
from mmconv.run_folder.layout import TABLES
from mmconv.run_folder.saved_run import INDEX, read_manifest
from mmconv.service.errors import Problem
from mmconv.service.http.requests import QueryParameters, Word
from mmconv.service.jobs import Work
from mmconv.service.runs.requests import RunRequest, name_run, reading_data, resolve
from mmconv.service.state import Readable, Service
from mmconv.store.jobs import Ending, Job

log = logging.getLogger(__name__)

RUN: Final = "run"
"""The kind of jobs that are runs of benchmarks."""

RUN_ID = r"^[A-Za-z0-9._-]{1,128}$"

RunId = Annotated[str, InPath(pattern=RUN_ID)]
"""The id of a run, in a path."""

Sample = Annotated[str, InPath(min_length=1, max_length=1000)]
"""A sample's name, in a path. It may contain slashes."""


class SampleQuery(QueryParameters):
    """Which samples: at most `limit`, after the one named `after`."""

    after: Word | None = None
    limit: int = Field(default=100, ge=1, le=500)


class RunWork(Work):
    """A queued run. Its report page is made on first request."""

    kind = RUN
    _folder: str | None = None

    def progress(self) -> dict[str, Any]:
        """The fields of `Progress`, and the name of the run's folder once it is known."""
        progress = super().progress()
        return progress if self._folder is None else progress | {"folder": self._folder}

    async def run(self) -> Ending | None:
        """Run to the end. The result names the run's folder."""
        evaluation = await open_run(self._shared, self._job)
        names = RunRequest.model_validate_json(self._job.spec).models
        runner = evaluation.runner()
        self._folder = evaluation.run_id
        if not self.begin(runner, evaluation.plan_count, names):
            return None
        result = await evaluation.run(runner, page=False)
        if not result.complete:
            return self.halted(runner.stats.stop_reason)
        summary = {
            "folder": result.folder.name,
            "scores": result.scores,
            "unscored": dict(result.unscored),
        }
        return self.done(result.stats.lost, summary)


async def open_run(shared: Service, job: Job, *, other_models: bool = False) -> Evaluation:
    """The evaluation that a job stands for; with `other_models` by today's settings.

    Raises `ConfigError` if the operator has changed what it names, `InputError` if the data cannot
    be read.
    """
    request = RunRequest.model_validate_json(job.spec)
    try:
        spec = resolve(shared.settings, request)
    except Problem as problem:
        raise ConfigError(problem.message) from problem
    if name_run(request, spec) != job.id and not other_models:
        raise ConfigError("what this run names is configured otherwise by now; post it again")
    return await shared.evaluation(spec)


async def find_run(shared: Readable, run: str, param: str = "run") -> Job:
    """The run of this id, of any owner. Raises `Problem` 404 about the field `param`."""
    job = await shared.queue.get(run)
    if job is None or job.kind != RUN:
        raise Problem(404, f"no run {run} is here", param=param)
    return job


async def about_run(shared: Readable, job: Job) -> About | None:
    """What a run's data says of its samples; None if the data has changed or is gone."""
    try:
        benchmark = await readable_data(shared, job)
        folder = finished_folder(shared, job)
        if "data" in await asyncio.to_thread(_changed, folder, benchmark):
            return None
        return await asyncio.to_thread(_metadata, benchmark)
    except (InputError, Problem, OSError):
        return None


def _metadata(benchmark: Benchmark[Any, Any]) -> About:
    return {sample.id: benchmark.metadata(sample) for sample in benchmark.load()}


def finished_folder(shared: Readable, job: Job) -> Path:
    """The folder of a run that has finished at least once. Raises `Problem` 409."""
    folder = result_folder(shared, job)
    if folder is not None:
        if not folder.is_dir():
            advice = "the operator can give all servers one `out`, or restore the folder"
            raise folder_not_here(job, folder, advice)
        # A resumed run writes its scores first, and then the tables that are made of them.
        if not job.is_active or (folder / TABLES / INDEX).exists():
            return folder
    next_step = "wait for its end" if job.is_active else "start it again to finish it"
    message = f"the run {job.id} is not done (it is {job.state}): {next_step}"
    raise Problem(409, message, param="run", code="not_finished")


def result_folder(shared: Readable, job: Job) -> Path | None:
    """The folder of a run that has finished at least once, whether or not it is here."""
    if job.result is None:
        return None
    return shared.settings.out / str(orjson.loads(job.result)["folder"])


def folder_not_here(job: Job, folder: Path, advice: str) -> Problem:
    """The error for a run whose folder is not on this server."""
    log.warning("%s of %s is not there: servers of one database need one `out`", folder, job.id)
    message = (
        f"the folder of the run {job.id} is not on this server: it is on another server of the "
        f"same database, or was removed; {advice}"
    )
    return Problem(409, message, param="run", code="not_here")


async def is_outdated(shared: Service, job: Job) -> bool:
    """Whether a finished run's data, prompts or models were changed in place since.

    What cannot be read any more does not count as changed.
    """
    try:
        folder = finished_folder(shared, job)
        evaluation = await open_run(shared, job)
        moved = evaluation.run_id != folder.name
        return moved or bool(await asyncio.to_thread(_changed, folder, evaluation.benchmark))
    except (InputError, Problem, OSError):
        return False


def _changed(folder: Path, benchmark: Benchmark[Any, Any]) -> list[str]:
    """Which of data and prompts differ from those of the results in the folder."""
    before = read_manifest(folder).model_dump(mode="json")["provenance"]
    today = to_jsonable_python(benchmark.provenance)
    return [name for name in ("data", "prompts") if before.get(name) != today.get(name)]


async def readable_run(shared: Readable, job: Job) -> Evaluation:
    """The run, ready to be read. Raises `Problem` 409 if what it names is gone."""
    with reading_data(_data_options(shared, job)):
        return await shared.open_run(job)


async def readable_data(shared: Readable, job: Job) -> Benchmark[Any, Any]:
    """The benchmark with the run's data. Raises `Problem` 409 if they are gone."""
    with reading_data(_data_options(shared, job)):
        return await shared.open_data(job)


def _data_options(shared: Readable, job: Job) -> Mapping[str, Any]:
    data = shared.settings.data.get(orjson.loads(job.spec)["data"])
    return data.options if data else {}


def run_info(job: Job) -> dict[str, Any]:
    """The fields of `RunInfo`."""
    result = {} if job.result is None else orjson.loads(job.result)
    progress = {**_EMPTY, **job.progress}
    folder = progress.pop("folder", None)
    same = ("id", "owner", "state", "stopping", "benchmark", "model", "lost", "error", "created")
    times = ("queued", "started", "updated", "ended")
    return {name: getattr(job, name) for name in (*same, *times)} | {
        "request": orjson.Fragment(job.spec),
        "progress": progress,
        "scores": result.get("scores"),
        "unscored": result.get("unscored"),
        "folder": result.get("folder", folder),
    }


_EMPTY = asdict(Progress())
