"""Garbage collection that does not delay requests.

Runs and servers hold many small objects and make hardly any cycles. A full collection would scan
all of them, find nothing, and delay every request by a tenth of a second.
"""

from __future__ import annotations

import asyncio
import gc
import time

COLLECT_SECONDS = 1.0

_due = 0.0


def collect_rarely() -> None:
    """Exempt all existing objects from collection, and collect the rest rarely."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


def collect_soon() -> None:
    """Collect once for all calls within a second; call it after an unexpected error.

    The error, its traceback and its handlers form a cycle, which holds the images and tensors of
    the functions in the traceback. It can be collected only when all of them have released it.
    """
    global _due
    now = time.monotonic()
    if now >= _due:
        _due = now + COLLECT_SECONDS
        asyncio.get_running_loop().call_later(COLLECT_SECONDS, gc.collect)
