"""Closing several things together, whatever one of them raises."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable


async def close_all(closing: Iterable[Awaitable[None]]) -> None:
    """Await all of them at once, even if some fail; then the first failure is raised."""
    # a task for each as it comes: what an interrupt finds here is closed all the same
    tasks = [asyncio.ensure_future(each) for each in closing]
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if ended is not None:
            raise ended
