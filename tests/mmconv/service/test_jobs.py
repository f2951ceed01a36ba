"""Jobs: how the worker executes them, and what their ids stand for."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from mmconv.core.errors import DataError, StoreError
from mmconv.service.dialogue_run import DialogueRequest
from mmconv.service.jobs import Work, Worker
from mmconv.service.run_requests import RunRequest
from mmconv.store.jobs import Ending, Job, NewJob
from mmconv.store.queue import Queue
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import drawn, ended, finished, request, until
from tests.mmconv.service.tokens import bearer, token
from tests.mmconv.store.test_queue import expire


@dataclass(slots=True)
class Task(Work):
    """A `Work` that ends when the test says so; with `stubborn` it does not stop when asked."""

    job: Job
    stubborn: bool = False
    stopped: bool = False
    asked: int = 0
    end: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None

    def progress(self) -> dict[str, Any]:
        return {"replies": 1, "requested": self.asked}

    def stop(self) -> None:
        self.stopped = True
        if not self.stubborn:
            self.end.set()

    async def run(self) -> Ending | None:
        await self.end.wait()
        if self.error is not None:
            raise self.error
        return None if self.stopped else Ending(state="done", progress=self.progress())


@dataclass(slots=True)
class Bench:
    """A worker at work over a queue, and the tasks that it opened by job."""

    queue: Queue
    worker: Worker
    draining: asyncio.Event
    tasks: dict[str, Task]
    stubborn: bool = False

    def open(self, job: Job) -> Task:
        self.tasks[job.id] = Task(job, stubborn=self.stubborn)
        return self.tasks[job.id]

    async def submit(self, name: str, kind: str = "task", owner: str = "ann") -> None:
        await self.queue.submit(NewJob(id=name, kind=kind, owner=owner, spec="{}"))

    async def task(self, name: str) -> Task:
        """The job's task, when it has been begun."""
        async with asyncio.timeout(10):
            while True:
                if name in self.tasks:
                    return self.tasks[name]
                await asyncio.sleep(0.01)

    async def state(self, name: str, wanted: str) -> Job:
        """The job, when it is in this state."""
        async with asyncio.timeout(10):
            while True:
                job = await self.queue.get(name)
                assert job is not None
                if job.state == wanted:
                    return job
                await asyncio.sleep(0.01)


@asynccontextmanager
async def bench(folder: Path, *, at_once: int = 2, drain: float = 5) -> AsyncIterator[Bench]:
    queue, draining = Queue(str(folder / "store.sqlite")), asyncio.Event()
    made: dict[str, Task] = {}
    opened = Bench(queue, None, draining, made)  # type: ignore[arg-type]  # in a moment
    opened.worker = Worker(queue, {"task": opened.open, "talk": opened.open}, draining, at_once)
    try:
        async with opened.worker.at_work(drain):
            yield opened
    finally:
        await queue.aclose()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (DataError("record 3", ["the field x is empty"]), "the field x is empty"),
        (DataError("/srv/data.json", ["x"]), "the server's log says why"),
        (ZeroDivisionError("secret"), "the server failed; its log says why"),
    ],
)
async def test_failures_show_no_secrets(tmp_path: Path, error: Exception, words: str) -> None:
    async with bench(tmp_path) as at:
        await at.submit("a")
        task = await at.task("a")
        task.error = error
        task.end.set()
        job = await at.state("a", "failed")
        assert words in str(job.error)
        await at.submit("b")
        (await at.task("b")).end.set()
        await at.state("b", "done")


async def test_a_job_whose_database_fails_is_begun_again_after_its_lease(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as at:
        await at.submit("a")
        for start in (1, 2):
            task = await at.task("a")
            assert task.job.starts == start
            del at.tasks["a"]
            task.error = StoreError("terminating connection at 10.0.0.7")
            task.end.set()
            await until(lambda: not at.worker._tasks)
            await asyncio.to_thread(expire, str(tmp_path / "store.sqlite"))
        (await at.task("a")).end.set()
        assert (await at.state("a", "done")).error is None


@pytest.mark.parametrize(("asked", "starts"), [(0, 1), (1, 0)])
async def test_only_new_replies_show_progress(tmp_path: Path, asked: int, starts: int) -> None:
    """What the store held comes back each time that a server ends while at it."""
    async with bench(tmp_path) as at:
        await at.submit("a")
        task = await at.task("a")
        task.asked = asked
        job = await at.state("a", "running")
        while job.progress != task.progress():
            job = await at.state("a", "running")
        assert job.starts == starts
        task.end.set()
        await at.state("a", "done")


async def test_a_job_whose_end_cannot_be_written_ends_at_its_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> bool:
        raise StoreError("away")

    async with bench(tmp_path) as at:
        await at.submit("a")
        with monkeypatch.context() as patch:
            patch.setattr(Queue, "finish", fail)
            (await at.task("a")).end.set()
            await until(lambda: not at.worker._tasks)
        del at.tasks["a"]
        await asyncio.to_thread(expire, str(tmp_path / "store.sqlite"))
        (await at.task("a")).end.set()
        await at.state("a", "done")


async def test_so_many_jobs_at_once_and_no_more(tmp_path: Path) -> None:
    async with bench(tmp_path, at_once=2) as at:
        for name in "ab":
            await at.submit(name)
            await at.task(name)
        # Were there room for it, the one that came first would be taken first.
        await at.submit("c", owner="bob")
        await at.submit("d", "talk", owner="bob")
        await at.task("d")
        assert list(at.tasks) == ["a", "b", "d"]
        at.tasks["b"].end.set()
        await at.task("c")


async def test_a_job_that_shall_stop_is_told(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:
        await at.submit("a")
        task = await at.task("a")
        await at.queue.stop("a")
        await at.state("a", "stopped")
        assert task.stopped


async def test_a_job_in_other_hands_is_let_go(tmp_path: Path) -> None:
    async with bench(tmp_path, at_once=1) as at:
        await at.submit("a")
        task = await at.task("a")
        async with asyncio.timeout(10):
            taken = None
            while taken is None:  # The worker's own beat may come between, and renew the lease.
                await asyncio.to_thread(expire, str(tmp_path / "store.sqlite"))
                taken = await at.queue.take("other", ["task"])
        await asyncio.wait_for(task.end.wait(), 10)
        await until(lambda: not at.worker._tasks)
        job = await at.queue.get("a")
        assert job is not None
        assert (job.state, job.worker) == ("running", "other")


@pytest.mark.parametrize("stubborn", [False, True])
async def test_draining_gives_jobs_back_and_takes_none(tmp_path: Path, stubborn: bool) -> None:
    """What takes too long to drain is dropped."""
    async with bench(tmp_path, drain=0.1 if stubborn else 5) as at:
        at.stubborn = stubborn
        await at.submit("a")
        await at.task("a")
    again = Queue(str(tmp_path / "store.sqlite"))
    job = await again.get("a")
    assert job is not None
    assert (job.state, job.worker) == ("queued", None)
    await again.aclose()


async def test_draining_has_one_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asyncio.timeout(30), bench(tmp_path, drain=100) as at:
        at.stubborn = True
        await at.submit("a")
        await at.task("a")
        at.draining.set()
        at.queue.news.set()
        await until(lambda: at.tasks["a"].stopped)
        later = SimpleNamespace(monotonic=lambda: time.monotonic() + 100)
        monkeypatch.setattr("mmconv.service.jobs.time", later)


async def test_the_worker_goes_on_whatever_goes_wrong_when_it_looks_for_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mmconv.service.jobs.POLL_SECONDS", 0.01)
    async with bench(tmp_path) as at:

        async def fail(*_: object) -> None:
            raise OSError("the disk is gone")

        with monkeypatch.context() as patch:
            patch.setattr(at.queue, "take", fail)
            await until(lambda: at.worker.failing)
        await at.submit("a")
        (await at.task("a")).end.set()
        await at.state("a", "done")
        await until(lambda: not at.worker.failing)
    assert "the disk is gone" in caplog.text


async def test_a_beat_follows_a_failed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(tmp_path) as at:
        await at.submit("a")
        task = await at.task("a")

        failed: list[Task] = []

        def fail(work_on_image: Task) -> dict[str, Any]:
            failed.append(work_on_image)
            raise ZeroDivisionError

        with monkeypatch.context() as patch:
            patch.setattr(Task, "progress", fail)
            await until(lambda: len(failed) == 2)
        await at.queue.stop("a")
        await until(lambda: task.stopped)


TALK = {"model": "m", "turns": [{"instruction": "Why?"}]}


def scripted(text: str) -> dict[str, Any]:
    """The settings of a model that says this."""
    return {"provider": "fake", "model": "scripted", "options": {"script": {".*": text}}}


async def test_another_model_of_a_name_is_another_dialogue(serve: Serve, tmp_path: Path) -> None:
    said = []
    for text in ("old", "new", "old"):
        served = await serve(models={"m": scripted(text)}, synchronous_calls=0)
        answer = await served.client.post("/v1/dialogues", params={"wait": 30}, json=TALK)
        assert answer.status_code == 200, answer.text
        said.append(answer.json()["conditions"][0]["turns"][0]["text"])
    assert said == ["old", "new", "old"]


async def test_what_was_changed_in_place_is_run_again(serve: Serve, tmp_path: Path) -> None:
    """The data, then the prompts; what is not changed is found."""
    prompts = tmp_path / "prompts"
    (prompts / "convbench").mkdir(parents=True)
    file = prompts / "convbench" / "direct_turn_1.md"
    ours = resources.files("judges") / "prompts" / "convbench" / file.name
    file.write_text(ours.read_text())
    shapes = drawn(tmp_path)
    data = Path(shapes["shapes"]["options"]["data"])
    tokens = [token("ann", "admin"), token("bob", "run")]

    async def post(name: str = "ann") -> tuple[httpx2.Response, Served]:
        served: Served = await serve(tokens=tokens, data=shapes, prompts=prompts)
        served.client.headers.update(bearer("ann"))
        posted = await served.client.post("/v1/runs", json=request(limit=1), headers=bearer(name))
        if posted.status_code == 202:
            assert (await ended(served.client, posted.json()["id"]))["state"] == "done"
        return posted, served

    before_data = await asyncio.to_thread(data.read_text)
    first, _ = await post()
    found, served = await post()
    assert (found.status_code, found.json()["id"]) == (200, first.json()["id"])
    place = f"/v1/runs/{found.json()['id']}/samples/1"
    before = (await served.client.get(place)).text
    await asyncio.to_thread(data.write_text, before_data.replace("Count and", "Say it: count and"))
    refused, _ = await post("bob")
    assert refused.status_code == 409
    assert "was made from files that have changed since" in refused.json()["error"]["message"]
    again, served = await post()
    assert again.status_code == 202
    after = (await served.client.get(place)).text
    assert ("Say it" in before, "Say it" in after) == (False, True)
    assert (await post())[0].status_code == 200
    file.write_text(file.read_text() + "\nBe strict.\n")
    assert (await post())[0].status_code == 202
    await asyncio.to_thread(data.unlink)
    assert (await post())[0].status_code == 200


async def test_pictures_of_a_finished_run_outlive_its_models(serve: Serve, tmp_path: Path) -> None:
    data = drawn(tmp_path)
    served = await serve(data=data)
    run = (await finished(served.client, limit=1))["id"]
    shown = (await served.client.get(f"/v1/runs/{run}/samples/1")).json()["calls"][0]["messages"]
    [image] = re.findall("[0-9a-f]{64}", str(shown))
    later = await serve(data=data, models={"echo": scripted("new")})
    answer = await later.client.get(f"/v1/runs/{run}/images/{image}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert "data:image/" in (await later.client.get(f"/v1/runs/{run}/report")).text


async def test_jobs_of_earlier_settings_fail_and_say_so(serve: Serve, tmp_path: Path) -> None:
    """Others' results would depend on other models than their ids stand for."""
    served = await serve()
    queue = served.shared.queue
    gone = RunRequest(data="gone", models={"candidate": "echo"}).model_dump_json()
    talk = DialogueRequest.model_validate({**TALK, "model": "echo"}).model_dump_json()
    await queue.submit(NewJob(id="x", kind="run", owner="local", spec=gone))
    await queue.submit(
        NewJob(id="dialogue-000000000000", kind="dialogue", owner="local", spec=talk)
    )
    assert "no dataset 'gone' here" in (await ended(served.client, "x"))["error"]
    talk_ended = await ended(served.client, "/v1/dialogues/dialogue-000000000000")
    assert "configured otherwise by now" in talk_ended["error"]
