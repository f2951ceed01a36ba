"""How routes get at a run: its job, its folder, its data; and what they tell of it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import orjson
from fastapi import Path as InPath
from pydantic import Field

from mmconv.answers import Progress
from mmconv.core.errors import InputError
from mmconv.engine.run import Evaluation
from mmconv.report.page.content import About
from mmconv.run_folder.layout import TABLES
from mmconv.run_folder.saved_run import INDEX, read_manifest
from mmconv.service.errors.problems import Problem
from mmconv.service.http.query_parameters import QueryParameters, Word
from mmconv.service.runs.execution import RUN, open_run
from mmconv.service.runs.problems import folder_not_here, reading_data
from mmconv.service.runs.requests import RunRequest
from mmconv.service.runs.resources import RunResources
from mmconv.service.state import Service
from mmconv.store.jobs import Job

RUN_ID = r"^[A-Za-z0-9._-]{1,128}$"

RunId = Annotated[str, InPath(pattern=RUN_ID)]
"""The id of a run, in a path."""

Sample = Annotated[str, InPath(min_length=1, max_length=1000)]
"""A sample's name, in a path; it may hold slashes."""


class SampleQuery(QueryParameters):
    """Which samples: at most `limit`, behind the one named `after`."""

    after: Word | None = None
    limit: int = Field(default=100, ge=1, le=500)


async def find_run(shared: Service, run: str, param: str = "run") -> Job:
    """The run of this id, whose ever it is; raises `Problem` 404 about the field `param`."""
    job = await shared.queue.get(run)
    if job is None or job.kind != RUN:
        raise Problem(404, f"no run {run} is here", param=param)
    return job


async def about_run(resources: RunResources, job: Job) -> About | None:
    """What a run's data say of its samples; None where they are others, or there no more."""
    try:
        evaluation = await readable_run(resources, job, other_models=True)
        folder = finished_folder(resources.service, job)
        if "data" in await asyncio.to_thread(_changed, folder, evaluation):
            return None
        return await asyncio.to_thread(evaluation.about)
    except (InputError, Problem, OSError):
        return None


def finished_folder(shared: Service, job: Job) -> Path:
    """The folder of a run that was finished at least once; raises `Problem` 409."""
    if job.result is None:
        raise _not_finished(job)
    folder = shared.settings.out / str(orjson.loads(job.result)["folder"])
    if not folder.is_dir():
        raise folder_not_here(
            job, folder, "whoever runs them can give all servers one `out`, or put it back"
        )
    if job.is_active and not (folder / TABLES / INDEX).exists():
        # Resumed, it has written its scores, and its tables are made of them.
        raise _not_finished(job)
    return folder


def _not_finished(job: Job) -> Problem:
    next_step = "wait for its end" if job.is_active else "post it again to have it finished"
    told = f"the run {job.id} is not done (it is {job.state}): {next_step}"
    return Problem(409, told, param="run", code="not_finished")


async def is_outdated(resources: RunResources, job: Job) -> bool:
    """Whether a finished run's data, prompts or models were changed in place since.

    What cannot be read any more is not known to have changed.
    """
    shared = resources.service
    try:
        folder = finished_folder(shared, job)
        evaluation = await open_run(shared.settings, resources.benchmarks, job)
        moved = evaluation.run_id != folder.name
        return moved or bool(await asyncio.to_thread(_changed, folder, evaluation))
    except (InputError, Problem, OSError):
        return False


def _changed(folder: Path, evaluation: Evaluation) -> list[str]:
    """Which of data and prompts are not those that the results in the folder were made from."""
    before = read_manifest(folder).model_dump(mode="json")["facts"]
    today = evaluation.manifest().model_dump(mode="json")["facts"]
    return [name for name in ("data", "prompts") if before.get(name) != today.get(name)]


async def readable_run(
    resources: RunResources, job: Job, *, other_models: bool = False
) -> Evaluation:
    """The run, ready to be read; raises `Problem` where what it names is there no more.

    With `other_models` only what it says of its data counts.
    """
    shared = resources.service
    data = shared.settings.data.get(RunRequest.model_validate_json(job.spec).data)
    with reading_data(data.options if data else {}):
        return await open_run(shared.settings, resources.benchmarks, job, other_models=other_models)


def run_info(job: Job) -> dict[str, Any]:
    """The fields of `RunInfo`."""
    result = {} if job.result is None else orjson.loads(job.result)
    progress = {**_EMPTY, **job.progress}
    folder = progress.pop("folder", None)
    return {
        "id": job.id,
        "owner": job.owner,
        "state": job.state,
        "stopping": job.stopping,
        "benchmark": job.benchmark,
        "model": job.model,
        "request": orjson.Fragment(job.spec),
        "progress": progress,
        "lost": job.lost,
        "scores": result.get("scores"),
        "unscored": result.get("unscored"),
        "folder": result.get("folder", folder),
        "error": job.error,
        "created": job.created,
        "queued": job.queued,
        "started": job.started,
        "updated": job.updated,
        "ended": job.ended,
    }


_EMPTY = asdict(Progress())
