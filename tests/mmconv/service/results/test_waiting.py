"""What is there already is given out at once, whatever long work goes on for somebody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mmconv.engine.setup import build_benchmark
from mmconv.report.page import write_page
from mmconv.service import results as reports
from mmconv.service import state
from tests.mmconv.service.conftest import Serve
from tests.mmconv.service.run_settings import drawn, finished, request, until

SECONDS = 10.0
"""A request that waits for the work of another one never ends here."""


class HeldUp:
    """Work in a thread that begins, and goes on when the test says so."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self.begun = threading.Event()
        self.going_on = threading.Event()

    def __call__(self, *args: Any, **how: Any) -> Any:
        self.begun.set()
        assert self.going_on.wait(2 * SECONDS)
        return self._work(*args, **how)


async def test_a_report_that_is_made_waits_for_none_that_is_being_made(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = (await serve(data=drawn(tmp_path))).client
    roles = {"candidate": "judge", "judge": "judge"}
    made, other = [(await finished(client, **fields))["id"] for fields in ({}, {"models": roles})]
    paths = (
        f"/v1/runs/{made}/report",
        f"/v1/runs/{made}/report?format=zip",
        f"/web/runs/{made}",
        f"/web/compare?runs={made},{other}",
    )
    for path in paths:
        assert (await client.get(path)).status_code == 200
    making = HeldUp(write_page)
    monkeypatch.setattr(reports, "write_page", making)
    report = asyncio.create_task(client.get(f"/v1/runs/{other}/report"))
    await until(making.begun.is_set)
    async with asyncio.timeout(SECONDS):
        for path in paths:
            assert (await client.get(path)).status_code == 200
    making.going_on.set()
    assert (await report).status_code == 200


async def test_data_that_are_read_wait_for_none_that_are_being_read(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [shapes] = drawn(tmp_path).values()
    client = (await serve(data={"shapes": shapes, "again": shapes})).client
    run = (await finished(client))["id"]
    reading = HeldUp(build_benchmark)
    monkeypatch.setattr(state, "build_benchmark", reading)
    limited = request(data="again", limit=1)
    other = asyncio.create_task(client.post("/v1/runs", json=limited))
    await until(reading.begun.is_set)
    async with asyncio.timeout(SECONDS):
        sample = await client.get(f"/v1/runs/{run}/samples/1?prompts=true")
    assert sample.status_code == 200
    reading.going_on.set()
    assert (await other).status_code == 202
