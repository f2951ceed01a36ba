"""What models in one process share: its memory, and torch's state while one is loaded."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

import torch

_MEMORY_SIGNS = (
    *("out of memory", "not enough memory", "can't allocate memory", "alloc_failed"),
    *("cublas_status_not_initialized", "nvml_success == r internal assert"),
)
"""How CUDA, MPS, the CPU allocator and cuBLAS report it, in lower case.

The last two come from a GPU that is completely full: cuBLAS has no room for its handle, and torch's
allocator fails while it puts the message together.
"""


class LoadLock:
    """No model runs while a checkpoint is loaded, in any thread; many may run at a time.

    While transformers builds a model it changes torch for the whole process: the default dtype, the
    functions that initialise weights, a few that make tensors. Two checkpoints that load at once
    leave weights of one of them random, and a model that runs meanwhile may compute in the other's
    dtype. Neither is reported as an error. A thread that waits to load goes before one that waits
    to run.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._running = 0
        self._loading = 0  # includes those that wait for it

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold loads off; blocks while a load is under way or waits."""
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
        """Run alone; blocks until nothing runs and no other load is under way."""
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
"""One for the process, as transformers changes torch for all of it."""


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch ran out of memory, on any device."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    message = str(error).lower()
    return any(sign in message for sign in _MEMORY_SIGNS)


def release_memory() -> None:
    """Give back the memory that torch keeps cached after tensors are gone."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
