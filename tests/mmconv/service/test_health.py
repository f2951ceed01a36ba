from __future__ import annotations

import asyncio
import errno
from io import BytesIO
from typing import Any

import httpx2
import pytest

from mmconv import __version__
from mmconv.core.errors import StoreError
from model_zoo.simulated import fake
from tests.mmconv.service.conftest import Serve, Served


async def test_a_process_that_lives_says_its_version(served: Served) -> None:
    answer = await served.client.get("/health")
    assert answer.json() == {"status": "ok", "version": __version__}


async def test_a_process_that_is_ending_takes_no_more(served: Served) -> None:
    assert (await served.client.get("/ready")).status_code == 200
    served.shared.draining.set()
    assert (await served.client.get("/ready")).json()["error"]["code"] == "draining"
    assert (await served.client.get("/health")).status_code == 200


async def test_a_process_without_its_database_is_not_ready(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_self: object, _job: str) -> None:
        raise StoreError("no server at 10.0.0.7")

    monkeypatch.setattr("mmconv.store.queue.Queue.get", fail)
    answer = await served.client.get("/ready")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_database")
    assert "10.0.0.7" not in answer.text
    assert int(answer.headers["retry-after"]) > 0


async def test_a_database_that_hangs_is_one_that_is_away(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mmconv.service.health.DATABASE_SECONDS", 0.1)

    async def hang(*_given: object) -> None:
        await asyncio.sleep(60)

    for name in ("get", "backlog"):
        monkeypatch.setattr(f"mmconv.store.queue.Queue.{name}", hang)
    async with asyncio.timeout(10):
        answer = await served.client.get("/ready")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_database")
        assert (await served.client.get("/metrics")).status_code == 200
    info = "the database has not answered for 0.1 s"
    assert sum(line.endswith(f": {info}") for line in caplog.messages) == 2
    assert f"the queue is not counted: {info}" in caplog.messages


async def test_a_process_without_room_is_not_ready(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    out = served.shared.settings.out
    before = sorted(out.rglob("*"))
    assert (await served.client.get("/ready")).status_code == 200
    assert sorted(out.rglob("*")) == before

    class Full(BytesIO):
        def write(self, _data: object, /) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("mmconv.service.health.TemporaryFile", lambda **_: Full())
    answer = await served.client.get("/ready")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_room")
    assert sum(f"cannot write into {out}: [Errno 28]" in line for line in caplog.messages) == 1


async def test_a_process_is_ready_when_its_models_are_loaded(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading = asyncio.Event()
    really = fake.open_backend

    async def load(*given: Any) -> Any:
        await loading.wait()
        return await really(*given)

    monkeypatch.setattr(fake, "open_backend", load)
    served = await serve(preload=["echo"])
    answer = await served.client.get("/ready")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "loading")
    assert "echo" in answer.json()["error"]["message"]
    assert int(answer.headers["retry-after"]) > 0
    loading.set()
    await became(served, 200)


async def test_a_process_whose_worker_takes_no_jobs_is_not_ready(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmconv.service.jobs.POLL_SECONDS", 0.01)

    async def fail(*_given: object) -> None:
        raise ZeroDivisionError("secret")

    with monkeypatch.context() as patch:
        patch.setattr("mmconv.store.queue.Queue.take", fail)
        served.shared.queue.news.set()
        answer = await became(served, 503)
    assert answer.json()["error"]["code"] == "no_worker"
    assert "secret" not in answer.text
    await became(served, 200)


async def became(served: Served, status: int) -> httpx2.Response:
    """What `/ready` answers as soon as it has this status."""
    async with asyncio.timeout(10):
        while True:
            answer = await served.client.get("/ready")
            if answer.status_code == status:
                return answer
            await asyncio.sleep(0.01)
