"""Health, readiness and metrics."""

import asyncio
import errno
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mmconv import __version__
from mmconv.core.errors import Refused, StoreError, Transient
from mmconv.core.types import Reply
from model_zoo.simulated import fake
from model_zoo.simulated.fake import FakeBackend
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import CHAT, begun, drawn, ended, request
from tests.mmconv.service.tokens import bearer, token


async def test_a_process_that_lives_says_its_version(served: Served) -> None:
    answer = await served.client.get("/health")
    assert answer.json() == {"status": "ok", "version": __version__}


async def test_a_process_that_is_ending_takes_no_more(served: Served) -> None:
    assert (await served.client.get("/ready")).status_code == 200
    served.shared.draining.set()
    assert (await served.client.get("/ready")).json()["error"]["code"] == "draining"
    assert (await served.client.get("/health")).status_code == 200


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


async def test_loaded_models_make_it_ready(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_idle_workers_are_not_ready(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def values(served: Served, name: str) -> dict[str, float]:
    """The metric's values by its labels, as `/metrics` shows them."""
    page = (await served.client.get("/metrics")).text
    found = re.findall(rf"^mmconv_{name}(?:_total)?\{{(.*)\}} (\S+)$", page, re.MULTILINE)
    return {labels.replace('"', ""): float(value) for labels, value in found}


async def start(served: Served, **fields: Any) -> str:
    posted = await served.client.post("/v1/runs", json=request(**fields))
    return str(posted.raise_for_status().json()["id"])


async def test_calls_and_tokens_of_a_run_are_counted(serve: Serve, tmp_path: Path) -> None:
    served = await serve(data=drawn(tmp_path))
    progress = (await ended(served.client, await start(served)))["progress"]
    calls = await values(served, "calls")
    assert calls.keys() == {
        "model=echo,outcome=reply,token=local,work=run",
        "model=judge,outcome=reply,token=local,work=run",
    }
    assert sum(calls.values()) == progress["requested"] > 0
    tokens = await values(served, "tokens")
    for direction in ("input", "output"):
        info = sum(value for name, value in tokens.items() if f"direction={direction}" in name)
        assert info == progress[f"{direction}_tokens"] > 0
    # what the store holds is not asked, and costs nothing
    run = await start(served, limit=1)
    assert (await ended(served.client, run))["progress"]["input_tokens"] == 0
    assert await values(served, "calls") == calls


@pytest.mark.parametrize(("calls", "work"), [(32, "dialogue"), (0, "dialogue"), (None, "chat")])
async def test_each_token_sees_what_it_spent(serve: Serve, calls: int | None, work: str) -> None:
    tokens = [token(name, "admin") for name in ("ada", "bob")]
    served = await serve(tokens=tokens, synchronous_calls=calls or 0)
    for name in ("ada", "bob"):
        if work == "chat":
            asked = await served.client.post(
                "/v1/chat/completions", json=CHAT, headers=bearer(name)
            )
        else:
            body = {"model": "echo", "turns": [{"instruction": f"I am {name}"}]}
            asked = await served.client.post(
                "/v1/dialogues?wait=20", json=body, headers=bearer(name)
            )
        assert asked.status_code == 200, asked.text
    served.client.headers.update(bearer("ada"))
    assert await values(served, "calls") == {
        f"model=echo,outcome=reply,token={name},work={work}": 1 for name in ("ada", "bob")
    }
    spent = await values(served, "tokens")
    for name in ("ada", "bob"):
        assert spent[f"direction=input,model=echo,token={name},work={work}"] > 0


async def test_failed_attempts_count_tokens(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [
        Transient("server", "broken off", retry_after=0.0, input_tokens=300, output_tokens=5),
        Refused("filter", "held back", input_tokens=1000, output_tokens=7),
    ]

    async def fail(*_asked: object, **_how: object) -> Reply:
        raise errors.pop(0)

    monkeypatch.setattr(FakeBackend, "generate", fail)
    served = await serve()
    await served.client.post("/v1/chat/completions", json=CHAT)
    assert (await values(served, "calls"))["model=echo,outcome=filter,token=local,work=chat"] == 1
    assert await values(served, "tokens") == {
        "direction=input,model=echo,token=local,work=chat": 1300,
        "direction=output,model=echo,token=local,work=chat": 12,
    }


async def test_the_process_tells_of_its_memory(served: Served) -> None:
    page = (await served.client.get("/metrics")).text
    for name in ("resident_memory_bytes", "cpu_seconds_total", "open_fds"):
        assert re.search(rf"^process_{name} [1-9]", page, re.MULTILINE), name


async def test_the_queue_is_counted_while_its_database_answers(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = await serve(data=drawn(tmp_path), runs_at_once=1)
    assert (await values(served, "queue_jobs"))["state=queued,work=run"] == 0
    roles = {"candidate": "slow", "judge": "judge"}
    running = await start(served, models=roles)
    await begun(served.client, running, replies=0)
    while (await served.client.get(f"/v1/runs/{running}")).json()["state"] != "running":
        pass
    waiting = await start(served, models=roles, limit=1)
    assert await values(served, "queue_jobs") == {
        "state=queued,work=run": 1,
        "state=running,work=run": 1,
        "state=queued,work=dialogue": 0,
        "state=running,work=dialogue": 0,
    }
    assert (await values(served, "queue_oldest_seconds"))["work=run"] > 0

    async def fail(_self: object) -> None:
        raise StoreError("no server")

    with monkeypatch.context() as patch:
        patch.setattr("mmconv.store.queue.Queue.backlog", fail)
        assert await values(served, "queue_jobs") == {}
        assert await values(served, "requests") != {}
    for run in (waiting, running):
        await served.client.delete(f"/v1/runs/{run}")
