from __future__ import annotations

import pytest

from mmconv import __version__
from mmconv.errors import StoreError
from tests.mmconv.service.conftest import Served


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
