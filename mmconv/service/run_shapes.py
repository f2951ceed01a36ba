"""Lists of the API about runs, and how a run is told from its job."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson
from pydantic import BaseModel

from mmconv.answers import Progress, RunInfo, SampleInfo
from mmconv.store.jobs import Job


class RunList(BaseModel):
    """Runs, the newest first; `next` is the `after` of the following page, or null."""

    data: list[RunInfo]
    next: str | None


class ScoreList(BaseModel):
    """Scores in the run's order; `next` is the `after` of the following page, or null."""

    data: list[dict[str, Any]]
    next: int | None


class SampleList(BaseModel):
    """Samples in the run's order; `next` is the `after` of the following page, or null."""

    data: list[SampleInfo]
    next: str | None


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
