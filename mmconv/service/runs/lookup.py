"""How routes find a run: its job, folder and data, and the fields that describe it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import orjson
from fastapi import Path as InPath
from pydantic import Field

from mmconv.api.schemas import Progress
from mmconv.core.errors import InputError
from mmconv.engine.run import Evaluation
from mmconv.report.page.content import About
from mmconv.run_folder.layout import TABLES
from mmconv.run_folder.saved_run import INDEX, read_manifest
from mmconv.service.errors import Problem
from mmconv.service.http.requests import QueryParameters, Word
from mmconv.service.runs.execution import RUN, RunResources, open_run
from mmconv.service.runs.requests import RunRequest, folder_not_here, reading_data
from mmconv.service.state import Service
from mmconv.store.jobs import Job

RUN_ID = r"^[A-Za-z0-9._-]{1,128}$"

RunId = Annotated[str, InPath(pattern=RUN_ID)]
"""The id of a run, in a path."""

Sample = Annotated[str, InPath(min_length=1, max_length=1000)]
"""A sample's name, in a path. It may contain slashes."""


class SampleQuery(QueryParameters):
    """Which samples: at most `limit`, after the one named `after`."""

    after: Word | None = None
    limit: int = Field(default=100, ge=1, le=500)


async def find_run(shared: Service, run: str, param: str = "run") -> Job:
    """The run of this id, of any owner. Raises `Problem` 404 about the field `param`."""
    job = await shared.queue.get(run)
    if job is None or job.kind != RUN:
        raise Problem(404, f"no run {run} is here", param=param)
    return job


async def about_run(resources: RunResources, job: Job) -> About | None:
    """What a run's data says of its samples; None if the data has changed or is gone."""
    try:
        evaluation = await readable_run(resources, job, other_models=True)
        folder = finished_folder(resources.service, job)
        if "data" in await asyncio.to_thread(_changed, folder, evaluation):
            return None
        return await asyncio.to_thread(evaluation.about)
    except (InputError, Problem, OSError):
        return None


def finished_folder(shared: Service, job: Job) -> Path:
    """The folder of a run that has finished at least once. Raises `Problem` 409."""
    if job.result is not None:
        folder = shared.settings.out / str(orjson.loads(job.result)["folder"])
        if not folder.is_dir():
            advice = "the operator can give all servers one `out`, or restore the folder"
            raise folder_not_here(job, folder, advice)
        # A resumed run writes its scores first, and then the tables that are made of them.
        if not job.is_active or (folder / TABLES / INDEX).exists():
            return folder
    next_step = "wait for its end" if job.is_active else "post it again to have it finished"
    message = f"the run {job.id} is not done (it is {job.state}): {next_step}"
    raise Problem(409, message, param="run", code="not_finished")


async def is_outdated(resources: RunResources, job: Job) -> bool:
    """Whether a finished run's data, prompts or models were changed in place since.

    What cannot be read any more does not count as changed.
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
    """Which of data and prompts differ from those of the results in the folder."""
    before = read_manifest(folder).model_dump(mode="json")["facts"]
    today = evaluation.manifest().model_dump(mode="json")["facts"]
    return [name for name in ("data", "prompts") if before.get(name) != today.get(name)]


async def readable_run(
    resources: RunResources, job: Job, *, other_models: bool = False
) -> Evaluation:
    """The run, ready to be read. Raises `Problem` 409 if what it names is gone.

    With `other_models` only its data must be there.
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
