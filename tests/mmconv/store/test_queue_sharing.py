"""The queue among several: others' jobs and owners, lookers on, rows that are spoilt."""

import asyncio
import threading
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import IntegrityError

from mmconv.core.errors import StoreError
from mmconv.store.jobs import Ending, Filter
from mmconv.store.queue import Queue
from tests.mmconv.store.conftest import PAGES, small_disk
from tests.mmconv.store.test_queue import KINDS, expire, new, take


async def test_owners_take_turns_by_what_they_have_under_way_of_a_kind(queue: Queue) -> None:
    for name in ("a", "b", "c"):
        await queue.submit(new(name))
    await queue.submit(new("d", "bob"))
    assert [(await take(queue, "one")).id for _ in range(2)] == ["a", "d"]
    await queue.submit(new("e", "bob"))
    # Bob's has ended, and one of Ann's is still under way.
    await queue.finish("d", "one", Ending(state="done"))
    assert [(await take(queue, "one")).id for _ in range(3)] == ["e", "b", "c"]
    for name, owner in (("f", "ann"), ("g", "eve")):
        await queue.submit(replace(new(name, owner), kind="dialogue"))
    talk = await queue.take("one", ["dialogue"])
    assert talk is not None
    assert talk.id == "f"


async def test_jobs_of_a_dead_worker_do_not_count_for_owners(queue: Queue, url: str) -> None:
    for name, owner in (("a", "ann"), ("b", "ann"), ("c", "bob")):
        await queue.submit(new(name, owner))
    assert (await take(queue, "one")).id == "a"
    expire(url)
    assert [(await take(queue, "two")).id for _ in range(3)] == ["a", "c", "b"]


async def test_lookers_on_hold_up_no_lease(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    await queue.submit(new("a"))
    await take(queue, "one")
    looking, enough = threading.Event(), threading.Event()

    def look(_connection: object, _job: str) -> None:
        looking.set()
        enough.wait(10)

    monkeypatch.setattr("mmconv.store.queue.find_job", look)
    slow = asyncio.create_task(queue.get("a"))
    await asyncio.to_thread(looking.wait, 10)
    try:
        async with asyncio.timeout(5):
            assert await queue.renew("a", "one", {}, advanced=False) == "held"
    finally:
        enough.set()
        await slow


async def test_a_database_that_fails_is_told(tmp_path: Path) -> None:
    with small_disk():
        queue = Queue(str(tmp_path / "store.sqlite"))
        with pytest.raises(StoreError, match=r"store\.sqlite fails: .* disk is full"):
            for number in range(PAGES):
                await queue.submit(new(str(number), benchmark="x" * 9999))
        await queue.aclose()


async def test_what_is_wrong_with_a_statement_of_the_queue_stays_a_bug(queue: Queue) -> None:
    with pytest.raises(IntegrityError):
        await queue.submit(new("a", owner=None))  # type: ignore[arg-type]  # as by a bug


@pytest.mark.real
async def test_a_database_that_can_only_be_read_is_told(postgres_url: str) -> None:
    """As the server that stands by is."""
    queue = Queue(postgres_url)

    @event.listens_for(queue._engine, "begin")
    def restrict(connection: Connection) -> None:
        connection.execute(text("SET TRANSACTION READ ONLY"))

    with pytest.raises(StoreError, match="read-only transaction"):
        await queue.submit(new("a"))
    await queue.aclose()


@pytest.mark.real
async def test_others_are_read_on_demand_where_one_is_removed(
    postgres_url: str,
) -> None:
    """There may be thousands, and psycopg's plain cursors fetch all rows at once."""
    queue = Queue(postgres_url)
    for name in ("a", "b"):
        await queue.submit(new(name))
    await queue.stop("a")
    cursors: list[str] = []

    @event.listens_for(queue._engine, "after_cursor_execute")
    def note(_connection: Connection, cursor: object, *_given: object) -> None:
        cursors.append(type(cursor).__name__)

    await queue.remove("a", lambda job, others: None)
    assert "ServerCursor" in cursors
    await queue.aclose()


async def asked_plans(queue: Queue, *looks: Awaitable[object]) -> list[list[str]]:
    """How SQLite goes about each query of jobs that is asked meanwhile, step by step."""
    asked: list[tuple[str, Any]] = []

    @event.listens_for(queue._engine, "before_cursor_execute")
    def note(_connection: Connection, _cursor: object, query: str, given: Any, *_: object) -> None:
        asked.append((query, given))

    for look in looks:
        await look
    event.remove(queue._engine, "before_cursor_execute", note)
    with queue._engine.connect() as connection:
        return [
            [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", given)]
            for query, given in asked
            if "jobs" in query
        ]


async def test_looks_and_lists_read_no_jobs_that_they_do_not_tell_of(tmp_path: Path) -> None:
    """A server that has been up for long has thousands of jobs that have ended."""
    queue = Queue(str(tmp_path / "store.sqlite"))
    [plan] = await asked_plans(queue, queue.page(Filter(kind="run")))
    steps = " ".join(plan)
    assert "USING INDEX" in steps
    assert "SCAN" not in steps
    assert "ORDER BY" not in steps
    await queue.aclose()


async def test_a_look_for_free_jobs_reads_none_that_has_ended(tmp_path: Path) -> None:
    queue = Queue(str(tmp_path / "store.sqlite"))
    [plan] = await asked_plans(queue, queue.take("one", KINDS))
    steps = [step for step in plan if " jobs" in step]
    assert len(steps) == 3  # Those under way are counted, and those that wait or are left are read.
    assert all("USING INDEX ix_jobs_state" in step for step in steps)
    await queue.aclose()
