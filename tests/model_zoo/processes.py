"""Whether processes are still there, for tests of what must not be left behind."""

from __future__ import annotations

import time
from collections.abc import Iterable

import psutil


def alive(pids: Iterable[int]) -> list[int]:
    """Those that still run; a zombie does not."""
    return [pid for pid in pids if _runs(pid)]


def wait_until_gone(pids: Iterable[int], seconds: float) -> None:
    """Return when none of them runs any more; fails if one still does after so many seconds."""
    deadline = time.monotonic() + seconds
    left = alive(pids)
    while left:
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.05)
        left = alive(left)


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
