"""Slots by themselves: who gets one, who is turned away, and when a model is given up."""

import asyncio

import pytest

from mmconv.core.errors import Transient
from mmconv.core.protocols import ServerLimit
from mmconv.engine.limiter import LONGEST_WAIT, ConcurrencyLimiter, Slot, Stopped
from tests.mmconv.virtual_clock import virtual

BUSY = Transient("rate_limit", "HTTP 429", retry_after=8.0)


class Calls:
    """Calls of which some hold a slot, until the test ends them, and others wait for one.

    `held` are the slots, the oldest first.
    """

    def __init__(self, most: int, calls: int) -> None:
        self.limiter = ConcurrencyLimiter()
        self.limiter.open(most)
        self.held: list[Slot] = []
        self.asking: list[asyncio.Task[None]] = []
        self.ask(calls)

    def ask(self, calls: int, asker: str = "") -> None:
        """Have more calls wait for a slot."""
        self.asking += [asyncio.create_task(self._hold(asker)) for _ in range(calls)]

    async def _hold(self, asker: str) -> None:
        self.held.append(await self.limiter.acquire(0, asker))

    async def go_on(self) -> int:
        """Let all go out that ever may; returns how many hold a slot then."""
        await asyncio.sleep(10_000)
        return len(self.held)

    def refuse(self, calls: int) -> None:
        """Have the newest calls refused."""
        for _ in range(calls):
            self.limiter.refused(self.held.pop(), BUSY)
            self.limiter.release()

    def end(self, calls: int) -> None:
        """Have the oldest calls answered."""
        for _ in range(calls):
            self.limiter.answered(self.held.pop(0))
            self.limiter.release()


@virtual
async def test_a_refusal_leaves_as_many_slots_as_the_server_holds_calls() -> None:
    calls = Calls(20, 40)
    await calls.go_on()
    calls.end(1)
    assert await calls.go_on() == 20
    calls.refuse(12)
    assert await calls.go_on() == 8
    calls.end(1)
    assert await calls.go_on() == 8


@virtual
async def test_slots_are_won_back_within_some_hundred_answers() -> None:
    calls = Calls(64, 1000)
    await asyncio.sleep(1)
    calls.refuse(56)
    assert len(calls.held) == 8
    most = 0
    for _ in range(600):
        calls.end(min(1, len(calls.held)))
        await asyncio.sleep(0.1)
        most = max(most, len(calls.held))
    assert most == 64


@virtual
async def test_a_server_that_refuses_every_call_gets_none_until_the_wait_is_over() -> None:
    calls = Calls(20, 60)
    await asyncio.sleep(1)
    calls.refuse(20)
    await asyncio.sleep(7.9)
    assert not calls.held
    await asyncio.sleep(0.2)
    assert len(calls.held) == 1, "one call tries"


@virtual
async def test_a_model_of_one_slot_keeps_it_however_often_it_refuses() -> None:
    calls = Calls(1, 40)
    for _ in range(10):
        await asyncio.sleep(100)
        assert len(calls.held) == 1
        calls.refuse(1)
    await asyncio.sleep(100)
    assert len(calls.held) == 1


@pytest.mark.parametrize(("unit", "sent"), [("requests", 4), ("tokens", 2)])
@virtual
async def test_what_a_server_says_of_its_limits_is_kept(unit: str, sent: int) -> None:
    """A call costs five tokens; four of a hundred are left unused."""
    limiter = ConcurrencyLimiter()
    limiter.open(64)
    first = await limiter.acquire(0)
    remaining = 8.0 if unit == "requests" else 14.0
    limit = ServerLimit(unit=unit, limit=100.0, remaining=remaining, reset=960.0)  # type: ignore[arg-type]
    limiter.report(first, [limit])
    waiting = [asyncio.create_task(limiter.acquire(0, tokens=lambda: 5.0)) for _ in range(9)]
    await asyncio.sleep(1)
    assert sum(task.done() for task in waiting) == sent
    await asyncio.sleep(960)
    assert all(task.done() for task in waiting)


@virtual
async def test_an_older_report_does_not_replace_a_newer_one() -> None:
    limiter = ConcurrencyLimiter()
    limiter.open(64)
    first = await limiter.acquire(0)
    await asyncio.sleep(1)
    second = await limiter.acquire(0)
    for slot, remaining in ((second, 0.0), (first, 50.0)):
        limit = ServerLimit(unit="requests", limit=100.0, remaining=remaining, reset=100.0)
        limiter.report(slot, [limit])
    third = asyncio.create_task(limiter.acquire(0))
    await asyncio.sleep(0.5)
    assert not third.done()
    await third


@virtual
async def test_a_model_is_given_up_when_it_was_silent_for_long_and_nothing_is_under_way() -> None:
    calls = Calls(2, 3)
    await asyncio.sleep(1)
    calls.end(1)
    await asyncio.sleep(1)
    assert not calls.limiter.is_given_up(spent=True), "it has just answered"
    calls.refuse(1)
    await asyncio.sleep(LONGEST_WAIT)
    assert not calls.limiter.is_given_up(spent=True), "one is under way"
    last = calls.held[0]
    calls.refuse(1)
    assert not calls.limiter.is_given_up(spent=False)
    assert calls.limiter.is_given_up(spent=True)
    assert calls.limiter.is_given_up(spent=False), "from then on every refused call fails"
    calls.limiter.answered(last)
    assert not calls.limiter.is_given_up(spent=True)


@virtual
async def test_one_asker_is_turned_away_and_the_others_go_on() -> None:
    calls = Calls(2, 2)
    calls.ask(3, "guest")
    calls.ask(1, "host")
    *_, dropped, second, third, other = calls.asking
    await asyncio.sleep(1)
    dropped.cancel()
    assert await calls.go_on() == 2
    calls.limiter.turn_away("guest")
    await asyncio.sleep(1)
    assert [type(task.exception()) for task in (second, third)] == [Stopped] * 2
    assert not other.done()
    calls.end(1)
    assert await calls.go_on() == 2


@virtual
async def test_a_call_that_is_turned_away_and_cancelled_in_one_moment_gives_no_slot_back() -> None:
    calls = Calls(1, 1)
    calls.ask(1, "guest")
    calls.ask(1, "host")
    await asyncio.sleep(1)
    calls.limiter.turn_away("guest")
    calls.asking[1].cancel()
    assert await calls.go_on() == 1


@virtual
async def test_a_closed_limiter_gives_no_slot() -> None:
    calls = Calls(2, 4)
    await asyncio.sleep(1)
    calls.asking[2].cancel()
    await asyncio.sleep(1)
    calls.limiter.close()
    await asyncio.sleep(1)
    assert isinstance(calls.asking[3].exception(), Stopped)
    calls.end(2)
    with pytest.raises(Stopped):
        await calls.limiter.acquire(0)
