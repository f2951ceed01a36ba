"""Closing several things together, whatever one of them raises."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable


async def close_all(closing: Iterable[Awaitable[None]]) -> None:
    """Await all of them at once, even if some fail; then the first failure is raised."""
    for ended in await asyncio.gather(*closing, return_exceptions=True):
        if ended is not None:
            raise ended
