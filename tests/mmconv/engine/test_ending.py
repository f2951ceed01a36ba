"""How a run begins and ends by an exception: what it checks first, and what it tells."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import pytest

from mmconv.core.errors import ConfigError, Refused
from mmconv.core.plans import Finished, Plan
from mmconv.core.types import Failure, Reply, Sampling
from mmconv.engine import Runner
from mmconv.store import Store
from tests.messages import Messages
from tests.mmconv.engine.test_driver import (
    Scripted,
    call,
    chain_of_two,
    model_for,
    raising,
    run,
    shout,
    text_of,
)


async def test_a_bug_is_raised_before_bad_input(store: Store) -> None:
    """Both calls end at the same moment."""
    backend = Scripted(shout, most=2)
    runner = Runner({"candidate": model_for(backend)}, store)
    ready = asyncio.Barrier(2)
    put = store.put

    async def failing(key: str, fingerprint: str, reply: Reply) -> Reply:
        await put(key, fingerprint, reply)
        await ready.wait()
        raise errors.pop()

    errors: list[Exception] = [ZeroDivisionError("a bug"), ConfigError("no such key")]
    store.put = failing  # type: ignore[method-assign]  # what goes wrong at once
    plan = Plan(order=0, sample="0", condition="f", calls=(call("a", "x"), call("b", "y")))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await runner.run([plan], lambda _: None)


async def test_what_is_checked_before_a_request_is_checked_once_and_in_time(store: Store) -> None:
    backend = Scripted(shout)
    checked: list[int] = []
    plans = [chain_of_two(order, f"w{order}") for order in range(9)]

    def fail() -> None:
        raise ConfigError("no such key")

    failing = Runner({"candidate": model_for(backend)}, store, before_asking=fail)
    with pytest.raises(ConfigError, match="no such key") as stopped:
        await failing.run(plans, lambda _: None)
    assert backend.prompts == []
    assert not hasattr(stopped.value, "__notes__")
    for _ in range(2):  # the second run requests nothing, so nothing is checked
        runner = Runner(
            {"candidate": model_for(backend)},
            store,
            before_asking=lambda: checked.append(len(backend.prompts)),
        )
        assert await runner.run(plans, lambda _: None)
        assert checked == [0]


async def test_a_call_that_somebody_cancelled_is_no_end(store: Store) -> None:
    backend = Scripted(raising(asyncio.CancelledError()))
    runner = Runner({"candidate": model_for(backend)}, store)
    with pytest.raises(RuntimeError, match="1 plans have no end"):
        await runner.run([chain_of_two()], lambda _: None)


class OneSlow(Scripted):
    """Answers `w1` late, if given once `is_time`, then `w0` after it began; all else at once."""

    is_time: Callable[[], bool] | None = None
    begun = False

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        while self.is_time and text_of(messages[-1]) == "w0" and not self.begun:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        if text_of(messages[-1]) == "w1":
            self.begun = True
            await asyncio.sleep(0.1)
            while self.is_time is not None and not self.is_time():  # noqa: ASYNC110 - a state of the log
                await asyncio.sleep(0.001)
        return await super().generate(messages, sampling, affinity=affinity)


def break_down(*_: object) -> NoReturn:
    raise ZeroDivisionError("a bug")


async def answered_before(store: Store, backend: Scripted, plans: Sequence[Plan]) -> set[str]:
    """What a run asks no more."""
    again = Scripted(shout)
    await run(store, again, plans)
    return {prompt[-1][1] for prompt in backend.prompts} - {
        prompt[-1][1] for prompt in again.prompts
    }


def alone(order: int) -> Plan:
    return Plan(order=order, sample=str(order), condition="free", calls=(call("a", f"w{order}"),))


async def test_a_bug_keeps_calls_under_way(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    def answer(text: str, sampling: Sampling) -> Reply:
        return break_down() if text == "w0" else shout(text, sampling)

    backend = OneSlow(answer, most=2)
    backend.is_time = lambda: bool(caplog.records)
    plans = [alone(order) for order in range(30)]
    with pytest.raises(ZeroDivisionError):
        await run(store, backend, plans)
    asked = [prompt[-1][1] for prompt in backend.prompts]
    assert len(asked) <= asked.index("w0") + 3, "nothing more is asked"
    assert "w1" in await answered_before(store, backend, plans)
    [record] = caplog.records
    message = (
        "ZeroDivisionError ends the run; waiting for the calls under way to cache their replies"
    )
    assert record.getMessage() == message


async def test_they_are_when_what_is_done_with_a_finished_plan_fails(store: Store) -> None:
    backend = OneSlow(shout, most=2, seconds=0.05)
    runner = Runner({"candidate": model_for(backend)}, store)
    plans = [alone(order) for order in range(100)]
    with pytest.raises(ZeroDivisionError):
        await runner.run(plans, break_down)
    assert len(backend.prompts) < 50
    assert {"w0", "w1"} <= await answered_before(store, backend, plans)


async def test_what_is_done_with_a_finished_plan_fails_once(store: Store) -> None:
    """Else each of those under way would be told too, each with a sample of its own."""
    given: list[str] = []

    def fail(finished: Finished) -> None:
        given.append(finished.plan.sample)
        raise ConfigError(f"sample {finished.plan.sample} cannot be scored")

    runner = Runner({"candidate": model_for(Scripted(shout, most=8, seconds=0.02))}, store)
    with pytest.raises(ConfigError) as raised:
        await runner.run([alone(order) for order in range(20)], fail)
    assert len(given) == 1
    assert not hasattr(raised.value, "__notes__")


async def test_they_are_when_no_further_plan_can_be_made(store: Store) -> None:
    def plans() -> Iterator[Plan]:
        yield alone(1)
        while not backend.prompts:
            yield alone(0)
        raise ConfigError("the data have changed")

    backend = OneSlow(shout, most=2)
    runner = Runner({"candidate": model_for(backend)}, store, window=2)
    with pytest.raises(ConfigError, match="have changed"):
        await runner.run(plans(), lambda _: None)
    assert "w1" in await answered_before(store, backend, [alone(0), alone(1)])


async def test_whoever_cancels_a_run_waits_for_nothing(store: Store) -> None:
    asked = asyncio.Event()

    class Endless(Scripted):
        async def generate(self, *_: object, **__: object) -> Reply:
            asked.set()
            return await asyncio.Future()

    runner = Runner({"candidate": model_for(Endless(shout))}, store)
    running = asyncio.create_task(runner.run([alone(0)], lambda _: None))
    async with asyncio.timeout(10):
        await asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_a_run_that_is_stopped_between_plans_has_not_come_to_its_end(store: Store) -> None:
    def stop(_: Finished) -> None:
        runner.stop()

    runner = Runner({"candidate": model_for(Scripted(shout, most=1))}, store, window=1)
    assert not await runner.run([alone(0), alone(1)], stop)
    assert (runner.stats.plans, runner.stats.finished) == (1, 1)
    runner = Runner({"candidate": model_for(Scripted(shout, most=1))}, store, window=1)
    assert await runner.run([alone(0)], stop), "it was the last one"


async def test_offline_a_call_that_failed_is_told_as_it_failed(store: Store) -> None:
    refusing = Scripted(raising(Refused("context", "too long")))
    asked = Runner({"candidate": model_for(refusing)}, store)
    await asked.run([alone(0)], lambda _: None)
    ended: list[Finished] = []
    later = Runner({"candidate": model_for(Scripted(shout))}, store, offline=True)
    await later.run([alone(0)], ended.append)
    assert ended[0].outcomes["a"] == Failure(kind="context", message="too long", attempts=1)


class PanicError(BaseException):
    """As what a library in another language raises when it breaks."""


async def test_what_is_no_exception_comes_out_as_it_is(store: Store) -> None:
    backend = Scripted(raising(PanicError("the tokenizer broke")))
    runner = Runner({"candidate": model_for(backend)}, store)
    with pytest.raises(PanicError, match="the tokenizer broke"):
        await runner.run([alone(order) for order in range(5)], lambda _: None)
