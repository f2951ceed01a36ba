"""Whether the process lives, whether it takes work, and what it counts."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.responses import Response

from mmconv import __version__
from mmconv.service.access import Reader, Shared
from mmconv.service.desk import Runs
from mmconv.service.problems import Problem, documented, ending, json_response

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """A process that answers."""

    status: Literal["ok"] = "ok"
    version: str = __version__


@router.get("/health", response_model=Health, responses=documented())
async def health() -> Response:
    """Answer while the process lives."""
    return json_response(Health().model_dump())


@router.get("/ready", response_model=Health, responses=documented())
async def ready(shared: Shared, desk: Runs) -> Response:
    """Answer 200 while the process takes work: its database answers, and it is not ending.

    So does its worker: it can look for jobs.
    """
    if shared.draining.is_set():
        raise ending()
    await shared.queue.get("")
    if desk.worker.failing or desk.working.done():
        raise Problem(503, "no jobs are taken; the server's log says why", code="no_worker")
    return json_response(Health().model_dump())


@router.get("/metrics", response_class=Response, responses=documented())
async def metrics(shared: Shared, _caller: Reader) -> Response:
    """Give out the counters, as Prometheus reads them."""
    return Response(shared.metrics.page(), media_type=CONTENT_TYPE_LATEST)
