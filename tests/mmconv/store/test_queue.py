"""The queue: who holds a job, what becomes of it, on SQLite and on a real PostgreSQL."""

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from mmconv.store.connections import connect
from mmconv.store.jobs import Ending, Filter, Job, NewJob
from mmconv.store.queue import KEY_SECONDS, MOST_STARTS, Queue
from mmconv.store.schema import job_keys, jobs

KINDS = ("run",)


def new(name: str, owner: str = "ann", **fields: str) -> NewJob:
    return NewJob(id=name, kind="run", owner=owner, spec=f'{{"name": "{name}"}}', **fields)


def there(job: Job | None) -> Job:
    assert job is not None
    return job


async def get(queue: Queue, name: str) -> Job:
    return there(await queue.get(name))


async def take(queue: Queue, worker: str) -> Job:
    return there(await queue.take(worker, KINDS))


async def submit(queue: Queue, job: NewJob, *, for_others: bool = False) -> tuple[str, Job]:
    submitted = await queue.submit(job, for_others=for_others)
    return submitted.admission, there(submitted.job)


def expire(url: str) -> None:
    """As if the workers of all jobs had died long ago."""
    engine = connect(url)
    with engine.begin() as connection:
        connection.execute(update(jobs).values(lease=jobs.c.created))
    engine.dispose()


async def test_a_job_is_queued_taken_and_done(queue: Queue) -> None:
    admission, job = await submit(queue, new("a", benchmark="convbench", model="tiny"))
    assert (admission, job.state, job.started) == ("new", "queued", None)
    held = await take(queue, "one")
    assert (held.id, held.spec, held.state) == ("a", '{"name": "a"}', "running")
    assert held.started is not None
    assert held.started >= held.created
    result = {"finished": 3, "text": "any \x00 sign"}
    assert await queue.renew("a", "one", result, advanced=True) == "held"
    assert (await get(queue, "a")).progress == result
    assert await queue.finish("a", "one", Ending(state="done", progress={"finished": 4}))
    done = await get(queue, "a")
    assert (done.state, done.worker, done.progress) == ("done", None, {"finished": 4})
    assert done.ended is not None
    assert await queue.take("one", KINDS) is None


async def test_submitting_again_finds_the_job(queue: Queue) -> None:
    assert (await queue.submit(new("a"))).admission == "new"
    assert (await queue.submit(new("a", "bob"))).admission == "known"
    await take(queue, "one")
    assert (await queue.submit(new("a"))).admission == "known"
    await queue.finish("a", "one", Ending(state="done"))
    admission, job = await submit(queue, new("a"))
    assert (admission, job.state) == ("known", "done")


async def test_what_another_owner_stopped_is_resumed_only_on_purpose(
    queue: Queue,
) -> None:
    await queue.submit(new("a"))
    await queue.stop("a")
    admission, job = await submit(queue, new("a", "bob"))
    assert (admission, job.state) == ("not_owned", "stopped")
    admission, job = await submit(queue, new("a", "bob"), for_others=True)
    assert (admission, job.owner) == ("resumed", "ann")


@pytest.mark.parametrize(
    "ending", [Ending(state="failed", error="no such file"), Ending(state="done", lost=2)]
)
async def test_what_did_not_go_well_is_queued_again(queue: Queue, ending: Ending) -> None:
    await queue.submit(new("a"))
    await take(queue, "one")
    await queue.finish("a", "one", ending)
    admission, job = await submit(queue, new("a"))
    assert (admission, job.state, job.error) == ("resumed", "queued", None)
    assert (await take(queue, "two")).id == "a"


async def test_what_was_finished_stays_where_a_later_session_fails(queue: Queue) -> None:
    await queue.submit(new("a"))
    for ending in (Ending(state="done", result="{}"), Ending(state="failed", error="away")):
        assert (await queue.submit(new("a"), afresh=True)).admission in ("known", "resumed")
        await take(queue, "one")
        await queue.finish("a", "one", ending)
    job = await get(queue, "a")
    assert (job.state, job.result, job.error) == ("failed", "{}", "away")


async def test_a_key_stands_for_one_job_of_its_owner(queue: Queue) -> None:
    assert (await queue.submit(new("a"), key="k")).admission == "new"
    assert (await queue.submit(new("a"), key="k")).admission == "known"
    assert (await queue.submit(new("b"), key="k")).admission == "key_reused"
    assert await queue.get("b") is None
    assert (await queue.submit(new("b", "bob"), key="k")).admission == "new"


async def test_a_key_stands_for_its_job_for_a_day(queue: Queue, url: str) -> None:
    await queue.submit(new("a"), key="k")
    engine = connect(url)

    def age(seconds: float) -> None:
        with engine.begin() as connection:
            made = datetime.now(UTC) - timedelta(seconds=seconds)
            connection.execute(update(job_keys).values(created=made))

    age(KEY_SECONDS - 60)
    assert (await queue.submit(new("b"), key="k")).admission == "key_reused"
    age(KEY_SECONDS + 60)
    assert (await queue.submit(new("b"), key="k")).admission == "new"
    assert (await queue.submit(new("a"), key="k")).admission == "key_reused"
    engine.dispose()


async def test_a_job_is_removed_with_its_keys_and_what_it_left(queue: Queue) -> None:
    for name in ("a", "b", "c"):
        await queue.submit(new(name, benchmark="x"), key=f"k{name}")
    await queue.submit(new("d", benchmark="y"))
    cleared: list[tuple[str, list[str]]] = []

    def clear(job: Job, others: Iterable[Job]) -> None:
        cleared.append((job.id, sorted(each.id for each in others)))

    waiting = there(await queue.remove("a", clear))
    assert (waiting.is_active, cleared) == (True, [])
    await queue.stop("a")
    removed = there(await queue.remove("a", clear))
    assert (removed.state, cleared) == ("stopped", [("a", ["b", "c"])])
    assert await queue.get("a") is None
    assert (await queue.submit(new("e"), key="ka")).admission == "new"
    assert await queue.remove("a", clear) is None


async def test_a_job_stays_whose_remains_cannot_be_cleared(queue: Queue) -> None:
    await queue.submit(new("a"), key="k")
    await queue.stop("a")

    def fail(_job: Job, _others: Iterable[Job]) -> None:
        raise OSError("no such disk")

    with pytest.raises(OSError, match="no such disk"):
        await queue.remove("a", fail)
    assert (await get(queue, "a")).state == "stopped"
    assert (await queue.submit(new("b"), key="k")).admission == "key_reused"


async def test_an_owner_has_so_many_active_jobs(queue: Queue) -> None:
    await queue.submit(new("a"), most=2)
    await queue.submit(new("b"), most=2)
    refused = await queue.submit(new("c"), key="k", most=2)
    assert (refused.admission, refused.job) == ("too_many", None)
    assert (await queue.submit(new("a"), most=2)).admission == "known"
    assert (await queue.submit(new("c", "bob"), most=2)).admission == "new"
    await queue.stop("a")
    # A key that came with a refused submission stands for nothing.
    assert (await queue.submit(new("d"), key="k", most=2)).admission == "new"


async def test_submissions_at_once_do_not_outgrow_the_limit(url: str) -> None:
    queues = [Queue(url) for _ in range(4)]
    submitted = await asyncio.gather(
        *(queues[n % 4].submit(new(f"job{n}"), most=3) for n in range(12))
    )
    assert sum(each.admission == "new" for each in submitted) == 3
    for each in queues:
        await each.aclose()


def test_a_new_database_may_be_opened_by_several_at_once(url: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        for engine in threads.map(lambda _: connect(url), range(8)):
            engine.dispose()


async def test_no_job_is_taken_twice(url: str) -> None:
    queues = [Queue(url) for _ in range(4)]
    for number in range(20):
        await queues[0].submit(new(f"job{number:02}"))
    taken = await asyncio.gather(*(queues[n % 4].take(f"w{n % 4}", KINDS) for n in range(40)))
    names = [job.id for job in taken if job is not None]
    assert sorted(names) == [f"job{number:02}" for number in range(20)]
    for each in queues:
        await each.aclose()


async def test_the_oldest_is_taken_first(queue: Queue) -> None:
    for name in ("c", "a", "b"):
        await queue.submit(new(name))
    assert [(await take(queue, "one")).id for _ in range(3)] == ["c", "a", "b"]


async def test_what_waits_and_what_is_under_way_is_counted_by_kind(queue: Queue) -> None:
    assert await queue.backlog() == {}
    for name in ("a", "b", "c", "d"):
        await queue.submit(new(name))
    await take(queue, "one")
    await queue.finish((await take(queue, "one")).id, "one", Ending(state="done"))
    await queue.submit(NewJob(id="x", kind="dialogue", owner="ann", spec="{}"))
    found = await queue.backlog()
    assert {kind: (each.queued, each.running) for kind, each in found.items()} == {
        "run": (2, 1),
        "dialogue": (1, 0),
    }
    assert found["run"].oldest_seconds > found["dialogue"].oldest_seconds > 0


async def test_other_kinds_are_left(queue: Queue) -> None:
    await queue.submit(new("a"))
    assert await queue.take("one", ("dialogue",)) is None


async def test_a_dead_workers_job_goes_on_elsewhere(queue: Queue, url: str) -> None:
    await queue.submit(new("a"))
    await take(queue, "dead")
    assert await queue.take("one", KINDS) is None
    expire(url)
    assert (await take(queue, "one")).id == "a"
    # The one that was taken for dead learns that it is too late.
    assert await queue.renew("a", "dead", {}, advanced=True) == "lost"
    assert not await queue.finish("a", "dead", Ending(state="done"))
    await queue.give_back("a", "dead", {})
    assert await queue.renew("a", "one", {}, advanced=True) == "held"


async def test_a_worker_that_was_only_slow_keeps_its_job(queue: Queue, url: str) -> None:
    await queue.submit(new("a"))
    await take(queue, "slow")
    expire(url)
    assert await queue.renew("a", "slow", {}, advanced=False) == "held"
    assert await queue.take("one", KINDS) is None


async def test_a_job_that_ends_its_workers_is_given_up(queue: Queue, url: str) -> None:
    await queue.submit(new("a"))
    for start in range(MOST_STARTS):
        await take(queue, f"worker{start}")
        expire(url)
    assert await queue.take("one", KINDS) is None
    job = await get(queue, "a")
    assert (job.state, job.worker) == ("failed", None)
    assert "without a new reply" in str(job.error)


async def test_getting_on_gives_new_starts(queue: Queue, url: str) -> None:
    await queue.submit(new("a"))
    for start in range(MOST_STARTS + 2):
        await take(queue, f"worker{start}")
        await queue.renew("a", f"worker{start}", {}, advanced=True)
        expire(url)
    assert (await take(queue, "one")).id == "a"


async def test_stopping_what_waits_and_what_runs(queue: Queue) -> None:
    await queue.submit(new("a"))
    await queue.submit(new("b"))
    await take(queue, "one")
    running, waiting = there(await queue.stop("a")), there(await queue.stop("b"))
    assert (running.state, running.stopping) == ("running", True)
    assert (waiting.state, waiting.stopping) == ("stopped", False)
    assert await queue.renew("a", "one", {}, advanced=True) == "stop"
    await queue.give_back("a", "one", {"finished": 1})
    stopped = there(await queue.stop("a"))
    assert (stopped.state, stopped.stopping) == ("stopped", False)
    assert stopped.progress == {"finished": 1}
    assert await queue.take("one", KINDS) is None
    assert await queue.stop("no such job") is None


async def test_a_stopped_job_is_resumed(queue: Queue) -> None:
    await queue.submit(new("a"))
    await queue.stop("a")
    assert (await queue.submit(new("a"))).admission == "resumed"
    assert (await take(queue, "one")).id == "a"


async def test_resumed_while_it_stops(queue: Queue) -> None:
    await queue.submit(new("a"))
    await take(queue, "one")
    await queue.stop("a")
    admission, job = await submit(queue, new("a"))
    assert (admission, job.state, job.stopping) == ("resumed", "running", False)
    assert await queue.take("two", KINDS) is None
    await queue.give_back("a", "one", {})
    assert (await get(queue, "a")).state == "queued"


async def test_what_a_worker_gives_back_is_queued(queue: Queue) -> None:
    await queue.submit(new("a"))
    await take(queue, "one")
    await queue.give_back("a", "one", {})
    assert (await take(queue, "two")).id == "a"


async def test_a_job_whose_worker_died_while_stopping_is_stopped(queue: Queue, url: str) -> None:
    await queue.submit(new("a"))
    await take(queue, "dead")
    await queue.stop("a")
    expire(url)
    assert await queue.take("one", KINDS) is None
    assert (await get(queue, "a")).state == "stopped"


async def test_lists_have_pages_and_filters(queue: Queue) -> None:
    for number in range(5):
        await queue.submit(
            new(f"job{number}", "ann" if number % 2 else "bob", benchmark=f"b{number % 3}")
        )
    await queue.stop("job4")
    first = await queue.page(Filter(), limit=2)
    rest = await queue.page(Filter(), after=first[-1].id, limit=9)
    assert [job.id for job in (*first, *rest)] == ["job4", "job3", "job2", "job1", "job0"]
    chosen = [
        await queue.page(each)
        for each in (Filter(owner="ann"), Filter(benchmark="b0", state="queued"), Filter(kind="x"))
    ]
    listed = [[job.id for job in jobs] for jobs in chosen]
    assert listed == [["job3", "job1"], ["job3", "job0"], []]
    with pytest.raises(KeyError):
        await queue.page(Filter(), after="gone")
