"""A model that takes long to load: whoever stops, or drops the call, ends the loading."""

from __future__ import annotations

import asyncio

import pytest

from mmconv.protocols import Backend
from mmconv.runner import Model
from mmconv.runner.seat import Stopped


class Loading:
    """A model that never is there; `undone` says that what was begun has been undone."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.undone = False

    async def open(self) -> Backend:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            self.undone = True
        raise AssertionError("it waits for ever")


async def test_a_run_that_is_stopped_waits_for_no_model() -> None:
    loading = Loading()
    model = Model("loading", loading.open)
    opening = [asyncio.create_task(model.open()) for _ in range(3)]
    await loading.begun.wait()
    model.stop()
    for each in opening:
        with pytest.raises(Stopped):
            await each
    assert loading.undone


async def test_a_call_that_is_dropped_leaves_nothing_half_loaded() -> None:
    loading = Loading()
    opening = asyncio.create_task(Model("loading", loading.open).open())
    await loading.begun.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert loading.undone
