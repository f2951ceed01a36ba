"""Nothing runs while a checkpoint is loaded, in any thread of the process.

While transformers builds a model it changes torch for the whole process: the default dtype, the
functions that initialise weights, a few that make tensors. Two checkpoints that load at once leave
weights of one of them random, and a model that runs meanwhile may compute in the other's dtype;
neither is an error anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


class LoadLock:
    """Many may run at a time; one loads, alone. Who waits to load goes before who would run."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._running = 0
        self._loading = 0  # those that wait for it counted too

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold loads off; blocks while one is under way or waits."""
        with self._changed:
            self._changed.wait_for(lambda: not self._loading)
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Be alone; blocks until nothing runs and no other load is under way."""
        with self._changed:
            self._loading += 1
            self._changed.wait_for(lambda: self._running == 0)
            # A load counts as a run too, so that the next one waits for it.
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._loading -= 1
                self._running -= 1
                self._changed.notify_all()


LOAD_LOCK = LoadLock()
"""One for the process, since what transformers changes is changed for all of it."""
