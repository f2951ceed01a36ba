"""The SQL statements of the queue; `mmconv.store.queue` runs them in its transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Select,
    Update,
    and_,
    case,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from mmconv.store.jobs import ACTIVE, Backlog, Filter, Job, NewJob, read_job, utc
from mmconv.store.schema import job_keys, jobs, now_of

MOST_STARTS = 10
"""Starts without a new reply after which a job counts as the reason why its workers end."""

UNFIT_SECONDS = 900.0
"""How long a job waits if no server can run it."""


def job_of_key(connection: Connection, owner: str, key: str | None) -> str | None:
    """The id of the job of an owner's idempotency key."""
    mine = (job_keys.c.owner == owner, job_keys.c.key == key)
    return connection.scalar(select(job_keys.c.job).where(*mine))


def stands(job: Job) -> bool:
    """Whether submitting the job again changes nothing: it is under way, or done without a loss."""
    return (job.is_active and not job.stopping) or (job.state == "done" and not job.lost)


def is_full(connection: Connection, new: NewJob, most: int | None) -> bool:
    """Whether the job's owner has `most` other active ones."""
    if most is None:
        return False
    active = select(func.count()).where(
        jobs.c.owner == new.owner,
        jobs.c.state.in_(ACTIVE),
        jobs.c.id != new.id,
    )
    return (connection.scalar(active) or 0) >= most


def queued(new: NewJob, now: datetime, *, again: bool) -> Insert | Update:
    """The statement that queues a job; one that is still stopping stays with its worker.

    It stays its first owner's too.
    """
    fresh = {
        "stopping": False,
        "starts": 0,
        "lost": 0,
        "queued": now,
        "updated": now,
    }
    if again:
        state = case((jobs.c.state == "running", "running"), else_="queued")
        changed = fresh | {"state": state, "error": None, "ended": None}
        return update(jobs).where(jobs.c.id == new.id).values(changed)
    asked = {
        "id": new.id,
        "kind": new.kind,
        "owner": new.owner,
        "spec": new.spec,
        "benchmark": new.benchmark,
        "model": new.model,
    }
    return insert(jobs).values(
        fresh | asked | {"state": "queued", "progress": "{}", "created": now}
    )


def is_free(now: datetime) -> ColumnElement[bool]:
    """The condition that a job is queued, or that its worker is gone."""
    expired = and_(jobs.c.state == "running", jobs.c.lease < now)
    return or_(jobs.c.state == "queued", expired)


def count_active(connection: Connection) -> dict[str, Backlog]:
    """How many jobs are queued and running, by kind."""
    now = now_of(connection)
    columns = (jobs.c.kind, jobs.c.state, func.count(), func.min(jobs.c.queued))
    active = select(*columns).where(jobs.c.state.in_(ACTIVE)).group_by(jobs.c.kind, jobs.c.state)
    found: dict[str, Backlog] = {}
    for kind, state, count, oldest in connection.execute(active):
        counted = found.setdefault(kind, Backlog())
        if state == "running":
            found[kind] = replace(counted, running=count)
        else:
            age = max(0.0, (now - utc(oldest)).total_seconds())
            found[kind] = replace(counted, queued=count, oldest_seconds=age)
    return found


def free_jobs(connection: Connection) -> list[tuple[str, str, str]]:
    """Ids, kinds and states of the free jobs, in the order in which to take them.

    Owners take turns: first the owner with the fewest running jobs of the kind, then the job that
    waits longest.
    """
    rows = connection.execute(_in_turn(now_of(connection)))
    return [(row.id, row.kind, row.state) for row in rows]


def _in_turn(now: datetime) -> Select[Any]:
    held = (
        select(jobs.c.owner, jobs.c.kind, func.count().label("count"))
        .where(jobs.c.state == "running", jobs.c.lease >= now)
        .group_by(jobs.c.owner, jobs.c.kind)
        .subquery()
    )
    same = and_(held.c.owner == jobs.c.owner, held.c.kind == jobs.c.kind)
    return (
        select(jobs.c.id, jobs.c.kind, jobs.c.state)
        .select_from(jobs.outerjoin(held, same))
        .where(is_free(now))
        .order_by(func.coalesce(held.c.count, 0), jobs.c.queued, jobs.c.id)
    )


def taken(job_id: str, worker: str, now: datetime, lease: float) -> ReturningUpdate[Any]:
    """The statement that leases a job to a worker for `lease` seconds, if it is still free."""
    return (
        update(jobs)
        .where(jobs.c.id == job_id, is_free(now))
        .values(
            state="running",
            worker=worker,
            lease=now + timedelta(seconds=lease),
            starts=jobs.c.starts + 1,
            started=func.coalesce(jobs.c.started, now),
            updated=now,
        )
        .returning(jobs)
    )


def settle_orphans(connection: Connection, now: datetime) -> None:
    """End orphaned jobs that were to stop, or that ended their workers repeatedly."""
    orphaned = and_(jobs.c.state == "running", jobs.c.lease < now)
    ended = {"worker": None, "lease": None, "updated": now, "ended": now}
    stopped = update(jobs).where(orphaned, jobs.c.stopping)
    connection.execute(stopped.values(state="stopped", stopping=False, **ended))
    hopeless = update(jobs).where(orphaned, jobs.c.starts >= MOST_STARTS)
    error = f"the server ended {MOST_STARTS} times in a row while at it, without a new reply"
    connection.execute(hopeless.values(state="failed", error=error, **ended))


def sort_free(
    connection: Connection, find_missing: Callable[[Job], str | None]
) -> tuple[list[str], dict[str, str]]:
    """The ids of free jobs that this server can run, and of the others with what is missing."""
    fit, unfit = [], {}
    for name, _, _ in free_jobs(connection):
        # `Queue.take` reports a job that cannot be read
        with suppress(ValueError):
            job = find_job(connection, name)
            missing = None if job is None else find_missing(job)
            if missing is None:
                fit.append(name)
            else:
                unfit[name] = missing
    return fit, unfit


def settle_unfit(connection: Connection, fit: Sequence[str], unfit: Mapping[str, str]) -> None:
    """Mark free jobs that fit as seen; fail others that no server could run for too long."""
    now = now_of(connection)
    connection.execute(update(jobs).where(jobs.c.id.in_(fit), is_free(now)).values(updated=now))
    forgotten = and_(is_free(now), jobs.c.updated < now - timedelta(seconds=UNFIT_SECONDS))
    ended = {"worker": None, "lease": None, "stopping": False, "updated": now, "ended": now}
    for name, missing in unfit.items():
        error = (
            f"no server has had {missing} for {UNFIT_SECONDS / 60:g} minutes: "
            "post it again when one has"
        )
        failed = update(jobs).where(jobs.c.id == name, forgotten)
        connection.execute(failed.values(state="failed", error=error, **ended))


def is_held(job_id: str, worker: str) -> ColumnElement[bool]:
    """The condition that this worker holds the job."""
    return and_(jobs.c.id == job_id, jobs.c.worker == worker, jobs.c.state == "running")


def is_behind(last: Job) -> ColumnElement[bool]:
    """The condition that a job comes after this one in a list, the newest first."""
    same = and_(jobs.c.created == last.created, jobs.c.id < last.id)
    return or_(jobs.c.created < last.created, same)


def narrowed(query: Select[Any], chosen: Filter) -> Select[Any]:
    """The query with the conditions of the filter."""
    for name in ("kind", "owner", "state", "benchmark", "model"):
        value = getattr(chosen, name)
        if value is not None:
            query = query.where(jobs.c[name] == value)
    return query


def find_job(connection: Connection, job_id: str) -> Job | None:
    """The job, if there is one of this id."""
    row = connection.execute(select(jobs).where(jobs.c.id == job_id)).first()
    return None if row is None else read_job(row)
