"""What the API says of runs: as their clients asked for them, how they are, what is in them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson
from pydantic import BaseModel

from mmconv.service.run_requests import RunRequest
from mmconv.service.run_work import Progress
from mmconv.store.jobs import Job, JobState


class RunInfo(BaseModel):
    """A run as it was asked for, and how it is.

    `progress` is of the session under way or the last one; a run that was resumed finds in the
    store what is answered. `lost` counts calls without a reply at the end, `scores` all scores and
    `unscored` those without a value, by reason; null before the end. `folder` is the name of the
    folder in the server's `out` that `mmconv show` and the other commands take, null until it is
    written. Times are in UTC; `created` is when it was first posted, `queued` when it was last.
    """

    id: str
    state: JobState
    stopping: bool
    benchmark: str | None
    model: str | None
    request: RunRequest
    progress: Progress
    lost: int
    scores: int | None
    unscored: dict[str, int] | None
    folder: str | None
    error: str | None
    created: datetime
    queued: datetime
    started: datetime | None
    updated: datetime
    ended: datetime | None


class RunList(BaseModel):
    """Runs, the newest first; `next` is the `after` of the following page, or null."""

    data: list[RunInfo]
    next: str | None


class ScoreList(BaseModel):
    """Scores in the run's order; `next` is the `after` of the following page, or null."""

    data: list[dict[str, Any]]
    next: int | None


class SampleInfo(BaseModel):
    """A sample and how far its calls are: all, those with a reply, those that failed."""

    sample: str
    conditions: tuple[str, ...]
    calls: int
    replies: int
    failures: int


class SampleList(BaseModel):
    """Samples in the run's order; `next` is the `after` of the following page, or null."""

    data: list[SampleInfo]
    next: str | None


class SampleTranscript(BaseModel):
    """All calls of a sample, as they were sent and came back, and its scores.

    Images are named by their SHA-256. A judge's messages are null where they are a prompt file
    filled in; with `prompts=true` they are there.
    """

    sample: str
    calls: list[dict[str, Any]]
    scores: list[dict[str, Any]]


def run_info(job: Job) -> dict[str, Any]:
    """The fields of `RunInfo`."""
    result = {} if job.result is None else orjson.loads(job.result)
    progress = {**_EMPTY, **job.progress}
    folder = progress.pop("folder", None)
    return {
        "id": job.id,
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


_EMPTY = orjson.loads(orjson.dumps(Progress()))
