"""Work that ends when the client who asked for it has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from mmconv.service.errors.problems import Problem

Made = TypeVar("Made")

GONE = 499
"""The status of a request whose client did not wait for the answer; nobody gets to see it."""


async def gone(request: Request) -> None:
    """Return when the client has disconnected; the request's body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def first_of(
    working: asyncio.Future[Any], leaving: asyncio.Future[None], seconds: float | None = None
) -> None:
    """Wait until the work is done or the client has gone, and no longer than so many seconds."""
    both: set[asyncio.Future[Any]] = {working, leaving}
    await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


async def while_connected(request: Request, work: Coroutine[Any, Any, Made]) -> Made:
    """Do the work, unless the client goes first: then it is cancelled, and `Problem` is raised.

    What the work does then to come to an end is waited for, until the server's own time is over.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(gone(request))
    try:
        await first_of(working, leaving)
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))
        if working.cancelled():
            raise Problem(GONE, "the client has gone")
        return working.result()
    except asyncio.CancelledError:
        # Work that came to an end in peace when it was cancelled once is cancelled again below.
        working.cancel()
        await asyncio.sleep(0)
        raise
    finally:
        leaving.cancel()
        working.cancel()
