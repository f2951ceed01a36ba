"""Jobs as values: submitted, as the database holds them, and ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import orjson
from sqlalchemy import Connection, Row, Select, or_, select

from mmconv.core.run_stats import JobState
from mmconv.store.schema import jobs

ACTIVE: tuple[JobState, ...] = ("queued", "running")
"""The states of a job that has not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job as it is submitted.

    Jobs of equal ids do the same; their `spec`s (JSON) may differ in the webhook. It counts
    against the limits of its `owner`; lists can be filtered by `benchmark` and `model`.
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

    `stopping`: it is to stop and has not yet. `worker` holds it while it runs. `progress` is the
    latest report of the worker; `lost` counts calls without a reply when it is done. `result`
    (JSON) is the outcome of a job without a folder. It was first submitted at `created` and last at
    `queued`; its row changed at `updated`.
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
        """Whether it is queued or running."""
        return self.state in ACTIVE

    @property
    def is_current(self) -> bool:
        """Whether submitting it again changes nothing: it is active, or done without a loss."""
        return (self.is_active and not self.stopping) or (self.state == "done" and not self.lost)


Admission = Literal["new", "known", "resumed", "key_reused", "too_many", "not_owned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The result of submitting a job.

    `new` and `resumed` jobs are queued, a `known` one is active or done. `key_reused`: the
    idempotency key belongs to another job; `too_many`: its owner has too many active ones. Then
    `job` is None. `not_owned`: the `job` is another owner's, and only its owner may resume it.
    """

    admission: Admission
    job: Job | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The conditions of a list of jobs; None means any.

    Jobs whose ids begin with `private` are left out, unless `reader` owns them or is None.
    """

    kind: str | None = None
    owner: str | None = None
    state: JobState | None = None
    benchmark: str | None = None
    model: str | None = None
    private: str = ""
    reader: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a job ended: done, or failed with an error for its owner."""

    state: Literal["done", "failed"]
    progress: Mapping[str, Any] = field(default_factory=dict)
    lost: int = 0
    result: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How many jobs of a kind are queued and running, and how long the oldest has waited."""

    queued: int = 0
    running: int = 0
    oldest_seconds: float = 0.0


Holding = Literal["held", "stop", "lost"]
"""The result of renewing a lease: go on, stop and give back, or another worker has it."""


def read_job(row: Row[Any]) -> Job:
    """The job that a row of the table holds."""
    values = dict(row._mapping)
    for name in ("lease", "created", "queued", "started", "updated", "ended"):
        if values[name] is not None:
            values[name] = utc(values[name])
    return Job(**values | {"progress": orjson.loads(values["progress"])})


def utc(time: Any) -> datetime:
    """A time from the database in UTC, even if its driver gives no time zone."""
    assert isinstance(time, datetime)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def find_job(connection: Connection, job_id: str) -> Job | None:
    """The job, if there is one of this id."""
    row = connection.execute(select(jobs).where(jobs.c.id == job_id)).first()
    return None if row is None else read_job(row)


def narrow(query: Select[Any], chosen: Filter) -> Select[Any]:
    """The query with the conditions of the filter."""
    for name in ("kind", "owner", "state", "benchmark", "model"):
        value = getattr(chosen, name)
        if value is not None:
            query = query.where(jobs.c[name] == value)
    if chosen.reader is not None:
        is_public = ~jobs.c.id.startswith(chosen.private, autoescape=True)
        query = query.where(or_(is_public, jobs.c.owner == chosen.reader))
    return query
