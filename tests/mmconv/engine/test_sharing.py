"""Equal calls of several runners at one store: one request, whoever waits for it or leaves."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mmconv.core.plans import Finished, Plan
from mmconv.core.types import Failure, Outcome, Reply, Sampling
from mmconv.engine import Runner
from mmconv.store import Store
from mmconv.store import store as store_module
from tests.messages import Messages
from tests.mmconv.engine.test_driver import REFUSING, Scripted, call, chain_of_two, model_for, shout
from tests.mmconv.engine.test_role import turns
from tests.mmconv.service.run_settings import until

TEXT = "hello"


class Held(Scripted):
    """Takes requests in, each told by `begun`, and answers none before `going` is set."""

    def __init__(self, answer: Callable[[str, Sampling], Reply] = shout) -> None:
        super().__init__(answer, most=8)
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.requests = 0
        self.going = asyncio.Event()

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        self.requests += 1
        self.begun.put_nowait(affinity)
        await self.going.wait()
        return await super().generate(messages, sampling, affinity=affinity)


class Flights(dict[str, asyncio.Future[Outcome | None]]):
    """A store's calls under way; `joined` counts who found one, and waits for it."""

    joined = 0

    def get(self, key: str, default: Any = None) -> Any:
        flight = super().get(key, default)
        self.joined += flight is not None
        return flight


class Asker:
    """A runner of its own with the one call, under way."""

    def __init__(self, store: Store, backend: Scripted) -> None:
        self.runner = Runner({"candidate": model_for(backend)}, store)
        self.finished: list[Finished] = []
        plan = Plan(order=0, sample="0", condition="free", calls=(call("only", TEXT),))
        self.run = asyncio.create_task(self.runner.run([plan], self.finished.append))

    @property
    def outcome(self) -> object:
        [finished] = self.finished
        return finished.outcomes["only"]

    @property
    def counts(self) -> tuple[int, int, int]:
        role = self.runner.stats.model("candidate")
        return role.requested, role.cached, role.failed


async def begun(store: Store, backend: Held, askers: int) -> list[Asker]:
    """Runners whose call is under way: one has asked it, the others wait."""
    store.flights = flights = Flights()
    first = Asker(store, backend)
    await backend.begun.get()
    others = [Asker(store, backend) for _ in range(askers - 1)]
    await until(lambda: flights.joined == askers - 1)
    return [first, *others]


async def test_equal_calls_of_several_runners_are_one_request(store: Store) -> None:
    backend = Held()
    askers = await begun(store, backend, 5)
    backend.going.set()
    assert await asyncio.gather(*(asker.run for asker in askers)) == [True] * 5
    assert backend.requests == 1
    assert {asker.outcome for asker in askers} == {Reply(text="HELLO.0")}
    assert [asker.counts for asker in askers] == [(1, 0, 0), *[(0, 1, 0)] * 4]
    assert store.flights == {}


async def test_when_the_first_is_cancelled_one_of_the_others_asks(store: Store) -> None:
    backend = Held()
    first, *others = await begun(store, backend, 4)
    first.run.cancel()
    await backend.begun.get()
    backend.going.set()
    assert await asyncio.gather(*(asker.run for asker in others)) == [True] * 3
    assert backend.requests == 2
    assert sorted(asker.counts for asker in others) == [(0, 1, 0), (0, 1, 0), (1, 0, 0)]
    assert first.counts == (0, 0, 0)
    assert first.run.cancelled()


async def test_when_one_that_waits_is_cancelled_nobody_else_is(store: Store) -> None:
    backend = Held()
    first, second, third = await begun(store, backend, 3)
    second.run.cancel()
    await asyncio.sleep(0)
    backend.going.set()
    assert all(await asyncio.gather(first.run, third.run))
    assert backend.requests == 1


async def test_a_failure_is_one_of_each_run_and_once_in_the_history(store: Store) -> None:
    kept: list[str] = []
    add_failure = store.add_failure

    async def watched(key: str, failure: Failure) -> None:
        kept.append(key)
        await add_failure(key, failure)

    store.add_failure = watched  # type: ignore[method-assign]  # the test watches the history
    backend = Held(REFUSING)
    askers = await begun(store, backend, 3)
    backend.going.set()
    await asyncio.gather(*(asker.run for asker in askers))
    assert backend.requests == len(kept) == 1
    assert [asker.counts for asker in askers] == [(0, 0, 1)] * 3


async def test_a_bug_in_the_first_run_is_not_the_others(store: Store) -> None:
    failed: list[str] = []

    def once(text: str, sampling: Sampling) -> Reply:
        if not failed:
            failed.append(text)
            raise ZeroDivisionError("a bug")
        return shout(text, sampling)

    backend = Held(once)
    first, second = await begun(store, backend, 2)
    backend.going.set()
    with pytest.raises(ZeroDivisionError):
        await first.run
    assert await second.run
    assert second.outcome == Reply(text="HELLO.0")


async def test_stopping_the_first_run_lets_the_call_go_on(store: Store) -> None:
    backend = Held()
    first, second = await begun(store, backend, 2)
    first.runner.stop()
    await turns()
    backend.going.set()
    assert await second.run
    assert await first.run, "it was all that it had to ask"
    assert second.outcome == Reply(text="HELLO.0")
    assert backend.requests == 1


async def test_stopping_a_run_that_waits_does_not_wait_for_the_other(store: Store) -> None:
    backend = Held()
    first, second = await begun(store, backend, 2)
    second.runner.stop()
    async with asyncio.timeout(5):
        assert not await second.run
    assert not first.run.done()
    backend.going.set()
    assert await first.run


@pytest.mark.parametrize("offline", [False, True])
async def test_a_run_begins_with_all_replies(store: Store, tmp_path: Path, offline: bool) -> None:
    """A second store on the same database stands for the other process."""
    there = Store(str(tmp_path / "store.sqlite"))
    for word in ("hello", "good day"):
        backend = Held()
        backend.going.set()
        for place, ask_nothing in ((there, False), (store, offline)):
            roles = {"candidate": model_for(backend)}
            finished: list[Finished] = []
            runner = Runner(roles, place, offline=ask_nothing)
            await runner.run([chain_of_two(word=word)], finished.append)
            assert isinstance(finished[0].outcomes["second"], Reply)
        assert backend.requests == 2
    await there.aclose()


async def test_two_processes_divide_the_calls_of_one_run(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many plans are open as one of them has slots, so that both open the same ones."""
    monkeypatch.setattr(store_module, "LOOK_SECONDS", 0.01)
    there = Store(str(tmp_path / "store.sqlite"))
    backends = [Held(), Held()]
    finished: list[list[Finished]] = [[], []]
    plans = [
        Plan(order=order, sample=str(order), condition="free", calls=(call("only", f"{order}"),))
        for order in range(24)
    ]
    runs = [
        asyncio.create_task(
            Runner({"candidate": model_for(backend)}, place, window=8).run(plans, ends.append)
        )
        for backend, place, ends in zip(backends, (store, there), finished, strict=True)
    ]
    await until(lambda: [backend.requests for backend in backends] == [8, 8])
    for backend in backends:
        backend.going.set()
    assert await asyncio.gather(*runs) == [True, True]
    assert sum(backend.requests for backend in backends) == len(plans)
    texts = [sorted(str(each.outcomes["only"]) for each in ends) for ends in finished]
    assert texts[0] == texts[1]
    assert len(texts[0]) == len(plans)
    await there.aclose()


async def test_what_fails_in_another_process_is_requested_here(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "LOOK_SECONDS", 0.01)

    there = Store(str(tmp_path / "store.sqlite"))
    failing, working = Held(REFUSING), Held()
    working.going.set()
    first = Asker(there, failing)
    await failing.begun.get()
    second = Asker(store, working)
    failing.going.set()
    await first.run
    assert await second.run
    assert (first.counts, second.counts) == ((0, 0, 1), (1, 0, 0))
    await there.aclose()


async def test_a_run_that_waits_for_another_can_be_stopped(store: Store, tmp_path: Path) -> None:
    there = Store(str(tmp_path / "store.sqlite"))
    backend = Held()
    first = Asker(there, backend)
    await backend.begun.get()
    claimed = asyncio.Event()
    claim = store.claim

    async def watched(key: str) -> Reply | bool:
        won = await claim(key)
        claimed.set()
        return won

    store.claim = watched  # type: ignore[method-assign]  # the test waits for it
    second = Asker(store, Held())
    await claimed.wait()
    second.runner.stop()
    assert not await second.run
    backend.going.set()
    assert await first.run
    await there.aclose()
