"""What takes long is not done in the event loop, and what was found out outlives the process."""

import threading
from pathlib import Path
from typing import Any

import pytest

from images.decode import inspect
from mmconv.benchmarks.convbench.benchmark import ConvBench
from tests.mmconv.service.conftest import Serve
from tests.mmconv.service.run_settings import ROWS, begun, drawn, ended, finished, request

SLOW = {"provider": "fake", "model": "judge", "options": {"seconds": 0.1}, "max_concurrency": 4}


class Threads:
    """Notes in which threads a method is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> None:
        self.seen: list[threading.Thread] = []
        really = getattr(kind, name)

        def noted(*args: Any) -> Any:
            self.seen.append(threading.current_thread())
            return really(*args)

        monkeypatch.setattr(kind, name, noted)

    @property
    def beside(self) -> bool:
        """Whether it was called, and never in the thread of the loop."""
        return bool(self.seen) and threading.current_thread() not in self.seen


async def test_samples_of_an_unfinished_run_are_planned_beside_the_loop(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = await serve(data=drawn(tmp_path), models={"slow": SLOW})
    body = request(models={"candidate": "slow", "judge": "slow"})
    run = (await served.client.post("/v1/runs", json=body)).json()["id"]
    await begun(served.client, run, replies=5)
    await served.client.delete(f"/v1/runs/{run}")
    assert (await ended(served.client, run))["state"] == "stopped"
    for path, planned in (
        (f"/v1/runs/{run}/samples", ROWS),
        (f"/v1/runs/{run}/samples/2", 1),
        (f"/v1/runs/{run}/samples?after=2", 1),
        (f"/web/samples?runs={run}&after=2", 1),
        (f"/web/samples/3?runs={run}", 1),
    ):
        planning = Threads(monkeypatch, ConvBench, "plan")
        reading = Threads(monkeypatch, ConvBench, "score")
        answer = await served.client.get(path)
        assert answer.status_code == 200, answer.text
        assert planning.beside
        # what is not shown is not planned: three conditions of each sample
        assert len(planning.seen) == 3 * planned, path
        assert threading.current_thread() not in reading.seen
    missing = await served.client.get(f"/v1/runs/{run}/samples", params={"after": "none"})
    assert (missing.status_code, missing.json()["error"]["param"]) == (400, "after")


async def test_pictures_of_a_data_set_are_decoded_once_whatever_is_restarted(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[str] = []

    def noted(data: bytes, limits: Any, where: str, sha256: str) -> Any:
        decoded.append(where)
        return inspect(data, limits, where, sha256)

    monkeypatch.setattr("images.store.inspect", noted)
    data = drawn(tmp_path)
    for start in range(2):
        served = await serve(data=data)
        await finished(served.client, seed=start)
        assert len(decoded) == ROWS
