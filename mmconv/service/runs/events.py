"""`/v1/runs/{id}/events`: how a run gets on, as server-sent events.

The queue is asked, so it does not matter which process carries the run out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator

import orjson
from fastapi import APIRouter
from starlette.responses import StreamingResponse

from mmconv.core.errors import StoreError
from mmconv.service.access import Reader, Shared
from mmconv.service.docs.responses import documented
from mmconv.service.jobs.watching import watch
from mmconv.service.runs.lookup import RunId, find_run, run_info
from mmconv.store.jobs import Job

router = APIRouter(prefix="/v1", tags=["runs"])

log = logging.getLogger(__name__)

QUIET_SECONDS = 15.0
"""After so long without news a comment keeps the connection open."""


@router.get(
    "/runs/{run}/events",
    response_class=StreamingResponse,
    responses={
        **documented(404),
        200: {"content": {"text/event-stream": {}}, "description": "Events until the run ends."},
    },
)
async def run_events(run: RunId, shared: Shared, caller: Reader) -> StreamingResponse:
    """Stream `progress` events with the run's state, and `end` with its last.

    The stream ends as well when the server does, or its database: connect again.
    """
    job = await find_run(shared, run)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    events = _events(watch(shared, caller, job))
    # What refuses the request does so before its status goes out.
    first = await anext(events, b"")
    stream = _with(first, events)
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def _with(first: bytes, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    try:
        async for event in events:
            yield event
    except StoreError as error:
        # The status has gone out.
        log.warning("a stream of events ends: %s", error)


async def _events(seen: AsyncIterator[Job]) -> AsyncIterator[bytes]:
    sent, quiet_since = None, time.monotonic()
    async for found in seen:
        if found != sent:
            yield _event("progress" if found.is_active else "end", found)
            sent, quiet_since = found, time.monotonic()
        elif time.monotonic() - quiet_since > QUIET_SECONDS:
            yield b": waiting\n\n"
            quiet_since = time.monotonic()


def _event(name: str, job: Job) -> bytes:
    return f"event: {name}\ndata: ".encode() + orjson.dumps(run_info(job)) + b"\n\n"
