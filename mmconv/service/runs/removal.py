"""Runs that are removed: their jobs, and the folders that they have left behind.

Replies stay in the store. They are anybody's who asks the same, and what is posted again after its
removal is asked for nothing.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import orjson

from mmconv.service.errors.problems import Problem
from mmconv.service.jobs.operations import remove_job
from mmconv.service.runs.problems import folder_not_here
from mmconv.service.runs.requests import RunRequest, decisive, resolve
from mmconv.service.runs.resources import RunResources
from mmconv.service.settings import Settings
from mmconv.store.jobs import Job

WASTE = ".removed-"
"""What the names of folders begin with that are to be emptied."""


async def remove_run(resources: RunResources, job: Job) -> None:
    """Remove a run that is not under way, with its folder.

    A folder that another run has too, since it stands for the same specification, stays with it.
    Raises `Problem` 409 for a run that is under way, and for one whose folder is not here: it would
    be left where it lies, and nothing would tell of it any more.
    """
    shared = resources.service
    name = _folder_name(job)
    out = shared.settings.out
    if name and not job.is_active and _has_written(job) and not (out / name).is_dir():
        raise folder_not_here(
            job,
            out / name,
            "remove the run at the server that has it, or put the folder back (an empty one named "
            f"{name} will do where it is lost)",
        )

    def clear(found: Job, others: Iterable[Job]) -> None:
        folders = [out / "shown" / found.id, out / "compared"]
        if name and not any(_has(shared.settings, each, name, found) for each in others):
            folders.append(out / name)
        for folder in folders:
            _throw(folder, out)

    # Nothing is made from its files meanwhile.
    async with resources.reporting:
        await remove_job(shared, job, clear)
    await asyncio.to_thread(_empty, out)


def _folder_name(job: Job) -> str | None:
    """The name of the run's folder; None where it was never begun."""
    told = job.progress if job.result is None else orjson.loads(job.result)
    return told.get("folder")


def _has_written(job: Job) -> bool:
    """Whether the run has left a folder behind; one without a reply may have withdrawn it."""
    return job.result is not None or bool(job.progress.get("replies"))


def _has(settings: Settings, other: Job, name: str, job: Job) -> bool:
    """Whether another run has the folder of this name, or is about to write it."""
    if _folder_name(other) == name:
        return True
    return other.is_active and _stands_for_same(settings, other, job)


def _stands_for_same(settings: Settings, one: Job, other: Job) -> bool:
    try:
        first, second = (
            decisive(resolve(settings, RunRequest.model_validate_json(job.spec)))
            for job in (one, other)
        )
    except Problem:
        return False
    return first == second


def _throw(folder: Path, out: Path) -> None:
    """Move a folder away in one step, to be emptied in peace."""
    # It may never have been there.
    with suppress(FileNotFoundError):
        folder.rename(out / f"{WASTE}{secrets.token_hex(8)}")


def _empty(out: Path) -> None:
    """Remove what was thrown away, be it by a process that ended too early to do so."""
    for waste in out.glob(f"{WASTE}*"):
        shutil.rmtree(waste, ignore_errors=True)
