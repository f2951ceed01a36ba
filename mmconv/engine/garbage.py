"""The garbage collector, kept out of the way of whatever has many requests under way.

Runs and servers hold many small objects for a while and make hardly any cycles: a full collection
would go through all of them, find nothing, and hold up every request for a tenth of a second.
"""

from __future__ import annotations

import asyncio
import gc
import time

COLLECT_SECONDS = 1.0
"""How long `collect_soon` waits."""


def collect_rarely() -> None:
    """Leave alone what there is by now, and look for cycles in the rest only now and then."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


class _Soon:
    """See `collect_soon`."""

    def __init__(self) -> None:
        self._due = 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + COLLECT_SECONDS
            asyncio.get_running_loop().call_later(COLLECT_SECONDS, gc.collect)


collect_soon = _Soon()
"""Collect once for all who ask within a second: whoever has met an error that nobody foresaw.

The error, its traceback and what has handled it are a cycle, which holds the pictures and tensors
of the functions that it came through. Only when all have let go of it can it be collected.
"""
