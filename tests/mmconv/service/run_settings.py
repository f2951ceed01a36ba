"""Settings of a service that runs benchmarks over drawn pictures, and what is posted to it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from tests.drawn_data import write_scenes

ROWS = 3

CALLS = 33
"""Calls of a whole run for each row: six generations, nine ratings, nine pairs in two orders."""

CHAT: dict[str, Any] = {"model": "echo", "messages": [{"role": "user", "content": "hello"}]}
"""A chat with a model that every test's service has."""


def drawn(folder: Path, rows: int = ROWS) -> dict[str, Any]:
    """The settings' `data`: drawn ConvBench as `shapes`."""
    data, images = write_scenes(folder / "data", rows)
    options = {"data": str(data), "images": str(images)}
    return {"shapes": {"benchmark": "convbench", "options": options}}


def request(**fields: Any) -> dict[str, Any]:
    """A run of `shapes` by models that every test's service has."""
    return {"data": "shapes", "models": {"candidate": "echo", "judge": "judge"}} | fields


async def ended(client: httpx2.AsyncClient, job: str, seconds: float = 30) -> dict[str, Any]:
    """The run of this id, or the job at this address, when it is not active any more."""
    place = job if job.startswith("/") else f"/v1/runs/{job}"
    async with asyncio.timeout(seconds):
        while True:
            info: dict[str, Any] = (await client.get(place)).json()
            if info["state"] not in ("queued", "running"):
                return info
            await asyncio.sleep(0.02)


async def finished(client: httpx2.AsyncClient, **fields: Any) -> dict[str, Any]:
    """A run that is done."""
    posted = await client.post("/v1/runs", json=request(**fields))
    info = await ended(client, posted.json()["id"])
    assert info["state"] == "done", info
    return info


async def begun(client: httpx2.AsyncClient, run: str, replies: int = 1) -> None:
    """Wait until the run has so many replies."""
    async with asyncio.timeout(30):
        while True:
            info = (await client.get(f"/v1/runs/{run}")).json()
            if info["progress"]["replies"] >= replies:
                return
            await asyncio.sleep(0.02)


async def until(is_so: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until something that nobody announces is so."""
    async with asyncio.timeout(seconds):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.01)
