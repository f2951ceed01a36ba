"""Waiting for runs: batches of dialogues, and waits that are cancelled."""

import asyncio

import httpx2
import pytest

from mmconv.client import AsyncClient, ServiceError
from tests.mmconv.client.test_client import POSTED, mocked


def test_a_batch_that_lost_a_call_is_not_resumed_for_its_tables() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request.method)
        content = [] if request.url.path.endswith("/tables") else POSTED | {"lost": 1}
        posted = {"run": POSTED | {"state": "queued"}}
        return httpx2.Response(200, json=posted if request.method == "POST" else content)

    requests: list[str] = []
    with mocked(handler=answer) as client:
        assert client.batch("echo", [{"turns": ["Hi"]}]).run.lost == 1
    assert requests == ["POST", "GET", "GET"]
    stopped = POSTED | {"state": "stopped"}
    answers = [httpx2.Response(200, json=content) for content in ({"run": stopped}, stopped)]
    with mocked(*answers) as client, pytest.raises(ServiceError, match="run is stopped"):
        client.batch("echo", [{"turns": ["Hi"]}])


async def test_a_cancelled_wait_names_the_run() -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        waiting.set()
        return httpx2.Response(200, json=POSTED | {"state": "running"})

    waiting = asyncio.Event()
    transport = httpx2.MockTransport(answer)
    async with AsyncClient("http://server", transport=transport) as client:
        run = await client.run("run")
        waiting.clear()
        task = asyncio.create_task(run.wait())
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
    assert "Client.run('run') can" in caught.value.__notes__[0]
