"""Whether processes are still there, for tests of what must not be left behind."""

import time
from collections.abc import Iterable

import psutil

RAY_SECONDS = 120.0
"""How long processes of Ray may take to end: its agents look once in a while for their node."""


def alive(pids: Iterable[int]) -> list[int]:
    """Those that still run; a zombie does not."""
    return [pid for pid in pids if _runs(pid)]


def children() -> set[int]:
    """All processes below this one without those of a browser, which starts some at any time."""
    below = psutil.Process().children(recursive=True)
    return {child.pid for child in below if _name(child) != "chromium"}


def wait_for_children(count: int, before: set[int]) -> set[int]:
    """Those that were not there before, once they are so many; fails if that takes too long."""
    deadline = time.monotonic() + 20
    while len(started := children() - before) < count:
        assert time.monotonic() < deadline, f"{len(started)} of {count} have started"
        time.sleep(0.02)
    return started


def wait_until_gone(pids: Iterable[int], seconds: float) -> None:
    """Return when none of them runs any more; fails if one still does after so many seconds."""
    deadline = time.monotonic() + seconds
    left = alive(pids)
    while left:
        assert time.monotonic() < deadline, f"still running: {[_named(pid) for pid in left]}"
        time.sleep(0.05)
        left = alive(left)


def _named(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        return f"{pid} {process.status()} below {process.ppid()}: {' '.join(process.cmdline())}"
    except psutil.NoSuchProcess:
        return f"{pid}, which has just ended"


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
