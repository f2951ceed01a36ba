"""The worker of one process: takes jobs from the queue and carries them out, a few at a time.

What a job is, its kind knows (`Work`): runs of benchmarks, dialogues. The worker keeps the lease,
tells progress, stops what shall stop, and gives back what the process cannot finish, so that
another one goes on with it. Nothing here knows HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from mmconv.core.errors import MmconvError, StoreError
from mmconv.engine.garbage import collect_soon
from mmconv.service.errors.privacy import presentable
from mmconv.service.jobs.live_processes import ProcessMark
from mmconv.store.job_queries import MOST_STARTS
from mmconv.store.jobs import Ending, Job
from mmconv.store.queue import LEASE_SECONDS, Queue

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""How often an idle worker looks for jobs that other processes queued or left behind."""

TEND_SECONDS = 60.0
"""How often the jobs that wait are looked through, also by a worker that has no room for them."""

AWAY_SECONDS = 1.0
"""How long the database is left alone after it has failed a job."""

FIRST_BEAT, BEAT_SECONDS = 0.05, 1.0
"""When progress is told for the first time, and how often at most; each time it takes longer."""


class Work(Protocol):
    """One job under way."""

    def progress(self) -> dict[str, Any]:
        """What is done so far, as JSON; `asked` counts calls that this start has had answered."""
        ...

    def stop(self) -> None:
        """Ask nothing more: `run` returns as soon as the calls under way have ended."""
        ...

    async def run(self) -> Ending | None:
        """Carry it out; None if it was stopped before its end.

        Raises `MmconvError` where it cannot be carried out as it is.
        """
        ...


Opener: TypeAlias = Callable[[Job], Work]
"""Makes the work of a job; one for each kind."""

Lacks: TypeAlias = Callable[[Job], str | None]
"""What a job needs that is not here, in words; None where it can be carried out."""


class Worker:
    """Takes jobs whose kind has an opener, `at_once` of each at most, until `draining` is set.

    So jobs of a kind that take long keep none of another from being begun.
    Jobs that lack something here (`lacks`) are left to other workers, and fail where there is none
    for long. `failing` says that it could not look for jobs when it last tried; it goes on trying.
    """

    def __init__(
        self,
        queue: Queue,
        openers: Mapping[str, Opener],
        mark: ProcessMark,
        draining: asyncio.Event,
        at_once: int,
        lacks: Lacks,
    ) -> None:
        self._queue = queue
        self._openers = openers
        self._mark = mark
        self._draining = draining
        self._at_once = at_once
        self._lacks = lacks
        self.failing = False
        self._told = 0.0
        self._tended = -TEND_SECONDS
        self._tasks: dict[asyncio.Task[None], tuple[str, Work]] = {}

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of jobs that it takes."""
        return tuple(self._openers)

    @property
    def busy(self) -> int:
        """How many jobs are under way in this process."""
        return len(self._tasks)

    @property
    def _kinds_with_room(self) -> list[str]:
        under_way = Counter(kind for kind, _ in self._tasks.values())
        return [kind for kind in self._openers if under_way[kind] < self._at_once]

    async def work(self) -> None:
        """Take jobs until the process drains; then ask for nothing more."""
        while not self._draining.is_set():
            job = await self._take(self._kinds_with_room)
            if job is None:
                await self._rest()
            else:
                self._begin(job)
        self._told = time.monotonic()
        # What ends while others are asked to stop is there no more.
        for _, work in [*self._tasks.values()]:
            work.stop()

    async def finish(self, seconds: float) -> None:
        """Wait for calls under way, then drop them; what is unfinished is given back.

        The seconds count from the end of `work`, when they were told to end.
        """
        if not self._tasks:
            return
        left = max(0.0, self._told + seconds - time.monotonic())
        _, late = await asyncio.wait(self._tasks, timeout=left)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _take(self, kinds: list[str]) -> Job | None:
        try:
            await self._tend()
            if not kinds:
                return None
            await self._free_orphans()
            found = await self._queue.take(self._mark.name, kinds, self._fits)
            self.failing = False
        except Exception as error:
            # Whatever it is, jobs must not wait for ever because of it.
            self.failing = True
            known = isinstance(error, StoreError)
            log.warning("no jobs can be taken: %s", error, exc_info=None if known else error)
            return None
        return found

    async def _tend(self) -> None:
        if time.monotonic() > self._tended + TEND_SECONDS:
            await self._queue.tend(self._lacks)
            self._tended = time.monotonic()

    async def _free_orphans(self) -> None:
        """Free the jobs of workers that share a folder with this one and are gone."""
        for name in await self._queue.holders():
            if self._mark.is_gone(name):
                await self._queue.expire(name)
                try:
                    self._mark.forget(name)
                except OSError as error:
                    log.warning("the mark of a worker that is gone stays: %s", error)

    def _fits(self, job: Job) -> bool:
        missing = self._lacks(job)
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
        log.info("%s %s: begun (start %d), of %s", job.kind, job.id, job.starts, job.owner)
        begun = time.monotonic()
        beating = asyncio.create_task(self._beat(job, work))
        try:
            try:
                ending, in_vain = await _carry_out(job, work)
            finally:
                beating.cancel()
            await self._let_go(job, work, ending, in_vain=in_vain)
            _log_end(job, work, ending, time.monotonic() - begun)
        except asyncio.CancelledError:
            _log_end(job, work, None, time.monotonic() - begun)
            await self._queue.give_back(job.id, self._mark.name, work.progress())
            raise

    async def _let_go(self, job: Job, work: Work, ending: Ending | None, *, in_vain: bool) -> None:
        """End a job or give it back; a database that is away is asked until the lease is over."""
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
        """Keep the lease; stop the work when it is asked to, or when the lease is lost."""
        pause = FIRST_BEAT
        kept, told = time.monotonic(), 0
        logged = "held"
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, BEAT_SECONDS)
            try:
                progress = work.progress()
                asked = progress["asked"]
                held = await self._queue.renew(
                    job.id, self._mark.name, progress, advanced=asked > told
                )
                kept, told = time.monotonic(), asked
            except Exception as error:
                # Without the beat nobody could stop the work, and its lease would run out.
                known = isinstance(error, StoreError)
                log.warning(
                    "%s %s: the lease is not renewed: %s",
                    job.kind,
                    job.id,
                    error,
                    exc_info=None if known else error,
                )
                held = "held" if time.monotonic() - kept < LEASE_SECONDS else "lost"
            if held != logged:
                log.info("%s %s: %s", job.kind, job.id, held)
                logged = held
            if held != "held":
                work.stop()


def _log_end(job: Job, work: Work, ending: Ending | None, seconds: float) -> None:
    log.info(
        "%s %s: %s after %.1f s, %d calls asked, %d lost, of %s",
        job.kind,
        job.id,
        "unfinished" if ending is None else ending.state,
        seconds,
        work.progress()["asked"],
        0 if ending is None else ending.lost,
        job.owner,
    )


async def _carry_out(job: Job, work: Work) -> tuple[Ending | None, bool]:
    """Run the work; what goes wrong is an ending too, in words that its owner may read.

    The database's failing is none of the job's fault: there is no ending then, and its start was
    in vain, which is the second of what is returned.
    """
    try:
        return await work.run(), False
    except StoreError as error:
        log.warning("%s %s: %s", job.kind, job.id, error)
        if job.starts < MOST_STARTS:
            return None, True
        told = f"the server's database failed {MOST_STARTS} times in a row; its log says why"
    except MmconvError as error:
        log.warning("%s %s failed: %s", job.kind, job.id, error)
        told = presentable(str(error), "what it needs cannot be read; the server's log says why")
    except Exception:
        log.exception("%s %s failed", job.kind, job.id)
        collect_soon()
        told = "the server failed; its log says why"
    return Ending(state="failed", progress=work.progress(), error=told), False
