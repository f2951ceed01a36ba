"""Models that load in threads of their own, which hold up the end of nothing."""

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest

from mmconv.cli.shared.session import EXIT_INTERRUPTED, tell_stopped
from mmconv.core.errors import ConfigError
from model_zoo.loading_threads import load_in_thread


@pytest.fixture
def loading() -> Iterator[threading.Event]:
    """What a load waits for; at the end of the test no thread is left."""
    ready = threading.Event()
    yield ready
    ready.set()
    for thread in threads():
        thread.join()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mmconv-load"]


async def test_what_is_loaded_or_raised_is_handed_over() -> None:
    assert await load_in_thread(threading.get_ident) != threading.get_ident()

    def broken() -> None:
        raise ConfigError("no such checkpoint")

    with pytest.raises(ConfigError, match="no such checkpoint"):
        await load_in_thread(broken)


def test_a_load_that_is_dropped_holds_up_neither_the_loop_nor_the_process(
    loading: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def load() -> None:
        begun.set()
        loading.wait(60)

    async def stopped() -> None:
        opening = load_in_thread(load)
        await asyncio.to_thread(begun.wait)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    asyncio.run(stopped())
    assert not loading.is_set()
    assert tell_stopped("", None) == EXIT_INTERRUPTED
    assert left == [EXIT_INTERRUPTED]


async def test_without_a_load_a_stopped_run_leaves_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    await load_in_thread(threading.get_ident)
    monkeypatch.setattr(os, "_exit", lambda code: pytest.fail(f"ended with {code}"))
    assert tell_stopped("", None) == EXIT_INTERRUPTED
