"""The queue among several: others' jobs and owners, lookers on, rows that are spoilt."""

from __future__ import annotations

import asyncio
import threading

import pytest
from sqlalchemy import delete, update

from mmconv.store.jobs import Job
from mmconv.store.queue import Queue
from mmconv.store.schema import connect, jobs
from tests.mmconv.store.test_queue import KINDS, new, state, take


async def test_what_does_not_fit_is_left_to_others(queue: Queue, url: str) -> None:
    for name in ("a", "b", "c"):
        await queue.submit(new(name))
    looked: list[str] = []

    def fits(job: Job) -> bool:
        looked.append(job.id)
        return job.id == "c"

    for taken in ("c", None):
        found = await queue.take("one", KINDS, fits)
        assert (found and found.id) == taken
    assert looked == ["a", "b", "c"]
    assert await state(queue, "a") == "queued"
    other = Queue(url)
    assert (await take(other, "two")).id == "a"
    await other.aclose()


def drop(url: str, name: str) -> None:
    """Remove a job as another process does."""
    engine = connect(url)
    with engine.begin() as connection:
        connection.execute(delete(jobs).where(jobs.c.id == name))
    engine.dispose()


async def test_a_job_that_is_removed_while_the_queue_looks_may_come_again(
    queue: Queue, url: str
) -> None:
    for name in ("a", "b"):
        await queue.submit(new(name))

    def fits(job: Job) -> bool:
        if job.id == "a":
            drop(url, "b")
        return job.id == "b"

    assert await queue.take("one", KINDS, fits) is None
    await queue.submit(new("b"))
    found = await queue.take("one", KINDS, fits)
    assert found is not None
    assert found.id == "b"


async def test_a_job_that_did_not_fit_is_looked_at_when_it_comes_again(
    queue: Queue, url: str
) -> None:
    await queue.submit(new("a"))
    assert await queue.take("one", KINDS, lambda job: False) is None
    drop(url, "a")
    assert await queue.take("one", KINDS) is None
    await queue.submit(new("a"))
    assert (await take(queue, "one")).id == "a"


async def test_a_job_that_cannot_be_read_holds_up_no_other(
    queue: Queue, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        await queue.submit(new(name))
    engine = connect(url)
    with engine.begin() as connection:
        connection.execute(update(jobs).where(jobs.c.id == "a").values(progress="{"))
    engine.dispose()
    assert (await take(queue, "one")).id == "b"
    assert await queue.take("one", KINDS) is None
    assert caplog.text.count("the job a cannot be read") == 1


async def test_lookers_on_hold_up_no_lease(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    await queue.submit(new("a"))
    await take(queue, "one")
    looking, enough = threading.Event(), threading.Event()

    def look(_self: Queue, _job: str) -> None:
        looking.set()
        enough.wait(10)

    monkeypatch.setattr(Queue, "_get", look)
    slow = asyncio.create_task(queue.get("a"))
    await asyncio.to_thread(looking.wait, 10)
    try:
        async with asyncio.timeout(5):
            assert await queue.renew("a", "one", {}, advanced=False) == "held"
    finally:
        enough.set()
        await slow
