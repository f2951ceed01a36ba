"""The service's queue: jobs in the store's database, and the workers that hold them.

A job's id stands for its specification, so posting it again submits nothing new. A worker takes a
job with a lease and renews it. If the worker dies, the lease expires and another worker continues
the job; two workers never hold it at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import partial, wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, get_args

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from mmconv.store.connections import connect
from mmconv.store.jobs import (
    ACTIVE,
    Admission,
    Backlog,
    Ending,
    Filter,
    Holding,
    Job,
    NewJob,
    Submission,
    find_job,
    narrow,
    read_job,
    utc,
)
from mmconv.store.rows import insert_new
from mmconv.store.schema import SUBMITTING, hold_alone, job_keys, jobs, now_of

LEASE_SECONDS = 30.0
"""How long a job stays with a worker that does not renew its lease."""

KEY_SECONDS = 86_400.0
"""How long an idempotency key is valid; then it may be used for another job."""

MOST_STARTS = 10
"""Starts without a new reply after which a job counts as the reason why its workers end."""

CHUNK = 100
"""Jobs in memory at once when all are read."""

FREED: dict[str, Any] = {"stopping": False, "worker": None, "lease": None}
"""Columns of a job that no worker holds any more."""

_Thread: TypeAlias = Literal["reader", "writer"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _on_thread(
    name: _Thread,
) -> Callable[
    [Callable[Concatenate[Queue, Arguments], Result]],
    Callable[Concatenate[Queue, Arguments], Coroutine[Any, Any, Result]],
]:
    """Make a coroutine of a method that blocks: it runs on one of the queue's threads."""

    def decorate(
        method: Callable[Concatenate[Queue, Arguments], Result],
    ) -> Callable[Concatenate[Queue, Arguments], Coroutine[Any, Any, Result]]:
        @wraps(method)
        async def run(self: Queue, /, *args: Arguments.args, **named: Arguments.kwargs) -> Result:
            work = partial(method, self, *args, **named)
            return await asyncio.get_running_loop().run_in_executor(self._threads[name], work)

        return run

    return decorate


class Queue:
    """The jobs in one database, which also holds the replies of `mmconv.store.Store`.

    Writes run on one thread and reads on another, so that reads never delay the renewal of a lease.
    Leases use the clock of the database server. The coroutines raise `StoreError` if the database
    fails. `news` is set whenever this process queues a job.
    """

    def __init__(self, url: str) -> None:
        self.news = asyncio.Event()
        self._engine = connect(url)
        self._threads = {
            name: ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"mmconv-queue-{name}")
            for name in get_args(_Thread)
        }

    async def submit(
        self,
        new: NewJob,
        *,
        key: str | None = None,
        most: int | None = None,
        for_others: bool = False,
        afresh: bool = False,
    ) -> Submission:
        """Queue a job, or return the existing one of this id.

        A job that stopped, failed or lost calls is queued again; with `afresh` one that is done,
        too. Only its first owner may do that, or with `for_others` anyone; the owner stays.
        `key` is the owner's idempotency key; the owner may have `most` active jobs.
        """
        submitted = await self._submit(new, key, most, for_others, afresh)
        if submitted.admission in ("new", "resumed"):
            self.news.set()
        return submitted

    @_on_thread("reader")
    def get(self, job_id: str) -> Job | None:
        """The job, if there is one of this id."""
        with self._engine.connect() as connection:
            return find_job(connection, job_id)

    @_on_thread("reader")
    def page(self, chosen: Filter, *, after: str | None = None, limit: int = 50) -> list[Job]:
        """At most `limit` jobs, the newest first, starting after the job with the id `after`.

        Raises `KeyError` if that job does not exist, or belongs to another owner than `chosen`.
        """
        query = narrow(select(jobs), chosen)
        with self._engine.connect() as connection:
            if after is not None:
                last = find_job(connection, after)
                if last is None or chosen.owner not in (None, last.owner):
                    raise KeyError(after)
                same = and_(jobs.c.created == last.created, jobs.c.id < last.id)
                query = query.where(or_(jobs.c.created < last.created, same))
            newest = query.order_by(jobs.c.created.desc(), jobs.c.id.desc()).limit(limit)
            return [read_job(row) for row in connection.execute(newest)]

    @_on_thread("reader")
    def backlog(self) -> dict[str, Backlog]:
        """How many jobs are queued and running, by kind; kinds without any are left out."""
        columns = (jobs.c.kind, jobs.c.state, func.count(), func.min(jobs.c.queued))
        active = select(*columns).where(jobs.c.state.in_(ACTIVE))
        backlog: dict[str, Backlog] = {}
        with self._engine.connect() as connection:
            now = now_of(connection)
            grouped = active.group_by(jobs.c.kind, jobs.c.state)
            for kind, state, count, oldest in connection.execute(grouped):
                counts = backlog.setdefault(kind, Backlog())
                if state == "running":
                    backlog[kind] = replace(counts, running=count)
                else:
                    age = max(0.0, (now - utc(oldest)).total_seconds())
                    backlog[kind] = replace(counts, queued=count, oldest_seconds=age)
        return backlog

    @_on_thread("writer")
    def take(self, worker: str, kinds: Sequence[str]) -> Job | None:
        """Give the next free job of these kinds to `worker`; None if there is none.

        A job is free if it is queued or its worker is gone. Owners take turns, each with its oldest
        job first.
        """
        # most lookups find nothing; a read first avoids locking the database
        with self._engine.connect() as connection:
            if not any(
                state == "running" or kind in kinds for _, kind, state in free_jobs(connection)
            ):
                return None
        with self._engine.begin() as connection:
            now = now_of(connection)
            settle_orphans(connection, now)
            for name, kind, _ in free_jobs(connection):
                if kind not in kinds:
                    continue
                taking = (
                    update(jobs)
                    # another process may have taken it meanwhile
                    .where(jobs.c.id == name, is_free(now))
                    .values(
                        state="running",
                        worker=worker,
                        lease=now + timedelta(seconds=LEASE_SECONDS),
                        starts=jobs.c.starts + 1,
                        started=func.coalesce(jobs.c.started, now),
                        updated=now,
                    )
                )
                row = connection.execute(taking.returning(jobs)).first()
                if row is not None:
                    return read_job(row)
        return None

    @_on_thread("writer")
    def renew(
        self, job_id: str, worker: str, progress: Mapping[str, Any], *, advanced: bool
    ) -> Holding:
        """Renew the lease and store the progress; `advanced`: there are new replies."""
        with self._engine.begin() as connection:
            now = now_of(connection)
            values: dict[str, Any] = {
                "lease": now + timedelta(seconds=LEASE_SECONDS),
                "progress": orjson.dumps(progress).decode(),
                "updated": now,
            }
            if advanced:
                values["starts"] = 0
            kept = update(jobs).where(is_held(job_id, worker)).values(values)
            stopping = connection.scalar(kept.returning(jobs.c.stopping))
        if stopping is None:
            return "lost"
        return "stop" if stopping else "held"

    @_on_thread("writer")
    def finish(self, job_id: str, worker: str, ending: Ending) -> bool:
        """End a job; False if another worker has it by now."""
        with self._engine.begin() as connection:
            now = now_of(connection)
            ended = (
                update(jobs)
                .where(is_held(job_id, worker))
                .values(
                    state=ending.state,
                    starts=0,
                    progress=orjson.dumps(ending.progress).decode(),
                    lost=ending.lost,
                    error=ending.error,
                    updated=now,
                    ended=now,
                    # the result of an earlier session stays
                    result=jobs.c.result if ending.result is None else ending.result,
                    **FREED,
                )
            )
            return bool(connection.execute(ended).rowcount)

    @_on_thread("writer")
    def give_back(self, job_id: str, worker: str, progress: Mapping[str, Any]) -> None:
        """Give an unfinished job back: it is stopped if that was requested, else queued again."""
        with self._engine.begin() as connection:
            now = now_of(connection)
            # a job that was posted again while it was stopping is queued again
            back = (
                update(jobs)
                .where(is_held(job_id, worker))
                .values(
                    state=case((jobs.c.stopping, "stopped"), else_="queued"),
                    ended=case((jobs.c.stopping, now), else_=None),
                    starts=0,
                    progress=orjson.dumps(progress).decode(),
                    updated=now,
                    **FREED,
                )
            )
            connection.execute(back)

    @_on_thread("writer")
    def stop(self, job_id: str) -> Job | None:
        """Stop a queued job, or request its worker to stop it; returns the job, if any."""
        with self._engine.begin() as connection:
            now = now_of(connection)
            waits = jobs.c.state == "queued"
            connection.execute(
                update(jobs)
                .where(jobs.c.id == job_id, jobs.c.state.in_(ACTIVE))
                .values(
                    state=case((waits, "stopped"), else_=jobs.c.state),
                    stopping=case((waits, False), else_=True),
                    ended=case((waits, now), else_=None),
                    updated=now,
                )
            )
            return find_job(connection, job_id)

    @_on_thread("writer")
    def remove(self, job_id: str, clear: Callable[[Job, Iterable[Job]], None]) -> Job | None:
        """Remove a job and its idempotency keys, unless it is active; returns the job, if any.

        `clear` removes the job's files while no job can be submitted, so it should be quick. It
        gets the job and the other jobs of its kind and benchmark.
        """
        with self._engine.begin() as connection:
            hold_alone(connection, SUBMITTING)
            job = find_job(connection, job_id)
            if job is None or job.is_active:
                return job
            others = narrow(select(jobs), Filter(kind=job.kind, benchmark=job.benchmark))
            others = others.where(jobs.c.id != job_id).execution_options(yield_per=CHUNK)
            with connection.execute(others) as rows:
                clear(job, (read_job(row) for row in rows))
            connection.execute(delete(job_keys).where(job_keys.c.job == job_id))
            connection.execute(delete(jobs).where(jobs.c.id == job_id))
            return job

    async def aclose(self) -> None:
        """Close the database. Safe to call twice."""
        for thread in self._threads.values():
            await asyncio.to_thread(thread.shutdown)
        self._engine.dispose()

    @_on_thread("writer")
    def _submit(
        self, new: NewJob, key: str | None, most: int | None, for_others: bool, afresh: bool
    ) -> Submission:
        with self._engine.begin() as connection:
            # active jobs are counted, then one is added: by one process at a time
            hold_alone(connection, SUBMITTING)
            now = now_of(connection)
            over = now - timedelta(seconds=KEY_SECONDS)
            connection.execute(delete(job_keys).where(job_keys.c.created < over))
            mine = (job_keys.c.owner == new.owner, job_keys.c.key == key)
            if connection.scalar(select(job_keys.c.job).where(*mine)) not in (None, new.id):
                return Submission(admission="key_reused", job=None)
            existing = find_job(connection, new.id)
            admission: Admission = "resumed"
            if existing is None:
                admission = "new"
            elif existing.is_current and not (afresh and existing.state == "done"):
                admission = "known"
            elif existing.owner != new.owner and not for_others:
                return Submission(admission="not_owned", job=existing)
            if admission != "known":
                others = (jobs.c.owner == new.owner, jobs.c.id != new.id, jobs.c.state.in_(ACTIVE))
                count = connection.scalar(select(func.count()).where(*others)) or 0
                if most is not None and count >= most:
                    return Submission(admission="too_many", job=None)
                queue_job(connection, new, now, again=admission == "resumed")
            if key is not None:
                row = {"owner": new.owner, "key": key, "job": new.id, "created": now}
                insert_new(connection, job_keys, [row])
            return Submission(admission=admission, job=find_job(connection, new.id))


def is_held(job_id: str, worker: str) -> ColumnElement[bool]:
    """The condition that this worker holds the job."""
    return and_(jobs.c.id == job_id, jobs.c.worker == worker, jobs.c.state == "running")


def is_free(now: datetime) -> ColumnElement[bool]:
    """The condition that a job is queued, or that its worker is gone."""
    return or_(jobs.c.state == "queued", is_orphaned(now))


def is_orphaned(now: datetime) -> ColumnElement[bool]:
    """The condition that a job's worker is gone."""
    return and_(jobs.c.state == "running", jobs.c.lease < now)


def free_jobs(connection: Connection) -> list[tuple[str, str, str]]:
    """Ids, kinds and states of the free jobs, in the order in which to take them.

    Owners take turns: first the owner with the fewest running jobs of the kind, then the job that
    waits longest.
    """
    now = now_of(connection)
    held = (
        select(jobs.c.owner, jobs.c.kind, func.count().label("count"))
        .where(jobs.c.state == "running", jobs.c.lease >= now)
        .group_by(jobs.c.owner, jobs.c.kind)
        .subquery()
    )
    same = and_(held.c.owner == jobs.c.owner, held.c.kind == jobs.c.kind)
    free = (
        select(jobs.c.id, jobs.c.kind, jobs.c.state)
        .select_from(jobs.outerjoin(held, same))
        .where(is_free(now))
        .order_by(func.coalesce(held.c.count, 0), jobs.c.queued, jobs.c.id)
    )
    return [(row.id, row.kind, row.state) for row in connection.execute(free)]


def queue_job(connection: Connection, new: NewJob, now: datetime, *, again: bool) -> None:
    """Queue a job; one that is still stopping stays with its worker, and with its first owner."""
    fresh = {"stopping": False, "starts": 0, "lost": 0, "queued": now, "updated": now}
    if again:
        state = case((jobs.c.state == "running", "running"), else_="queued")
        changed = fresh | {"state": state, "error": None, "ended": None}
        connection.execute(update(jobs).where(jobs.c.id == new.id).values(changed))
    else:
        added = {"state": "queued", "progress": "{}", "created": now}
        connection.execute(insert(jobs).values(fresh | asdict(new) | added))


def settle_orphans(connection: Connection, now: datetime) -> None:
    """End orphaned jobs that were to stop, or that ended their workers repeatedly."""
    orphaned = update(jobs).where(is_orphaned(now))
    ended = FREED | {"updated": now, "ended": now}
    connection.execute(orphaned.where(jobs.c.stopping).values(ended | {"state": "stopped"}))
    error = (
        f"it was started {MOST_STARTS} times in a row without a new reply: the server or its "
        "database failed each time; the server's log says why"
    )
    hopeless = orphaned.where(jobs.c.starts >= MOST_STARTS)
    connection.execute(hopeless.values(ended | {"state": "failed", "error": error}))
