"""How a run begins and ends by an exception: what it checks first, and what it tells."""

from __future__ import annotations

import asyncio

import pytest

from mmconv.errors import ConfigError
from mmconv.plans import Plan
from mmconv.runner import Runner
from mmconv.store import Store
from mmconv.values import Reply, Sampling
from tests.mmconv.runner.test_driver import Scripted, call, chain_of_two, seat_for, shout


async def test_of_several_exceptions_none_is_lost(store: Store) -> None:
    """A bug stands before bad input; both calls end at the same moment."""
    backend = Scripted(shout, most=2)
    runner = Runner({"candidate": seat_for(backend)}, store)
    ready = asyncio.Barrier(2)
    put = store.put

    async def failing(key: str, fingerprint: str, reply: Reply) -> Reply:
        await put(key, fingerprint, reply)
        await ready.wait()
        raise errors.pop()

    errors: list[Exception] = [ZeroDivisionError("a bug"), ConfigError("no such key")]
    store.put = failing  # type: ignore[method-assign]  # what goes wrong at once
    plan = Plan(order=0, sample="0", condition="f", calls=(call("a", "x"), call("b", "y")))
    with pytest.raises(ZeroDivisionError, match="a bug") as stopped:
        await runner.run([plan], lambda _: None)
    [note] = stopped.value.__notes__
    assert "ConfigError: no such key" in note
    assert "in failing" in note


async def test_what_is_checked_before_asking_is_checked_once_and_in_time(store: Store) -> None:
    backend = Scripted(shout)
    checked: list[int] = []

    def check() -> None:
        checked.append(len(backend.prompts))

    runner = Runner({"candidate": seat_for(backend)}, store, before_asking=check)
    assert await runner.run(
        [chain_of_two(order, f"w{order}") for order in range(9)], lambda _: None
    )
    assert checked == [0]
    again = Runner({"candidate": seat_for(backend)}, store, before_asking=check)
    assert await again.run([chain_of_two(order, f"w{order}") for order in range(9)], lambda _: None)
    assert checked == [0], "nothing is asked, so nothing is checked"


async def test_what_the_check_raises_ends_the_run_with_nothing_asked(store: Store) -> None:
    backend = Scripted(shout)

    def check() -> None:
        raise ConfigError("no such key")

    runner = Runner({"candidate": seat_for(backend)}, store, before_asking=check)
    with pytest.raises(ConfigError, match="no such key") as stopped:
        await runner.run([chain_of_two(order, f"w{order}") for order in range(9)], lambda _: None)
    assert backend.prompts == []
    assert not hasattr(stopped.value, "__notes__")


async def test_a_call_that_somebody_cancelled_is_no_end(store: Store) -> None:
    def cancelled(text: str, sampling: Sampling) -> Reply:
        raise asyncio.CancelledError

    runner = Runner({"candidate": seat_for(Scripted(cancelled))}, store)
    with pytest.raises(RuntimeError, match="1 plans have no end"):
        await runner.run([chain_of_two()], lambda _: None)
