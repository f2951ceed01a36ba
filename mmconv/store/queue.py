"""The service's queue: jobs in the store's database, and the workers that hold them.

A job's id stands for its specification, so posting it again submits nothing new. A worker takes a
job with a lease and renews it. If the worker dies, the lease expires and another worker continues
the job; two workers never hold it at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial, wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, get_args

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
"""How long a job stays with a worker that does not renew its lease."""

KEY_SECONDS = 86_400.0
"""How long an idempotency key is valid; then it may be used for another job."""

CHUNK = 100
"""Jobs in memory at once when all are read."""

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
        query = narrowed(select(jobs), chosen)
        with self._engine.connect() as connection:
            if after is not None:
                last = find_job(connection, after)
                if last is None or chosen.owner not in (None, last.owner):
                    raise KeyError(after)
                query = query.where(is_behind(last))
            newest = query.order_by(jobs.c.created.desc(), jobs.c.id.desc()).limit(limit)
            return [read_job(row) for row in connection.execute(newest)]

    @_on_thread("reader")
    def backlog(self) -> dict[str, Backlog]:
        """How many jobs are queued and running, by kind; kinds without any are left out."""
        with self._engine.connect() as connection:
            return count_active(connection)

    @_on_thread("writer")
    def take(
        self, worker: str, kinds: Sequence[str], fits: Callable[[Job], bool] = lambda job: True
    ) -> Job | None:
        """Give the next free job to `worker`; None if there is none.

        A job is free if it is queued or its worker is gone. Owners take turns, each with its oldest
        job first. Jobs that do not fit stay for other workers; this object does not check them
        again while they are queued.
        """
        while True:
            # most lookups find nothing; a read first avoids locking the database
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

    @_on_thread("writer")
    def tend(self, find_missing: Callable[[Job], str | None]) -> None:
        """Mark the queued jobs that this server can run, and fail jobs that no server can.

        `find_missing` describes what a job needs and this server does not have. A job fails if no
        server has marked it for `UNFIT_SECONDS` while this process was running.
        """
        with self._engine.connect() as connection:
            fit, unfit = sort_free(connection, find_missing)
        # servers that can run them may have been away, as this process was
        if time.monotonic() - self._opened < UNFIT_SECONDS:
            unfit = {}
        if fit or unfit:
            with self._engine.begin() as connection:
                settle_unfit(connection, fit, unfit)

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
                    stopping=False,
                    worker=None,
                    lease=None,
                    starts=0,
                    progress=orjson.dumps(ending.progress).decode(),
                    lost=ending.lost,
                    error=ending.error,
                    updated=now,
                    ended=now,
                    # the result of an earlier session stays
                    **({} if ending.result is None else {"result": ending.result}),
                )
            )
            return bool(connection.execute(ended).rowcount)

    @_on_thread("writer")
    def give_back(
        self, job_id: str, worker: str, progress: Mapping[str, Any], *, in_vain: bool = False
    ) -> None:
        """Give an unfinished job back: it is stopped if that was requested, else queued again.

        `in_vain`: its start counts as one without a new reply.
        """
        with self._engine.begin() as connection:
            now = now_of(connection)
            # a job that was posted again while it was stopping is queued again
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
            others = narrowed(select(jobs), Filter(kind=job.kind, benchmark=job.benchmark))
            others = others.where(jobs.c.id != job_id).execution_options(yield_per=CHUNK)
            with connection.execute(others) as rows:
                clear(job, (read_job(row) for row in rows))
            connection.execute(delete(job_keys).where(job_keys.c.job == job_id))
            connection.execute(delete(jobs).where(jobs.c.id == job_id))
            return job

    @_on_thread("reader")
    def holders(self) -> list[str]:
        """The workers that hold jobs, alive or not."""
        query = select(jobs.c.worker).where(jobs.c.state == "running").distinct()
        with self._engine.connect() as connection:
            return [name for name in connection.scalars(query) if name is not None]

    @_on_thread("writer")
    def expire(self, worker: str) -> None:
        """End the leases of a worker that is gone."""
        with self._engine.begin() as connection:
            over = now_of(connection) - timedelta(seconds=1)
            held = update(jobs).where(jobs.c.state == "running", jobs.c.worker == worker)
            connection.execute(held.values(lease=over))

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
            if job_of_key(connection, new.owner, key) not in (None, new.id):
                return Submission(admission="key_reused", job=None)
            existing = find_job(connection, new.id)
            admission: Admission = "resumed"
            if existing is None:
                admission = "new"
            elif stands(existing) and not (afresh and existing.state == "done"):
                admission = "known"
            if (
                admission == "resumed"
                and existing
                and existing.owner != new.owner
                and not for_others
            ):
                return Submission(admission="not_owned", job=existing)
            if admission != "known":
                if is_full(connection, new, most):
                    return Submission(admission="too_many", job=None)
                connection.execute(queued(new, now, again=admission == "resumed"))
            if key is not None:
                row = {"owner": new.owner, "key": key, "job": new.id, "created": now}
                insert_new(connection, job_keys, [row])
            return Submission(admission=admission, job=find_job(connection, new.id))

    def _first_fit(
        self,
        connection: Connection,
        waiting: Sequence[tuple[str, str, str]],
        kinds: Sequence[str],
        fits: Callable[[Job], bool],
    ) -> str | None:
        # a job that has left the queue may come back
        self._unfit.intersection_update(name for name, _, _ in waiting)
        for name, kind, _ in waiting:
            if kind not in kinds or name in self._unfit:
                continue
            try:
                job = find_job(connection, name)
            except ValueError:
                # it must not block the jobs after it
                log.exception("the job %s cannot be read, and stays in the queue", name)
            else:
                if job is None:
                    # another process has removed it
                    continue
                if fits(job):
                    return name
            self._unfit.add(name)
        return None
