"""A model behind a server of so many calls a minute, on a clock of its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from itertools import chain, count

import pytest

from mmconv.core.errors import FailureKind, Transient
from mmconv.core.keys import hash_bytes
from mmconv.core.run_stats import ModelStats
from mmconv.core.types import Failure, Reply, Sampling
from mmconv.engine import Model
from mmconv.engine.limiter import (
    FIRST_CALLS,
    FIRST_SECONDS,
    LONGEST_WAIT,
    REFUSALS_IN_A_ROW,
    Stopped,
)
from tests.messages import Messages
from tests.mmconv.virtual_clock import run_virtually

MOST = 64
SECONDS = 5.0
REFUSED_IN = 0.05


class Limited:
    """Answers calls as long as `allows` says so at a time in seconds; `sent` are their times.

    Else it says how long to wait, if it is one that says so, or what it always `says`.
    """

    def __init__(
        self,
        allows: Callable[[float], float],
        *,
        most: int = MOST,
        tells: bool = True,
        says: float | None = None,
        kind: FailureKind = "rate_limit",
    ) -> None:
        self.max_concurrency = most
        self._allows = allows
        self._tells = tells
        self._says = says
        self._kind: FailureKind = kind
        self.sent: list[float] = []
        self.served = 0
        self.closed = [0.0]

    async def open(self) -> Limited:
        return self

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        now = clock()
        self.sent.append(now)
        wait = self._allows(now)
        if not wait:
            self.served += 1
            await asyncio.sleep(SECONDS)
            return Reply(text="yes")
        await asyncio.sleep(REFUSED_IN)
        self.closed += [clock(), clock() + wait]
        asked_for = (wait if self._says is None else self._says) if self._tells else None
        raise Transient(self._kind, "HTTP 4xx", retry_after=asked_for, overloaded=True)

    async def aclose(self) -> None:
        pass


def clock() -> float:
    return asyncio.get_running_loop().time()


def window(per_minute: int) -> Callable[[float], float]:
    """So many calls in each minute of the clock; the first one has begun a while ago."""
    taken: dict[int, int] = {}

    def allows(now: float) -> float:
        minute = int((now + 17) // 60)
        if taken.setdefault(minute, 0) == per_minute:
            return 60 * (minute + 1) - 17 - now
        taken[minute] += 1
        return 0.0

    return allows


def bucket(per_minute: int) -> Callable[[float], float]:
    """A call whenever there is room for it again, with room for a few at once."""
    most, room, last = max(1.0, per_minute / 6), 1.0, 0.0

    def allows(now: float) -> float:
        nonlocal room, last
        room, last = min(most, room + (now - last) * per_minute / 60), now
        if room < 1 - 1e-9:
            return (1 - room) * 60 / per_minute
        room -= 1
        return 0.0

    return allows


def only_between(begin: float, end: float) -> Callable[[float], float]:
    """All calls in that time, none before and after."""
    return lambda now: 0.0 if begin <= now < end else 30.0


async def ask(model: Model, priority: int = 0) -> Reply | Failure:
    return await model.ask(
        (), Sampling(), priority=priority, affinity="", pinned=None, stats=ModelStats()
    )


async def ask_all(model: Model, calls: int) -> list[Reply | Failure]:
    return await asyncio.gather(*(ask(model, number) for number in range(calls)))


@pytest.fixture(autouse=True)
def _drawn_alike(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(random.Random, "random", lambda _: 0.5)
    yield


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("kind", ["rate_limit", "server"])
@pytest.mark.parametrize("limit", [window, bucket])
@pytest.mark.parametrize("per_minute", [10, 15, 50])
def test_no_call_is_lost_to_a_low_limit_and_few_are_sent_in_vain(
    per_minute: int,
    limit: Callable[[int], Callable[[float], float]],
    kind: FailureKind,
    tells: bool,
) -> None:
    server = Limited(limit(per_minute), tells=tells, kind=kind)
    calls = 20 * per_minute
    replies, seconds = run_virtually(ask_all(Model("m", server.open), calls))
    assert {type(each) for each in replies} == {Reply}
    assert server.served == calls
    assert seconds < 1.25 * 60 * calls / per_minute
    assert len(server.sent) < 2.75 * calls


def test_who_asks_for_the_longest_wait_is_heeded() -> None:
    asked_for = iter([*[5.0] * REFUSALS_IN_A_ROW, 20.0])
    server = Limited(lambda _: next(asked_for, 0.0))
    calls = REFUSALS_IN_A_ROW + 1
    run_virtually(ask_all(Model("m", server.open), calls))
    assert server.sent[:calls] == [0.0] * calls
    assert server.sent[calls] == pytest.approx(REFUSED_IN + 20)


def test_a_server_that_asks_for_nothing_is_tried_again_after_a_short_while() -> None:
    server = Limited(lambda now: float(now == 0), tells=False)
    run_virtually(ask_all(Model("m", server.open), REFUSALS_IN_A_ROW))
    first, *others = server.sent[REFUSALS_IN_A_ROW:]
    assert first == pytest.approx(REFUSED_IN + 0.75)
    assert len(others) == REFUSALS_IN_A_ROW - 1


@pytest.mark.parametrize("asked_for", [0.0, 0.015])
def test_a_server_that_asks_for_next_to_nothing_is_sent_no_more_for_it(asked_for: float) -> None:
    def refused(now: float) -> float:
        return 1.0 if 10 <= now < 70 else 0.0

    def sent_in_vain(server: Limited) -> int:
        replies, _ = run_virtually(ask_all(Model("m", server.open), 400))
        assert all(isinstance(each, Reply) for each in replies)
        return len(server.sent) - 400

    limited = Limited(refused, says=asked_for)
    assert sent_in_vain(limited) == sent_in_vain(Limited(refused, tells=False))


@pytest.mark.parametrize("tells", [True, False])
def test_refusals_by_chance_slow_nothing_down(tells: bool) -> None:
    """Were every refusal a reason to wait, one in 25 would be enough to bring all to a halt."""
    numbers = count()
    server = Limited(lambda _: float(next(numbers) % 25 == 24), tells=tells)
    replies, seconds = run_virtually(ask_all(Model("m", server.open), 20 * MOST))
    assert all(isinstance(each, Reply) for each in replies)
    assert seconds < 1.1 * 20 * SECONDS


@pytest.mark.parametrize("tells", [True, False])
def test_a_pace_that_spares_no_refusal_is_dropped(tells: bool) -> None:
    """However slowly it is sent, this server refuses three calls in ten."""
    drawn = (hash_bytes(b"%d" % number)[0] < "5" for number in count())
    refused = chain([True] * REFUSALS_IN_A_ROW, drawn)
    server = Limited(lambda _: float(next(refused)), tells=tells)
    replies, seconds = run_virtually(ask_all(Model("m", server.open), 10 * MOST))
    assert all(isinstance(each, Reply) for each in replies)
    assert seconds < 1500


def test_they_do_not_come_back_all_at_once() -> None:
    server = Limited(only_between(30, 1000))
    _, seconds = run_virtually(ask_all(Model("m", server.open), MOST))
    before = [sent for sent in server.sent if sent < 30]
    back = server.sent[len(before) :]
    assert FIRST_CALLS <= len(before) <= 2 * FIRST_CALLS
    assert back[1] >= back[0] + 1
    assert len({*back}) == len(back) == MOST
    assert seconds < 90


@pytest.mark.parametrize("most", [1, 5, MOST])
def test_a_server_that_never_refuses_is_always_sent_as_many_as_it_takes(most: int) -> None:
    server = Limited(lambda _: 0.0, most=most)
    _, seconds = run_virtually(ask_all(Model("m", server.open), 4 * most))
    assert 4 * SECONDS <= seconds <= 4 * SECONDS + FIRST_SECONDS


def test_a_server_that_no_longer_refuses_is_soon_sent_as_many_as_before() -> None:
    server = Limited(only_between(10, 1e9))
    run_virtually(ask_all(Model("m", server.open), 3000))
    late = server.sent[-1] - SECONDS
    assert len([sent for sent in server.sent if late < sent]) > 0.9 * MOST


def test_a_model_that_never_answers_is_given_up_by_all_when_one_has_no_attempt_left() -> None:
    server = Limited(only_between(0, 0))
    failures, seconds = run_virtually(ask_all(Model("m", server.open, attempts=8), MOST))
    assert {(each.kind, each.message) for each in failures if isinstance(each, Failure)} == {
        ("rate_limit", "HTTP 4xx")
    }
    assert max(each.attempts for each in failures if isinstance(each, Failure)) >= 8
    assert len(server.sent) <= 2 * MOST + 9
    assert seconds < 10 * 60


def test_a_call_that_is_refused_alone_is_asked_as_often_as_it_has_attempts() -> None:
    server = Limited(only_between(0, 0))
    failed, _ = run_virtually(ask(Model("m", server.open, attempts=3)))
    assert failed == Failure(kind="rate_limit", message="HTTP 4xx", attempts=3)
    assert len(server.sent) == 3


def test_one_that_has_answered_is_given_up_when_nothing_was_answered_for_long() -> None:
    async def main() -> tuple[float, list[Reply | Failure]]:
        model = Model("m", server.open, attempts=2)
        assert isinstance(await ask(model), Reply)
        refused = await ask_all(model, 3)
        given_up = clock()
        await asyncio.sleep(2000 - given_up)
        return given_up, [*refused, await ask(model), await ask(model)]

    server = Limited(lambda now: 0.0 if now < 4 or 2000 <= now < 2004 or now > 2100 else 30.0)
    (given_up, outcomes), _ = run_virtually(main())
    assert [type(each) for each in outcomes] == [Failure, Failure, Failure, Reply, Reply]
    assert LONGEST_WAIT <= given_up < LONGEST_WAIT + 120


def test_whoever_is_told_to_wait_for_longer_than_that_fails_at_once_and_holds_up_nobody() -> None:
    server = Limited(lambda now: 0.0 if now else LONGEST_WAIT + 1)
    failures, seconds = run_virtually(ask_all(Model("m", server.open), 3))
    message = "HTTP 4xx (it asks to wait for 601 s)"
    assert failures == [Failure(kind="rate_limit", message=message, attempts=1)] * 3
    assert seconds == REFUSED_IN


def test_whoever_is_told_to_wait_for_just_that_long_waits_with_all_others() -> None:
    server = Limited(lambda now: 0.0 if now else LONGEST_WAIT)
    replies, _ = run_virtually(ask_all(Model("m", server.open), REFUSALS_IN_A_ROW))
    assert all(isinstance(each, Reply) for each in replies)
    first, second, *_ = server.sent[REFUSALS_IN_A_ROW:]
    assert REFUSED_IN + LONGEST_WAIT <= first < second - 1 + 1e-9


def test_refusals_use_up_no_attempt_while_others_are_answered() -> None:
    failing = iter([True, False])

    class Shaky(Limited):
        async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
            reply = await super().generate(messages, sampling, affinity=affinity)
            if affinity == "last" and next(failing):
                raise Transient("server", "HTTP 500")
            return reply

    async def main() -> Reply | Failure:
        model = Model("m", server.open, attempts=2)
        others = asyncio.ensure_future(ask_all(model, 30))
        await asyncio.sleep(1)
        last = await model.ask(
            (), Sampling(), priority=-1, affinity="last", pinned=None, stats=stats
        )
        await others
        return last

    stats = ModelStats()
    server = Shaky(window(10), tells=False)
    last, _ = run_virtually(main())
    assert isinstance(last, Reply)
    assert stats.retried > 3


def test_stopping_ends_the_wait_at_once() -> None:
    async def main() -> float:
        model = Model("m", server.open)
        calls = [asyncio.ensure_future(ask(model)) for _ in range(9)]
        await asyncio.sleep(1)
        assert not any(call.done() for call in calls)
        model.stop()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in outcomes} == {Stopped}
        return clock()

    server = Limited(only_between(0, 0))
    assert run_virtually(main())[0] == 1


def test_a_call_that_is_cancelled_while_it_waits_holds_up_nobody() -> None:
    async def main() -> Reply | Failure:
        model = Model("m", server.open)
        first, second = (asyncio.ensure_future(ask(model, number)) for number in range(2))
        await asyncio.sleep(1)
        first.cancel()
        return await second

    server = Limited(only_between(20, 1000))
    reply, seconds = run_virtually(main())
    assert isinstance(reply, Reply)
    assert seconds < 60
