"""Slots by themselves: how many calls go out at once, who gets a slot, and when nobody does."""

from __future__ import annotations

import asyncio

import pytest

from mmconv.core.errors import Transient
from mmconv.engine.limiter import LONGEST_WAIT, REFUSALS_IN_A_ROW, ConcurrencyLimiter, Stopped
from tests.mmconv.virtual_clock import run_virtually

BUSY = Transient("rate_limit", "HTTP 429", retry_after=8.0)


class Calls:
    """Calls of which some hold a slot, until they are told to end, and others wait for one.

    `held` are the epochs of those that hold one, the oldest first.
    """

    def __init__(self, most: int, calls: int) -> None:
        self.slots = ConcurrencyLimiter()
        self.slots.open(most)
        self.held: list[int] = []
        self.asking: list[asyncio.Task[None]] = []
        self.ask(calls)

    def ask(self, calls: int, asker: str = "") -> None:
        """Have so many more ask for a slot."""
        self.asking += [asyncio.create_task(self._hold(asker)) for _ in range(calls)]

    async def _hold(self, asker: str) -> None:
        self.held.append(await self.slots.acquire(0, asker))

    async def go_on(self) -> int:
        """Let all go out that ever may; returns how many hold a slot then."""
        await asyncio.sleep(10_000)
        return len(self.held)

    def refuse(self, calls: int, which: int = -1, error: Transient = BUSY) -> list[bool]:
        """Have so many refused, the newest or else the oldest; who waits for the server."""
        return [self._refuse(self.held.pop(which), error) for _ in range(calls)]

    def _refuse(self, epoch: int, error: Transient) -> bool:
        waits = self.slots.note_failure(epoch, error)
        self.slots.release()
        return waits

    def end(self, calls: int, *, answered: bool) -> None:
        for _ in range(calls):
            del self.held[0]
            self.slots.release()
            if answered:
                self.slots.grow()


def test_refusals_hold_up_all_calls_from_the_fifth_in_a_row() -> None:
    async def main() -> None:
        calls = Calls(20, 40)
        assert await calls.go_on() == 20
        for _ in range(2):
            assert calls.refuse(REFUSALS_IN_A_ROW - 1) == [False] * (REFUSALS_IN_A_ROW - 1)
            await asyncio.sleep(0.001)
            assert len(calls.held) == 20, "others go out meanwhile"
            calls.end(1, answered=True)
            assert await calls.go_on() == 20
        few = REFUSALS_IN_A_ROW - 1
        assert calls.refuse(few + 2) == [*[False] * few, True, True]

    run_virtually(main())


@pytest.mark.parametrize(("asked_for", "waits"), [(LONGEST_WAIT, True), (LONGEST_WAIT + 1, False)])
def test_no_call_waits_for_a_server_that_asks_for_too_long(asked_for: float, waits: bool) -> None:
    async def main() -> None:
        calls = Calls(20, 20)
        await calls.go_on()
        error = Transient("server", "HTTP 503", retry_after=asked_for, overloaded=True)
        assert calls.refuse(REFUSALS_IN_A_ROW, error=error)[-1] is waits

    run_virtually(main())


async def strained() -> Calls:
    """A model of 20 slots after its first five refusals; 15 calls are under way, and some wait."""
    calls = Calls(20, 20)
    await calls.go_on()
    calls.refuse(REFUSALS_IN_A_ROW)
    calls.ask(20)
    assert await calls.go_on() == 15
    return calls


def test_slots_are_as_many_as_calls_under_way_but_half_of_them_at_least() -> None:
    async def main() -> None:
        calls = await strained()
        calls.end(1, answered=False)
        assert await calls.go_on() == 15
        calls.refuse(7, which=0)
        assert await calls.go_on() == 10

    run_virtually(main())


@pytest.mark.parametrize(
    ("ended", "answered", "left"), [(1, False, 15), (2, False, 15), (1, True, 15), (2, True, 14)]
)
def test_they_are_fewer_again_only_if_calls_got_through_and_others_were_answered(
    ended: int, answered: bool, left: int
) -> None:
    """As many go out as end, and the last of them is refused."""

    async def main() -> None:
        calls = await strained()
        calls.end(ended, answered=answered)
        assert await calls.go_on() == 15
        assert calls.refuse(1) == [True]
        assert await calls.go_on() == left

    run_virtually(main())


def test_a_slot_is_won_back_in_the_moment_of_the_answer_that_completes_a_round() -> None:
    async def main() -> None:
        calls = await strained()
        calls.ask(20)
        for answers, slots in ((15, 15), (1, 16), (16, 17)):
            calls.end(answers, answered=True)
            assert await calls.go_on() == slots

    run_virtually(main())


async def unpaced() -> Calls:
    """The same after its pace was dropped: however slowly it is sent, it refuses every third."""
    calls = await strained()
    calls.ask(100)
    for _ in range(7):
        calls.end(2, answered=False)
        assert await calls.go_on() == 15
        calls.refuse(1)
    return calls


def test_when_the_pace_is_dropped_it_takes_a_row_of_refusals_again() -> None:
    async def main() -> None:
        calls = await unpaced()
        calls.end(14, answered=False)
        await asyncio.sleep(0.001)
        assert len(calls.held) == 15, "all at once"
        few = REFUSALS_IN_A_ROW - 1
        assert calls.refuse(few + 1) == [*[False] * few, True]

    run_virtually(main())


def test_calls_from_before_the_pace_was_dropped_wait_by_themselves() -> None:
    """Nothing is closed for them: they would go out again at once, whatever the server asks for."""

    async def main() -> None:
        calls = await unpaced()
        assert not any(calls.refuse(2 * REFUSALS_IN_A_ROW))

    run_virtually(main())


def test_when_the_pace_is_dropped_whoever_comes_gets_all_slots_that_were_won_back() -> None:
    async def main() -> None:
        calls = await unpaced()
        while await calls.go_on():
            calls.end(1, answered=True)
        calls.ask(40)
        await asyncio.sleep(0.001)
        assert len(calls.held) == 20

    run_virtually(main())


def test_a_model_of_one_slot_keeps_it_however_often_it_refuses() -> None:
    async def main() -> None:
        calls = Calls(1, 40)
        for _ in range(2 * REFUSALS_IN_A_ROW):
            assert await calls.go_on() == 1
            calls.refuse(1)
        assert await calls.go_on() == 1

    run_virtually(main())


def test_a_model_is_given_up_when_it_was_silent_for_long_and_nothing_is_under_way() -> None:
    async def main() -> None:
        calls = Calls(2, 2)
        await asyncio.sleep(1)
        calls.slots.grow()
        assert not calls.slots.is_given_up(spent=True), "it has just answered"
        calls.refuse(1)
        await asyncio.sleep(LONGEST_WAIT)
        assert not calls.slots.is_given_up(spent=True), "one is under way"
        calls.refuse(1)
        assert not calls.slots.is_given_up(spent=False)
        assert calls.slots.is_given_up(spent=True)
        assert calls.slots.is_given_up(spent=False), "from then on whoever is refused fails"
        calls.slots.grow()
        assert not calls.slots.is_given_up(spent=True)

    run_virtually(main())


def test_one_asker_is_turned_away_and_the_others_go_on() -> None:
    async def main() -> None:
        calls = Calls(2, 2)
        calls.ask(3, "guest")
        calls.ask(1, "host")
        *_, dropped, second, third, other = calls.asking
        await asyncio.sleep(1)
        dropped.cancel()
        assert await calls.go_on() == 2
        calls.slots.turn_away("guest")
        await asyncio.sleep(1)
        assert [type(each.exception()) for each in (second, third)] == [Stopped] * 2
        assert not other.done()
        calls.end(1, answered=True)
        assert await calls.go_on() == 2

    run_virtually(main())


def test_a_call_that_is_turned_away_and_cancelled_in_one_moment_gives_no_slot_back() -> None:
    async def main() -> None:
        calls = Calls(1, 1)
        calls.ask(1, "guest")
        calls.ask(1, "host")
        await asyncio.sleep(1)
        calls.slots.turn_away("guest")
        calls.asking[1].cancel()
        assert await calls.go_on() == 1

    run_virtually(main())


def test_closed_slots_are_given_to_nobody() -> None:
    async def main() -> None:
        calls = Calls(2, 4)
        await asyncio.sleep(1)
        calls.asking[2].cancel()
        await asyncio.sleep(1)
        calls.slots.close()
        await asyncio.sleep(1)
        assert isinstance(calls.asking[3].exception(), Stopped)
        calls.end(2, answered=True)
        with pytest.raises(Stopped):
            await calls.slots.acquire(0)

    run_virtually(main())
