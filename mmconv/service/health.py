"""`/health`, `/ready` and `/metrics`: whether the process lives, takes work, and its counters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel
from starlette.responses import Response

from mmconv import __version__
from mmconv.core.errors import StoreError
from mmconv.service.access import Reader, Shared
from mmconv.service.errors import Problem, ending, json_response

log = logging.getLogger(__name__)

router = APIRouter(tags=["health"])

LOADING_SECONDS = 5.0
"""`Retry-After` while models are being preloaded."""

DATABASE_SECONDS = 2.0
"""How long the database may take here: a health check does not wait much longer."""

PROBE_BYTES = 65_536
"""Bytes written to test whether there is space."""


class Health(BaseModel):
    """A process that answers."""

    status: Literal["ok"] = "ok"
    version: str = __version__


@router.get("/health", response_model=Health)
async def health() -> Response:
    """Answer 200 while the process lives."""
    return json_response(Health().model_dump())


@router.get("/ready", response_model=Health)
async def ready(request: Request, shared: Shared) -> Response:
    """Answer 200 while the process takes work.

    Its database answers, its worker looks for jobs, there is space for results, the models of
    `preload` are loaded, and it is not shutting down.
    """
    if shared.draining.is_set():
        raise ending()
    async with _in_time():
        await shared.queue.get("")
    await asyncio.to_thread(_write_probe, shared.settings.out)
    if not request.app.state.worker.takes_jobs:
        raise Problem(503, "no jobs are taken; the server's log says why", code="no_worker")
    if missing := shared.models.load(shared.settings.preload):
        message = f"not loaded yet: {', '.join(missing)}"
        raise Problem(503, message, code="loading", retry_after=LOADING_SECONDS)
    return json_response(Health().model_dump())


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request, shared: Shared, _caller: Reader) -> Response:
    """The counters, in Prometheus' format. Without those of the queue if the database is away."""
    backlog = None
    try:
        async with _in_time():
            backlog = await shared.queue.backlog()
    except StoreError as error:
        log.warning("the queue is not counted: %s", error)
    shared.metrics.show_backlog(request.app.state.worker.kinds, backlog)
    return Response(generate_latest(shared.metrics.registry), media_type=CONTENT_TYPE_LATEST)


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """Raise `StoreError` if the database takes longer than `DATABASE_SECONDS`."""
    try:
        async with asyncio.timeout(DATABASE_SECONDS):
            yield
    except TimeoutError:
        raise StoreError(f"the database has not answered for {DATABASE_SECONDS:g} s") from None


def _write_probe(folder: Path) -> None:
    """Write a little and remove it. Raises `OSError` if the disk is full."""
    with TemporaryFile(dir=folder) as file:
        file.write(bytes(PROBE_BYTES))
