"""Jobs as values: what is submitted, what the database holds, and how a job ends.

Nothing here asks a database; that is `mmconv.store.queue`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import orjson
from sqlalchemy import Row

from mmconv.core.run_stats import JobState

ACTIVE: tuple[JobState, ...] = ("queued", "running")
"""The states of a job that waits or is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job as it is submitted.

    Equal ids stand for equal `spec`s (JSON). `owner` is whose limits it counts against;
    `benchmark` and `model` are what lists are filtered by.
    """

    id: str
    kind: str
    owner: str
    spec: str
    benchmark: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the database holds it; times in UTC.

    `stopping` says that it is to stop and has not yet. `worker` holds it while it runs. `progress`
    is what the worker told last; `lost` counts calls without a reply at the end of a done one.
    `result` (JSON) is the outcome of a job that has no folder. `created` is when it was first
    submitted, `queued` when it was last, and `updated` when anything was told of it last: while it
    waits, also that a server can carry it out.
    """

    id: str
    kind: str
    owner: str
    spec: str
    benchmark: str | None
    model: str | None
    state: JobState
    stopping: bool
    worker: str | None
    lease: datetime | None
    starts: int
    progress: Mapping[str, Any]
    lost: int
    result: str | None
    error: str | None
    created: datetime
    queued: datetime
    started: datetime | None
    updated: datetime
    ended: datetime | None

    @property
    def is_active(self) -> bool:
        """Whether it waits or is under way."""
        return self.state in ACTIVE


Admission = Literal["new", "known", "resumed", "key_reused", "too_many", "not_owned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What came of submitting.

    `new` and `resumed` jobs are queued by it, a `known` one is under way or done. `key_reused`: the
    idempotency key stands for another job; `too_many`: its owner has too many active ones. Then
    `job` is None. `not_owned`: the `job` is another owner's, and only its owner may resume it.
    """

    admission: Admission
    job: Job | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs a list holds; what is None is not looked at."""

    kind: str | None = None
    owner: str | None = None
    state: JobState | None = None
    benchmark: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a job came to its end: done, or failed with an error that its owner may read."""

    state: Literal["done", "failed"]
    progress: Mapping[str, Any] = field(default_factory=dict)
    lost: int = 0
    result: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How many jobs of a kind wait and are under way, and how long the oldest one has waited."""

    queued: int = 0
    running: int = 0
    oldest_seconds: float = 0.0


Holding = Literal["held", "stop", "lost"]
"""What renewing a lease tells: go on, stop and give back, or it is another worker's by now."""


def read_job(row: Row[Any]) -> Job:
    """The job that a row of the table holds."""
    values = dict(row._mapping)
    for name in ("lease", "created", "queued", "started", "updated", "ended"):
        if values[name] is not None:
            values[name] = utc(values[name])
    return Job(**values | {"progress": orjson.loads(values["progress"])})


def utc(time: Any) -> datetime:
    """A time from the database, whether or not its driver tells the zone."""
    assert isinstance(time, datetime)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
