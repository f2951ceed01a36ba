"""Jobs of the queue: runs of benchmarks and long dialogues.

A process has one `Worker`, which takes jobs and executes them, a few at a time. Each kind of job
has its `Work`. The other functions list, watch and remove jobs for requests.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from typing import Any, ClassVar

import orjson

from mmconv.core.errors import MmconvError, StoreError
from mmconv.core.run_stats import Progress, StopReason, Throughput
from mmconv.engine import Runner
from mmconv.engine.garbage import collect_soon
from mmconv.service.access import Caller
from mmconv.service.errors import Problem, presentable
from mmconv.service.metrics import RunnerMetrics, WorkName
from mmconv.service.models import words_of_failure
from mmconv.service.requests import unknown_page
from mmconv.service.state import Readable, Service
from mmconv.store.jobs import ACTIVE, Ending, Filter, Job, Submission
from mmconv.store.queue import LEASE_SECONDS, Queue

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""How often an idle worker looks for jobs that other processes queued or left behind."""

FIRST_BEAT, BEAT_SECONDS = 0.05, 1.0
"""Seconds until progress is first written, and at most between two writes. The pause doubles."""

FULL_SECONDS = 30.0
"""`Retry-After` for a token with too many jobs."""

MOST_ACTIVE = 10_000
"""How many active jobs are searched."""

LOOK_SECONDS = 1.0
"""How often a watched job is read from the queue. Workers write its progress as often."""


class Work(ABC):
    """One job in execution, whose calls a `Runner` makes."""

    kind: ClassVar[WorkName]

    def __init__(self, shared: Service, job: Job) -> None:
        self._shared = shared
        self._job = job
        self._runner: Runner | None = None
        self._stopped = False
        self._pace = Throughput()

    @abstractmethod
    async def run(self) -> Ending | None:
        """Execute it. Returns None if it was stopped before its end.

        Raises `MmconvError` if it cannot be executed as it is.
        """

    async def announce(self) -> None:  # noqa: B027  # only runs have webhooks
        """Announce the end of the job, unless another process will continue it."""

    def begin(self, runner: Runner, plans: int, names: Mapping[str, str]) -> bool:
        """Show the progress of this runner from now on. Returns False if the job was stopped.

        `names` are the public names of its models, by role.
        """
        self._runner = runner
        self._plans = plans
        self._metrics = RunnerMetrics(self._shared.metrics, self.kind, names, self._job.owner)
        return not self._stopped

    def progress(self) -> dict[str, Any]:
        """The fields of `Progress`, and what the job noted besides."""
        if self._runner is None:
            return {**self._job.progress, **asdict(Progress())}
        self._metrics.update(self._runner.stats)
        return asdict(self._pace.measure(self._runner.stats, self._plans))

    def stop(self) -> None:
        """Make no new calls: `run` returns as soon as the calls under way have ended."""
        self._stopped = True
        if self._runner is not None:
            self._runner.stop()

    def done(self, lost: int, result: object) -> Ending:
        """The ending of a job that ran to its end."""
        progress = self.progress() | {"rate": 0.0, "seconds_left": 0.0}
        text = orjson.dumps(result).decode()
        return Ending(state="done", progress=progress, lost=lost, result=text)

    def halted(self, reason: StopReason | None) -> Ending | None:
        """The ending of a job whose runner stopped by itself; None if somebody stopped it."""
        if reason is None:
            return None
        log.warning("%s: %s", self._job.id, reason.description)
        words, failure = reason.reason, reason.failure
        if failure is not None:
            words += f": {words_of_failure(failure.kind, failure.message)}"
        return Ending(state="failed", progress=self.progress(), error=words)


class Worker:
    """Takes jobs whose kind has an opener, at most `at_once` of each kind, until `draining` is set.

    So long jobs of one kind do not delay another kind. It renews the lease of each, writes its
    progress, stops it on request, and gives back what it cannot finish, so that another process
    continues it. `name` is unique. `failing` means that the last attempt to look for jobs failed;
    the worker keeps trying.
    """

    def __init__(
        self,
        queue: Queue,
        openers: Mapping[str, Callable[[Job], Work]],
        draining: asyncio.Event,
        at_once: int,
    ) -> None:
        self.name = f"{socket.gethostname()[:64]}-{os.getpid()}-{secrets.token_hex(4)}"
        self.failing = False
        self._queue = queue
        self._openers = openers
        self._draining = draining
        self._at_once = at_once
        self._working: asyncio.Task[None] | None = None
        self._drained = 0.0
        self._tasks: dict[asyncio.Task[None], tuple[str, Work]] = {}
        self._announcing: set[asyncio.Task[None]] = set()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of jobs that it takes."""
        return tuple(self._openers)

    @property
    def takes_jobs(self) -> bool:
        """Whether it is at work, and its last attempt to look for jobs did not fail."""
        return self._working is not None and not self._working.done() and not self.failing

    @asynccontextmanager
    async def at_work(self, drain_seconds: float) -> AsyncIterator[None]:
        """Take jobs until the block ends. Calls under way then have some seconds to finish."""
        self._working = asyncio.create_task(self._work())
        try:
            yield
        finally:
            self._draining.set()
            self._queue.news.set()
            try:
                await self._working
            finally:
                await self._finish(drain_seconds)
                for task in self._announcing:
                    task.cancel()
                await asyncio.gather(*self._announcing, return_exceptions=True)

    async def _work(self) -> None:
        """Take jobs until the process drains, then make no new calls."""
        while not self._draining.is_set():
            job = await self._take()
            if job is None:
                await self._rest()
            else:
                self._begin(job)
        self._drained = time.monotonic()
        # Tasks may end and remove themselves while others are stopped.
        for _, work in [*self._tasks.values()]:
            work.stop()

    async def _finish(self, seconds: float) -> None:
        """Wait for calls under way, then drop them and give back what is unfinished.

        The seconds count from the end of `_work`.
        """
        if not self._tasks:
            return
        left = max(0.0, self._drained + seconds - time.monotonic())
        _, late = await asyncio.wait(self._tasks, timeout=left)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _take(self) -> Job | None:
        running = Counter(kind for kind, _ in self._tasks.values())
        kinds = [kind for kind in self._openers if running[kind] < self._at_once]
        if not kinds:
            return None
        try:
            job = await self._queue.take(self.name, kinds)
            self.failing = False
        except Exception as error:
            # Whatever it is, jobs must not wait for ever because of it.
            self.failing = True
            log.warning("no jobs can be taken: %s", error, exc_info=_unexpected(error))
            return None
        return job

    async def _rest(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._queue.news.wait()
        self._queue.news.clear()

    def _begin(self, job: Job) -> None:
        work = self._openers[job.kind](job)
        task = asyncio.create_task(self._see_through(job, work))
        self._tasks[task] = (job.kind, work)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._queue.news.set()
        if not task.cancelled() and task.exception() is not None:
            log.error("a job was left to its lease", exc_info=task.exception())

    async def _see_through(self, job: Job, work: Work) -> None:
        log.info("%s %s: started (start %d), of %s", job.kind, job.id, job.starts, job.owner)
        begun = time.monotonic()
        beating = asyncio.create_task(self._beat(job, work))
        try:
            try:
                ending = await _execute(job, work)
            finally:
                beating.cancel()
            _log_end(job, work, ending, time.monotonic() - begun)
            if ending is None:
                await self._queue.give_back(job.id, self.name, work.progress())
                self.announce(work)
            elif await self._queue.finish(job.id, self.name, ending):
                self.announce(work)
        except StoreError as error:
            # The next start finds in the cache what was answered until then.
            log.warning("%s %s is left to its lease: %s", job.kind, job.id, error)
        except asyncio.CancelledError:
            _log_end(job, work, None, time.monotonic() - begun)
            await self._queue.give_back(job.id, self.name, work.progress())
            raise

    def announce(self, work: Work) -> None:
        """Announce the end of a job, without holding its place."""
        task = asyncio.create_task(work.announce())
        self._announcing.add(task)
        task.add_done_callback(self._announced)

    def _announced(self, task: asyncio.Task[None]) -> None:
        self._announcing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("the end of a job was not announced", exc_info=task.exception())

    async def _beat(self, job: Job, work: Work) -> None:
        """Renew the lease. Stop the work on request, or when the lease is lost."""
        pause = FIRST_BEAT
        renewed, before = time.monotonic(), 0
        logged = "held"
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, BEAT_SECONDS)
            try:
                progress = work.progress()
                requested = progress["requested"]
                lease = await self._queue.renew(
                    job.id, self.name, progress, advanced=requested > before
                )
                renewed, before = time.monotonic(), requested
            except Exception as error:
                # Without the beat the work could not be stopped, and its lease would run out.
                message = "%s %s: the lease is not renewed: %s"
                log.warning(message, job.kind, job.id, error, exc_info=_unexpected(error))
                lease = "held" if time.monotonic() - renewed < LEASE_SECONDS else "lost"
            if lease != logged:
                log.info("%s %s: %s", job.kind, job.id, lease)
                logged = lease
            if lease != "held":
                work.stop()


def _unexpected(error: Exception) -> Exception | None:
    """The error, for its traceback in the log, unless the database is just away."""
    return None if isinstance(error, StoreError) else error


def _log_end(job: Job, work: Work, ending: Ending | None, seconds: float) -> None:
    log.info(
        "%s %s: %s after %.1f s, %d calls requested, %d lost, of %s",
        job.kind,
        job.id,
        "unfinished" if ending is None else ending.state,
        seconds,
        work.progress()["requested"],
        0 if ending is None else ending.lost,
        job.owner,
    )


async def _execute(job: Job, work: Work) -> Ending | None:
    """Run the work. An error is an ending too, in words for the job's owner.

    Raises `StoreError` if the database failed: the job is not to blame.
    """
    try:
        return await work.run()
    except StoreError:
        raise
    except Problem as problem:
        message = problem.message
    except MmconvError as error:
        log.warning("%s %s failed: %s", job.kind, job.id, error)
        message = presentable(str(error), "what it needs cannot be read; the server's log says why")
    except Exception:
        log.exception("%s %s failed", job.kind, job.id)
        collect_soon()
        message = "the server failed; its log says why"
    return Ending(state="failed", progress=work.progress(), error=message)


async def job_page(
    shared: Readable, chosen: Filter, after: str | None, limit: int
) -> tuple[list[Job], str | None]:
    """At most `limit` jobs after the one named `after`, and the last one's id if more follow.

    Raises `Problem` 400 for an `after` that the list does not hold; it may have been removed since.
    """
    try:
        jobs = await shared.queue.page(chosen, after=after, limit=limit + 1)
    except KeyError:
        raise unknown_page() from None
    page = jobs[:limit]
    return page, page[-1].id if len(jobs) > limit else None


async def require_unused(shared: Service, param: str, text: str, chosen: Filter) -> None:
    """Raise `Problem` 409 if an active job has the text in its request; `param` is what it names.

    The limits of tokens keep the number of active jobs low.
    """
    for state in ACTIVE:
        for job in await shared.queue.page(replace(chosen, state=state), limit=MOST_ACTIVE):
            if text in job.spec:
                message = f"{job.id} needs it; wait for its end, or stop it"
                raise Problem(409, f"{param}: {message}", param=param, code=f"{param}_in_use")


async def remove_job(
    shared: Service,
    job: Job,
    clear: Callable[[Job, Iterable[Job]], None] = lambda _job, _others: None,
) -> None:
    """Remove a job that has ended. Raises `Problem` 409 for another.

    `clear` removes its files; it gets the job as it is then, and the other jobs.
    """
    left = await shared.queue.remove(job.id, clear)
    if left is not None and left.is_active:
        raise Problem(
            409,
            f"it is {left.state}: stop it (DELETE without purge), and remove it when it has ended",
            param="purge",
            code="under_way",
        )


def submitted_job(submitted: Submission, caller: Caller) -> Job:
    """The job that was submitted. Raises `Problem` if it was not admitted."""
    if submitted.admission == "key_reused":
        raise Problem(
            422,
            "this idempotency key was used for another request",
            param="Idempotency-Key",
            code="idempotency_key_reused",
        )
    job = submitted.job
    if job is None:
        raise Problem(
            429,
            f"{caller.limits.concurrent_runs} runs and long dialogues of this token wait or are "
            "under way, and it may have no more; GET /v1/runs and GET /v1/dialogues list them",
            code="too_many_runs",
            retry_after=FULL_SECONDS,
        )
    if submitted.admission == "not_owned":
        state = f"is {job.state}"
        if job.state == "done":
            state = "has lost calls" if job.lost else "was made from files that have changed since"
        raise Problem(
            409,
            f"the run {job.id} belongs to the token {job.owner} and "
            f"{'is stopping' if job.stopping else state}: {job.owner} or an admin may resume it, "
            f"and GET /v1/runs/{job.id} shows its state",
            code="not_yours",
        )
    return job


async def watch(shared: Readable, caller: Caller, job: Job) -> AsyncIterator[Job]:
    """The job now, and again every second until it ends, is removed, or the server shuts down.

    The queue is read, so any process may execute the job. Raises `Problem` 429 at once if too many
    requests of the caller watch already.
    """
    with shared.meters[caller.name].watching(caller.limits):
        current: Job | None = job
        while current is not None and not shared.draining.is_set():
            yield current
            if not current.is_active:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await shared.draining.wait()
            current = await shared.queue.get(job.id)


async def wait(shared: Service, caller: Caller, job: Job, seconds: float) -> Job:
    """The job when it has ended, or as it is after some seconds.

    It is as it is at once if too many requests of the caller watch already.
    """
    last = job
    with suppress(TimeoutError, Problem):
        async with asyncio.timeout(seconds):
            async for current in watch(shared, caller, job):
                last = current
    return last
