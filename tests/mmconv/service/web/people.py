"""The pages of people's work, opened in this process, and what they work on."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import orjson
from fastapi import FastAPI

from images import ImageStore
from mmconv.benchmarks.convbench.data import DRAFTED, ID, REQUIRED, Row, load_rows
from mmconv.benchmarks.convbench.options import ConvBenchOptions
from mmconv.core.config import RunSpec
from mmconv.service.settings import Settings
from mmconv.service.web.label import open_label, open_task
from tests.drawn_data import write_scenes

SETTINGS = Settings.model_construct(models={}, out=Path("unused"))


async def client_of(
    stack: AsyncExitStack, opening: AbstractAsyncContextManager[FastAPI]
) -> httpx2.AsyncClient:
    """A client that talks to an application as HTTP would."""
    transport = httpx2.ASGITransport(await stack.enter_async_context(opening))
    client = httpx2.AsyncClient(transport=transport, base_url="http://localhost")
    return await stack.enter_async_context(client)


async def label(
    stack: AsyncExitStack, runs: list[Path], out: Path, **options: Any
) -> httpx2.AsyncClient:
    """The page for rating these runs, for a client."""
    images = ImageStore()
    chosen = {"metric": None, "samples": 4, "double": 0, "seed": 1} | options
    task = open_task(runs, out, images, **chosen)
    return await client_of(stack, open_label(task, images, SETTINGS))


def write_drafts(folder: Path, count: int) -> tuple[Path, Path, Path]:
    """A data file without annotations, its images, and drafts of all rows."""
    data, images = write_scenes(folder / "drawn", count)
    rows = [orjson.loads(line) for line in data.read_bytes().splitlines()]
    bare = [{name: row[name] for name in REQUIRED} for row in rows]
    data.write_bytes(b"\n".join(map(orjson.dumps, bare)))
    drafts = [
        {ID: int(row[ID]), **{name: row[name] for name in DRAFTED}, "status": "draft"}
        for row in rows
    ]
    path = folder / "drafts.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, drafts)))
    return data, images, path


def read_rows(data: Path, images: Path, library: ImageStore) -> Iterator[Row]:
    options = ConvBenchOptions(data=data, images=images)
    spec = RunSpec(benchmark="convbench", models={})
    yield from load_rows(options, spec, library).samples


def lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]
