"""The worker of one process: takes jobs from the queue and executes them, a few at a time.

Each kind of job has its `Work`: runs of benchmarks, dialogues. The worker renews the lease, writes
progress, stops work on request, and gives back what the process cannot finish, so that another
process continues it. Nothing here knows HTTP.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from mmconv.core.errors import MmconvError, StoreError
from mmconv.engine.garbage import collect_soon
from mmconv.service.errors import presentable
from mmconv.store.jobs import Ending, Job
from mmconv.store.queue import LEASE_SECONDS, MOST_STARTS, Queue

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""How often an idle worker looks for jobs that other processes queued or left behind."""

TEND_SECONDS = 60.0
"""How often a worker looks through the queued jobs, even if it has no room for them."""

AWAY_SECONDS = 1.0
"""How long the worker waits after the database has failed."""

FIRST_BEAT, BEAT_SECONDS = 0.05, 1.0
"""Seconds until progress is first written, and at most between two writes. The pause doubles."""


class Work(Protocol):
    """One job in execution."""

    def progress(self) -> dict[str, Any]:
        """The progress so far, as JSON; `requested` counts calls answered since this start."""
        ...

    def stop(self) -> None:
        """Make no new calls: `run` returns as soon as the calls under way have ended."""
        ...

    async def run(self) -> Ending | None:
        """Execute it. Returns None if it was stopped before its end.

        Raises `MmconvError` if it cannot be executed as it is.
        """
        ...


Opener: TypeAlias = Callable[[Job], Work]
"""Creates the work of a job. One for each kind."""

FindMissing: TypeAlias = Callable[[Job], str | None]
"""What a job needs that is missing here, in words; None if nothing is."""


class Worker:
    """Takes jobs whose kind has an opener, at most `at_once` of each kind, until `draining` is set.

    So long jobs of one kind do not delay another kind. Jobs with something missing here are left to
    other workers, and fail if no worker takes them for long. `failing` means that the last attempt
    to look for jobs failed; the worker keeps trying.
    """

    def __init__(
        self,
        queue: Queue,
        openers: Mapping[str, Opener],
        mark: ProcessMark,
        draining: asyncio.Event,
        at_once: int,
        find_missing: FindMissing,
    ) -> None:
        self._queue = queue
        self._openers = openers
        self._mark = mark
        self._draining = draining
        self._at_once = at_once
        self._find_missing = find_missing
        self.failing = False
        self._working: asyncio.Task[None] | None = None
        self._drained = 0.0
        self._tended = -TEND_SECONDS
        self._tasks: dict[asyncio.Task[None], tuple[str, Work]] = {}

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of jobs that it takes."""
        return tuple(self._openers)

    @property
    def busy(self) -> int:
        """How many jobs this process executes now."""
        return len(self._tasks)

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
                self._mark.close()

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
        try:
            if time.monotonic() > self._tended + TEND_SECONDS:
                await self._queue.tend(self._find_missing)
                self._tended = time.monotonic()
            if not kinds:
                return None
            await self._free_orphans()
            job = await self._queue.take(self._mark.name, kinds, self._fits)
            self.failing = False
        except Exception as error:
            # Whatever it is, jobs must not wait for ever because of it.
            self.failing = True
            log.warning("no jobs can be taken: %s", error, exc_info=_unexpected(error))
            return None
        return job

    async def _free_orphans(self) -> None:
        """Free the jobs of dead workers that shared a folder with this one."""
        for name in await self._queue.holders():
            if self._mark.is_dead(name):
                await self._queue.expire(name)
                try:
                    self._mark.forget(name)
                except OSError as error:
                    log.warning("the mark of a dead worker stays: %s", error)

    def _fits(self, job: Job) -> bool:
        missing = self._find_missing(job)
        if missing is not None:
            log.warning("%s %s is left to a server that has %s", job.kind, job.id, missing)
        return missing is None

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
                ending, in_vain = await _execute(job, work)
            finally:
                beating.cancel()
            await self._let_go(job, work, ending, in_vain=in_vain)
            _log_end(job, work, ending, time.monotonic() - begun)
        except asyncio.CancelledError:
            _log_end(job, work, None, time.monotonic() - begun)
            await self._queue.give_back(job.id, self._mark.name, work.progress())
            raise

    async def _let_go(self, job: Job, work: Work, ending: Ending | None, *, in_vain: bool) -> None:
        """End a job or give it back. Retry while the database is away, until the lease is over."""
        until = time.monotonic() + LEASE_SECONDS
        if in_vain:
            await asyncio.sleep(AWAY_SECONDS)
        while True:
            try:
                if ending is not None:
                    await self._queue.finish(job.id, self._mark.name, ending)
                else:
                    await self._queue.give_back(
                        job.id, self._mark.name, work.progress(), in_vain=in_vain
                    )
                return
            except StoreError as error:
                if time.monotonic() > until:
                    raise
                log.warning("%s %s is not let go yet: %s", job.kind, job.id, error)
            await asyncio.sleep(AWAY_SECONDS)

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
                    job.id, self._mark.name, progress, advanced=requested > before
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


async def _execute(job: Job, work: Work) -> tuple[Ending | None, bool]:
    """Run the work. An error is an ending too, in words for the job's owner.

    If the database failed, the job is not to blame: it has no ending, and its start was in vain,
    which is the second value.
    """
    try:
        return await work.run(), False
    except StoreError as error:
        log.warning("%s %s: %s", job.kind, job.id, error)
        if job.starts < MOST_STARTS:
            return None, True
        message = f"the server's database failed {MOST_STARTS} times in a row; its log says why"
    except MmconvError as error:
        log.warning("%s %s failed: %s", job.kind, job.id, error)
        message = presentable(str(error), "what it needs cannot be read; the server's log says why")
    except Exception:
        log.exception("%s %s failed", job.kind, job.id)
        collect_soon()
        message = "the server failed; its log says why"
    return Ending(state="failed", progress=work.progress(), error=message), False


class ProcessMark:
    """This process's mark in a folder, for others that share it. Its `name` is unique.

    A process locks its file for as long as it lives, and the system releases the lock however it
    ends. So a new process need not wait until the leases of a killed one run out. Processes without
    a common folder learn nothing from each other here.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = f"{socket.gethostname()[:64]}-{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / self.name).open("wb")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def is_dead(self, name: str) -> bool:
        """Whether the process of this name marked itself in the folder, and ended unexpectedly."""
        if name == self.name:
            return False
        try:
            with (self._folder / name).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            # It lives, or never marked itself here: then only its leases count.
            return False
        return True

    def forget(self, name: str) -> None:
        """Remove the mark of a process."""
        (self._folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove this process's own mark. Safe to call twice."""
        self.forget(self.name)
        self._file.close()
