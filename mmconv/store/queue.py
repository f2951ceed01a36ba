"""The queue of the served API: jobs in the store's database, and who carries them out.

A job is submitted once, however often it is posted: its id stands for what it asks. A worker takes
a job with a lease and renews it; when the worker dies the lease runs out, and another worker or
the next start goes on with the job. No two workers hold one at a time. What a job's specification
means is known to those who submit it; nothing here runs anything.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, case, delete, select, update

from mmconv.store.connections import connect
from mmconv.store.job_queries import (
    UNFIT_SECONDS,
    count_active,
    find_job,
    free_jobs,
    is_behind,
    is_full,
    is_held,
    job_of_key,
    narrowed,
    queued,
    settle_orphans,
    settle_unfit,
    sort_free,
    stands,
    taken,
)
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
    read_job,
)
from mmconv.store.rows import insert_new
from mmconv.store.schema import SUBMITTING, hold_alone, job_keys, jobs, now_of

log = logging.getLogger(__name__)

LEASE_SECONDS = 30.0
"""How long a job stays with a worker that no longer renews its lease."""

KEY_SECONDS = 86_400.0
"""How long an idempotency key stands for its job; then it may be used for another one."""

CHUNK = 100
"""Jobs that are in memory at once where all are read."""

Result = TypeVar("Result")


class Queue:
    """The jobs in one database, beside the replies of `mmconv.store.Store`.

    What changes jobs runs one after another on a thread of its own, and what reads them on another:
    however many look on, they hold up no lease. Leases are counted by the database's clock where it
    is a server.
    The coroutines raise `StoreError` where the database fails. `news` is set whenever
    this process queues a job.
    """

    def __init__(self, url: str) -> None:
        self.news = asyncio.Event()
        self._engine = connect(url)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mmconv-queue")
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mmconv-look")
        self._unfit: set[str] = set()
        self._opened = time.monotonic()

    async def submit(
        self,
        new: NewJob,
        *,
        key: str | None = None,
        most: int | None = None,
        for_others: bool = False,
        afresh: bool = False,
    ) -> Submission:
        """Queue a job, or find the one that it is; a stopped, failed or lossy one is queued again.

        So is any that is done, with `afresh`. Only its first owner may do that, whose it stays, and
        `for_others` anybody.
        `key` is the owner's idempotency key for it; `most` active jobs are allowed to the owner.
        """
        submitted = await self._query(lambda: self._submit(new, key, most, for_others, afresh))
        if submitted.admission in ("new", "resumed"):
            self.news.set()
        return submitted

    async def get(self, job_id: str) -> Job | None:
        """The job, if there is one of this id."""
        return await self._query(lambda: self._get(job_id), self._reader)

    async def page(self, chosen: Filter, *, after: str | None = None, limit: int = 50) -> list[Job]:
        """Jobs, the newest first: at most `limit`, beginning behind the one with the id `after`.

        Raises `KeyError` where there is no such one, or it is not of the owner that is chosen.
        """
        return await self._query(lambda: self._page(chosen, after, limit), self._reader)

    async def backlog(self) -> dict[str, Backlog]:
        """How many jobs wait and are under way, by kind; a kind without any is left out."""
        return await self._query(self._backlog, self._reader)

    async def take(
        self, worker: str, kinds: Sequence[str], fits: Callable[[Job], bool] = lambda job: True
    ) -> Job | None:
        """Give the next job that waits, or whose worker is gone, to `worker`; None if none.

        Owners take turns, and of one owner's jobs the oldest is the next.

        What does not fit stays for other workers. As long as it waits, it is not looked at again
        through this object.
        """
        return await self._query(lambda: self._take(worker, kinds, fits))

    async def tend(self, lacks: Callable[[Job], str | None]) -> None:
        """Tell of the jobs that wait and lack nothing here that a server can carry them out.

        `lacks` says in words what a job needs that is not here. One of which no server has told it
        for `UNFIT_SECONDS`, while this process was there, fails.
        """
        await self._query(lambda: self._tend(lacks))

    async def renew(
        self, job_id: str, worker: str, progress: Mapping[str, Any], *, advanced: bool
    ) -> Holding:
        """Keep the lease and tell progress; `advanced` says that there are new replies."""
        return await self._query(lambda: self._renew(job_id, worker, progress, advanced))

    async def finish(self, job_id: str, worker: str, ending: Ending) -> bool:
        """End a job; False if it is another worker's by now."""
        return await self._query(lambda: self._finish(job_id, worker, ending))

    async def give_back(
        self, job_id: str, worker: str, progress: Mapping[str, Any], *, in_vain: bool = False
    ) -> None:
        """End one's hold on an unfinished job: stopped if that was asked, else queued again.

        `in_vain` says that its start is to count among those without a new reply.
        """
        await self._query(lambda: self._give_back(job_id, worker, progress, in_vain))

    async def stop(self, job_id: str) -> Job | None:
        """Stop a job that waits, and ask the worker of one under way to; then the job, if any."""
        return await self._query(lambda: self._stop(job_id))

    async def remove(self, job_id: str, clear: Callable[[Job, Iterable[Job]], None]) -> Job | None:
        """Remove a job that is not active, and its idempotency keys; the job as it was, if any.

        An active one stays. While no job can be submitted, `clear` takes away what it has left
        behind; it gets the job and the others of its kind and benchmark, and should be quick.
        """
        return await self._query(lambda: self._remove(job_id, clear))

    async def holders(self) -> list[str]:
        """The workers that hold jobs, alive or not."""
        return await self._query(self._holders)

    async def expire(self, worker: str) -> None:
        """End the leases of a worker that is known to be gone."""
        await self._query(lambda: self._expire(worker))

    async def aclose(self) -> None:
        """Close the database. Safe to call twice."""
        for thread in (self._reader, self._thread):
            await asyncio.to_thread(thread.shutdown)
        self._engine.dispose()

    async def _query(
        self, work: Callable[[], Result], thread: ThreadPoolExecutor | None = None
    ) -> Result:
        return await asyncio.get_running_loop().run_in_executor(thread or self._thread, work)

    def _submit(
        self, new: NewJob, key: str | None, most: int | None, for_others: bool, afresh: bool
    ) -> Submission:
        with self._engine.begin() as connection:
            # Active jobs are counted, then one is added: by one process at a time.
            hold_alone(connection, SUBMITTING)
            now = now_of(connection)
            over = now - timedelta(seconds=KEY_SECONDS)
            connection.execute(delete(job_keys).where(job_keys.c.created < over))
            if job_of_key(connection, new.owner, key) not in (None, new.id):
                return Submission(admission="key_reused", job=None)
            found = find_job(connection, new.id)
            admission: Admission = "resumed"
            if found is None:
                admission = "new"
            elif stands(found) and not (afresh and found.state == "done"):
                admission = "known"
            if admission == "resumed" and found and found.owner != new.owner and not for_others:
                return Submission(admission="not_owned", job=found)
            if admission != "known":
                if is_full(connection, new, most):
                    return Submission(admission="too_many", job=None)
                connection.execute(queued(new, now, again=admission == "resumed"))
            if key is not None:
                row = {"owner": new.owner, "key": key, "job": new.id, "created": now}
                insert_new(connection, job_keys, [row])
            return Submission(admission=admission, job=find_job(connection, new.id))

    def _get(self, job_id: str) -> Job | None:
        with self._engine.connect() as connection:
            return find_job(connection, job_id)

    def _page(self, chosen: Filter, after: str | None, limit: int) -> list[Job]:
        query = narrowed(select(jobs), chosen)
        with self._engine.connect() as connection:
            if after is not None:
                last = find_job(connection, after)
                if last is None or chosen.owner not in (None, last.owner):
                    raise KeyError(after)
                query = query.where(is_behind(last))
            newest = query.order_by(jobs.c.created.desc(), jobs.c.id.desc()).limit(limit)
            return [read_job(row) for row in connection.execute(newest)]

    def _backlog(self) -> dict[str, Backlog]:
        with self._engine.connect() as connection:
            return count_active(connection)

    def _take(self, worker: str, kinds: Sequence[str], fits: Callable[[Job], bool]) -> Job | None:
        while True:
            # Most looks find nothing; reading first keeps them from locking the database.
            with self._engine.connect() as connection:
                waiting = free_jobs(connection)
                chosen = self._first_fit(connection, waiting, kinds, fits)
            if chosen is None and "running" not in {state for _, _, state in waiting}:
                return None
            with self._engine.begin() as connection:
                settle_orphans(connection, now_of(connection))
                if chosen is None:
                    return None
                taking = taken(chosen, worker, now_of(connection), LEASE_SECONDS)
                row = connection.execute(taking).first()
            if row is not None:
                return read_job(row)

    def _first_fit(
        self,
        connection: Connection,
        waiting: Sequence[tuple[str, str, str]],
        kinds: Sequence[str],
        fits: Callable[[Job], bool],
    ) -> str | None:
        # What has gone from the queue may come again.
        self._unfit.intersection_update(name for name, _, _ in waiting)
        for name, kind, _ in waiting:
            if kind not in kinds or name in self._unfit:
                continue
            try:
                job = find_job(connection, name)
            except ValueError:
                # It must not keep those behind it from being taken.
                log.exception("the job %s cannot be read, and is left where it is", name)
            else:
                if job is None:
                    # Another process has removed it meanwhile.
                    continue
                if fits(job):
                    return name
            self._unfit.add(name)
        return None

    def _tend(self, lacks: Callable[[Job], str | None]) -> None:
        with self._engine.connect() as connection:
            fit, unfit = sort_free(connection, lacks)
        # Those who can carry them out may have been away as this process was.
        if time.monotonic() - self._opened < UNFIT_SECONDS:
            unfit = {}
        if fit or unfit:
            with self._engine.begin() as connection:
                settle_unfit(connection, fit, unfit)

    def _renew(
        self, job_id: str, worker: str, progress: Mapping[str, Any], advanced: bool
    ) -> Holding:
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

    def _finish(self, job_id: str, worker: str, ending: Ending) -> bool:
        with self._engine.begin() as connection:
            now = now_of(connection)
            ended = (
                update(jobs)
                .where(is_held(job_id, worker))
                .values(
                    state=ending.state,
                    stopping=False,
                    worker=None,
                    lease=None,
                    starts=0,
                    progress=orjson.dumps(ending.progress).decode(),
                    lost=ending.lost,
                    error=ending.error,
                    updated=now,
                    ended=now,
                    # what an earlier session has finished is there still
                    **({} if ending.result is None else {"result": ending.result}),
                )
            )
            return bool(connection.execute(ended).rowcount)

    def _give_back(
        self, job_id: str, worker: str, progress: Mapping[str, Any], in_vain: bool
    ) -> None:
        with self._engine.begin() as connection:
            now = now_of(connection)
            # A job that was posted again while it was stopping is queued once more.
            back = (
                update(jobs)
                .where(is_held(job_id, worker))
                .values(
                    state=case((jobs.c.stopping, "stopped"), else_="queued"),
                    ended=case((jobs.c.stopping, now), else_=None),
                    stopping=False,
                    worker=None,
                    lease=None,
                    starts=jobs.c.starts if in_vain else 0,
                    progress=orjson.dumps(progress).decode(),
                    updated=now,
                )
            )
            connection.execute(back)

    def _stop(self, job_id: str) -> Job | None:
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

    def _remove(self, job_id: str, clear: Callable[[Job, Iterable[Job]], None]) -> Job | None:
        with self._engine.begin() as connection:
            hold_alone(connection, SUBMITTING)
            job = find_job(connection, job_id)
            if job is None or job.is_active:
                return job
            others = narrowed(select(jobs), Filter(kind=job.kind, benchmark=job.benchmark))
            others = others.where(jobs.c.id != job_id).execution_options(yield_per=CHUNK)
            with connection.execute(others) as rows:
                clear(job, (read_job(row) for row in rows))
            connection.execute(delete(job_keys).where(job_keys.c.job == job_id))
            connection.execute(delete(jobs).where(jobs.c.id == job_id))
            return job

    def _holders(self) -> list[str]:
        query = select(jobs.c.worker).where(jobs.c.state == "running").distinct()
        with self._engine.connect() as connection:
            return [name for name in connection.scalars(query) if name is not None]

    def _expire(self, worker: str) -> None:
        with self._engine.begin() as connection:
            over = now_of(connection) - timedelta(seconds=1)
            held = update(jobs).where(jobs.c.state == "running", jobs.c.worker == worker)
            connection.execute(held.values(lease=over))
