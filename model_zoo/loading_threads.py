"""Threads that load models, for which a run that is stopped need not wait.

A thread of the event loop's executor would hold up its end for the minutes that a large checkpoint
takes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Loaded = TypeVar("Loaded")

_loading: set[Future[Any]] = set()


def load_in_thread(load: Callable[[], Loaded]) -> asyncio.Future[Loaded]:
    """Call `load` in a new thread; if the future is cancelled, its result is dropped."""
    loaded: Future[Loaded] = Future()
    loaded.set_running_or_notify_cancel()
    _loading.add(loaded)
    threading.Thread(target=_run, args=(load, loaded), name="mmconv-load").start()
    return asyncio.wrap_future(loaded)


def end_with_loads(code: int) -> None:
    """End the process with this exit code if a load is under way; else return.

    A thread cannot be ended, and the interpreter would wait for it. Files must be closed by now.
    """
    if _loading:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run(load: Callable[[], Loaded], loaded: Future[Loaded]) -> None:
    try:
        result = load()
    except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
        _loading.discard(loaded)
        loaded.set_exception(error)
    else:
        _loading.discard(loaded)
        loaded.set_result(result)
