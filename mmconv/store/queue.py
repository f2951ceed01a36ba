"""The queue of the served API: jobs in the store's database, and who carries them out.

A job is submitted once, however often it is posted: its id stands for what it asks. A worker takes
a job with a lease and renews it; when the worker dies the lease runs out, and another worker or
the next start goes on with the job. No two workers hold one at a time. What a job's specification
means is known to those who submit it; nothing here runs anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import orjson
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
from sqlalchemy.exc import SQLAlchemyError

from mmconv.errors import StoreError
from mmconv.store.jobs import (
    ACTIVE,
    Ending,
    Filter,
    Holding,
    Job,
    NewJob,
    Submission,
    Verdict,
    read_job,
    utc,
)
from mmconv.store.schema import SUBMITTING, connect, hold_alone, job_keys, jobs
from mmconv.store.store import insert_new

LEASE_SECONDS = 30.0
"""How long a job stays with a worker that no longer renews its lease."""

MOST_STARTS = 10
"""How often a job is begun without getting on before it counts as what ends its workers."""

Result = TypeVar("Result")


class Queue:
    """The jobs in one database, beside the replies of `mmconv.store.Store`.

    Queries run one after another on a thread of their own, so that nothing else holds up a lease.
    The coroutines raise `mmconv.errors.StoreError` where the database does not answer. `lease` are
    seconds; they are counted by the database's clock where it is a server. `news` is set whenever
    this process queues a job.
    """

    def __init__(self, url: str, *, lease: float = LEASE_SECONDS) -> None:
        self.lease = lease
        self.news = asyncio.Event()
        self._engine = connect(url)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mmconv-queue")

    async def submit(
        self, new: NewJob, *, key: str | None = None, most: int | None = None
    ) -> Submission:
        """Queue a job, or find the one that it is; a stopped, failed or lossy one is queued again.

        `key` is the owner's idempotency key for it; `most` active jobs are allowed to the owner.
        """
        submitted = await self._query(lambda: self._submit(new, key, most))
        if submitted.verdict in ("new", "resumed"):
            self.news.set()
        return submitted

    async def get(self, job_id: str) -> Job | None:
        """The job, if there is one of this id."""
        return await self._query(lambda: self._get(job_id))

    async def page(self, chosen: Filter, *, after: str | None = None, limit: int = 50) -> list[Job]:
        """Jobs, the newest first: at most `limit`, beginning behind the one with the id `after`."""
        return await self._query(lambda: self._page(chosen, after, limit))

    async def take(self, worker: str, kinds: Sequence[str]) -> Job | None:
        """Give the oldest job that waits, or whose worker is gone, to `worker`; None if none."""
        return await self._query(lambda: self._take(worker, kinds))

    async def renew(
        self, job_id: str, worker: str, progress: Mapping[str, Any], *, advanced: bool
    ) -> Holding:
        """Keep the lease and tell progress; `advanced` says that there are new replies."""
        return await self._query(lambda: self._renew(job_id, worker, progress, advanced))

    async def finish(self, job_id: str, worker: str, ending: Ending) -> bool:
        """End a job; False if it is another worker's by now."""
        return await self._query(lambda: self._finish(job_id, worker, ending))

    async def give_back(self, job_id: str, worker: str, progress: Mapping[str, Any]) -> None:
        """End one's hold on an unfinished job: stopped if that was asked, else queued again."""
        await self._query(lambda: self._give_back(job_id, worker, progress))

    async def stop(self, job_id: str) -> Job | None:
        """Stop a job that waits, and ask the worker of one under way to; then the job, if any."""
        return await self._query(lambda: self._stop(job_id))

    async def holders(self) -> list[str]:
        """The workers that hold jobs, alive or not."""
        return await self._query(self._holders)

    async def expire(self, worker: str) -> None:
        """End the leases of a worker that is known to be gone."""
        await self._query(lambda: self._expire(worker))

    async def aclose(self) -> None:
        """Close the database. Safe to call twice."""
        await asyncio.to_thread(self._thread.shutdown)
        self._engine.dispose()

    async def _query(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except SQLAlchemyError as error:
            reason = getattr(error, "orig", None) or error
            raise StoreError(f"the queue's database does not answer: {reason}") from error

    def _submit(self, new: NewJob, key: str | None, most: int | None) -> Submission:
        with self._engine.begin() as connection:
            # Active jobs are counted, then one is added: by one process at a time.
            hold_alone(connection, SUBMITTING)
            now = _now(connection)
            if _job_of_key(connection, new.owner, key) not in (None, new.id):
                return Submission(verdict="key_reused", job=None)
            found = _find(connection, new.id)
            verdict: Verdict = "resumed"
            if found is None:
                verdict = "new"
            elif _stands(found):
                verdict = "known"
            if verdict != "known":
                if _is_full(connection, new, most):
                    return Submission(verdict="too_many", job=None)
                connection.execute(_queued(new, now, again=verdict == "resumed"))
            if key is not None:
                row = {"owner": new.owner, "key": key, "job": new.id, "created": now}
                insert_new(connection, job_keys, [row])
            return Submission(verdict=verdict, job=_find(connection, new.id))

    def _get(self, job_id: str) -> Job | None:
        with self._engine.connect() as connection:
            return _find(connection, job_id)

    def _page(self, chosen: Filter, after: str | None, limit: int) -> list[Job]:
        query = _chosen(select(jobs), chosen)
        with self._engine.connect() as connection:
            if after is not None:
                last = _find(connection, after)
                if last is None:
                    return []
                query = query.where(
                    or_(
                        jobs.c.created < last.created,
                        and_(jobs.c.created == last.created, jobs.c.id < last.id),
                    )
                )
            newest = query.order_by(jobs.c.created.desc(), jobs.c.id.desc()).limit(limit)
            return [read_job(row) for row in connection.execute(newest)]

    def _take(self, worker: str, kinds: Sequence[str]) -> Job | None:
        with self._engine.connect() as connection:
            # Most looks find nothing; reading first keeps them from locking the database.
            free = _free(_now(connection))
            if connection.scalar(select(jobs.c.id).where(free).limit(1)) is None:
                return None
        with self._engine.begin() as connection:
            now = _now(connection)
            _settle_orphans(connection, now)
            free = and_(_free(now), jobs.c.kind.in_(kinds))
            oldest = select(jobs.c.id).where(free).order_by(jobs.c.queued, jobs.c.id).limit(1)
            taken = (
                update(jobs)
                .where(
                    jobs.c.id == oldest.with_for_update(skip_locked=True).scalar_subquery(), free
                )
                .values(
                    state="running",
                    worker=worker,
                    lease=now + timedelta(seconds=self.lease),
                    starts=jobs.c.starts + 1,
                    started=func.coalesce(jobs.c.started, now),
                    updated=now,
                )
                .returning(jobs)
            )
            row = connection.execute(taken).first()
        return None if row is None else read_job(row)

    def _renew(
        self, job_id: str, worker: str, progress: Mapping[str, Any], advanced: bool
    ) -> Holding:
        with self._engine.begin() as connection:
            now = _now(connection)
            values: dict[str, Any] = {
                "lease": now + timedelta(seconds=self.lease),
                "progress": orjson.dumps(progress).decode(),
                "updated": now,
            }
            if advanced:
                values["starts"] = 0
            kept = update(jobs).where(_held(job_id, worker)).values(values)
            stopping = connection.scalar(kept.returning(jobs.c.stopping))
        if stopping is None:
            return "lost"
        return "stop" if stopping else "held"

    def _finish(self, job_id: str, worker: str, ending: Ending) -> bool:
        with self._engine.begin() as connection:
            now = _now(connection)
            ended = (
                update(jobs)
                .where(_held(job_id, worker))
                .values(
                    state=ending.state,
                    stopping=False,
                    worker=None,
                    lease=None,
                    starts=0,
                    progress=orjson.dumps(ending.progress).decode(),
                    lost=ending.lost,
                    result=ending.result,
                    error=ending.error,
                    updated=now,
                    ended=now,
                )
            )
            return bool(connection.execute(ended).rowcount)

    def _give_back(self, job_id: str, worker: str, progress: Mapping[str, Any]) -> None:
        with self._engine.begin() as connection:
            now = _now(connection)
            # A job that was posted again while it was stopping is queued once more.
            back = (
                update(jobs)
                .where(_held(job_id, worker))
                .values(
                    state=case((jobs.c.stopping, "stopped"), else_="queued"),
                    ended=case((jobs.c.stopping, now), else_=None),
                    stopping=False,
                    worker=None,
                    lease=None,
                    starts=0,
                    progress=orjson.dumps(progress).decode(),
                    updated=now,
                )
            )
            connection.execute(back)

    def _stop(self, job_id: str) -> Job | None:
        with self._engine.begin() as connection:
            now = _now(connection)
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
            return _find(connection, job_id)

    def _holders(self) -> list[str]:
        query = select(jobs.c.worker).where(jobs.c.worker.is_not(None)).distinct()
        with self._engine.connect() as connection:
            return [name for name in connection.scalars(query) if name is not None]

    def _expire(self, worker: str) -> None:
        with self._engine.begin() as connection:
            over = _now(connection) - timedelta(seconds=1)
            connection.execute(update(jobs).where(jobs.c.worker == worker).values(lease=over))


def _now(connection: Connection) -> datetime:
    """The time by the server's clock; workers on one machine, as SQLite's are, share theirs."""
    if connection.dialect.name == "postgresql":
        return utc(connection.scalar(select(func.clock_timestamp())))
    return datetime.now(UTC)


def _job_of_key(connection: Connection, owner: str, key: str | None) -> str | None:
    """The id of the job that an owner's idempotency key stands for."""
    mine = (job_keys.c.owner == owner, job_keys.c.key == key)
    return connection.scalar(select(job_keys.c.job).where(*mine))


def _stands(job: Job) -> bool:
    """Whether submitting the job again changes nothing: it is under way, or done without a loss."""
    return (job.is_active and not job.stopping) or (job.state == "done" and not job.lost)


def _is_full(connection: Connection, new: NewJob, most: int | None) -> bool:
    if most is None:
        return False
    active = select(func.count()).where(
        jobs.c.owner == new.owner,
        jobs.c.state.in_(ACTIVE),
        jobs.c.id != new.id,
    )
    return (connection.scalar(active) or 0) >= most


def _queued(new: NewJob, now: datetime, *, again: bool) -> Insert | Update:
    """The statement that queues a job; one that is still stopping stays with its worker."""
    fresh = {
        "owner": new.owner,
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
        "spec": new.spec,
        "benchmark": new.benchmark,
        "model": new.model,
    }
    return insert(jobs).values(
        fresh | asked | {"state": "queued", "progress": "{}", "created": now}
    )


def _free(now: datetime) -> ColumnElement[bool]:
    expired = and_(jobs.c.state == "running", jobs.c.lease < now)
    return or_(jobs.c.state == "queued", expired)


def _settle_orphans(connection: Connection, now: datetime) -> None:
    """End what no worker shall take again: jobs that were to stop, jobs that end their workers."""
    orphaned = and_(jobs.c.state == "running", jobs.c.lease < now)
    ended = {"worker": None, "lease": None, "updated": now, "ended": now}
    stopped = update(jobs).where(orphaned, jobs.c.stopping)
    connection.execute(stopped.values(state="stopped", stopping=False, **ended))
    hopeless = update(jobs).where(orphaned, jobs.c.starts >= MOST_STARTS)
    error = f"the server ended {MOST_STARTS} times in a row while at it, without a new reply"
    connection.execute(hopeless.values(state="failed", error=error, **ended))


def _held(job_id: str, worker: str) -> ColumnElement[bool]:
    return and_(jobs.c.id == job_id, jobs.c.worker == worker, jobs.c.state == "running")


def _chosen(query: Select[Any], chosen: Filter) -> Select[Any]:
    for name in ("kind", "owner", "state", "benchmark", "model"):
        value = getattr(chosen, name)
        if value is not None:
            query = query.where(jobs.c[name] == value)
    return query


def _find(connection: Connection, job_id: str) -> Job | None:
    row = connection.execute(select(jobs).where(jobs.c.id == job_id)).first()
    return None if row is None else read_job(row)
