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
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

Loaded = TypeVar("Loaded")

_loading: set[threading.Thread] = set()


def load_in_thread(load: Callable[[], Loaded]) -> asyncio.Future[Loaded]:
    """Call `load` in a new thread; if the future is cancelled, its result is dropped."""
    loaded: asyncio.Future[Loaded] = asyncio.get_running_loop().create_future()
    thread = threading.Thread(target=_run, args=(load, loaded), name="mmconv-load")
    _loading.add(thread)
    thread.start()
    return loaded


def end_with_loads(code: int) -> None:
    """End the process with this exit code if a load is under way; else return.

    A thread cannot be ended, and the interpreter would wait for it. Files must be closed by now.
    """
    if _loading:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run(load: Callable[[], Any], loaded: asyncio.Future[Any]) -> None:
    try:
        settle = partial(_settle, loaded, load(), None)
    except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
        settle = partial(_settle, loaded, None, error)
    _loading.discard(threading.current_thread())
    with suppress(RuntimeError):  # The loop has ended, and with it all that waited.
        loaded.get_loop().call_soon_threadsafe(settle)


def _settle(loaded: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if loaded.done():
        return
    if error is None:
        loaded.set_result(result)
    else:
        loaded.set_exception(error)
