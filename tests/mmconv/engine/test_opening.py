"""A model that takes long to load: whoever stops, or drops the call, ends the loading."""

import asyncio
from contextlib import suppress

import pytest

from mmconv.core.errors import ConfigError
from mmconv.core.protocols import Backend
from mmconv.core.types import Reply, Sampling
from mmconv.engine import Model
from mmconv.engine.limiter import Stopped
from tests.messages import Messages


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


class Loaded:
    """A model that is there; `closed` says how often it was given back."""

    max_concurrency = 1

    def __init__(self) -> None:
        self.closed = 0

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        raise AssertionError("nobody asks it")

    async def aclose(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("fails", [False, True])
async def test_a_model_that_loads_or_fails_as_its_call_is_dropped_is_closed(
    fails: bool,
) -> None:
    loaded, begun = Loaded(), asyncio.Event()

    async def load() -> Loaded:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        if fails:
            raise ConfigError("no such model")
        return loaded

    opening = asyncio.create_task(Model("loaded", load).open())
    await begun.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert loaded.closed == (not fails)


async def test_a_model_is_closed_once_and_only_if_it_was_opened() -> None:
    loaded = Loaded()

    async def load() -> Loaded:
        return loaded

    model = Model("loaded", load)
    await model.aclose()
    assert loaded.closed == 0
    await model.open()
    for _ in range(2):
        await model.aclose()
        assert loaded.closed == 1
