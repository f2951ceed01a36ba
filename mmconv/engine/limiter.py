"""Slots for a model's requests: who gets one, and when, within the limits of the server.

A refusal does not say which limit a call has met. But a limit of `n` calls a second is one of
`n` times their latency at once (Little's law), so one number describes both: the window.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count

from mmconv.core.errors import Transient
from mmconv.core.protocols import ServerLimit

FIRST_DELAY = 0.5
LONGEST_DELAY = 60.0

LONGEST_WAIT = 600.0
"""The longest wait in seconds that a server may ask for, and the longest time without a reply from
a model that has answered before; a call that would wait longer fails."""

LONGEST_PROBE = 1.0
"""Seconds after which the first call that goes out again counts as accepted."""

REFUSALS_IN_A_ROW = 3
"""Calls refused in a row, with no other accepted between them, after which a server is full."""

HASTE = 1.25
"""Calls keep apart so that so many windows of them could go out in the time of one reply."""

FIRST_CALLS = 8
"""Calls that go out at once before any answer.

The others keep apart, so that a server that bears few has refused some before it was sent all.
"""

FIRST_SECONDS = 0.5
"""The latency in seconds that is assumed until the first answer."""

SHORTEST_ASKED = 0.1
"""A shorter wait that a server asks for is ignored.

Some send `Retry-After: 0` with every refusal, or a date in the past.
"""


SHARE = 0.04
"""The share of calls that a server at its limit refuses: the price of knowing where the limit is.

So much of a limit that a server reports is left unused, as estimates of tokens err.
"""

SERIES = 8
"""Refusals that it takes to conclude that they come by chance."""

MEMORY = 512
"""Calls after which the share that is refused by chance is halved, to be measured again."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A call under way: its number among all calls sent, and the tokens of all calls until then."""

    number: int
    sent_at: float
    tokens: float


@dataclass(slots=True)
class Window:
    """How many calls may be under way at once, `most` at most; a fraction counts in the pace.

    A refusal costs a slot (a quarter of a window of less than four), and `1 / SHARE` answers earn
    one; after as many answers without a refusal they earn more and more.
    """

    most: float = 1.0
    size: float = 1.0
    is_doubling: bool = True
    _answers: int = 0

    def grow(self, share: float) -> None:
        """Count an answer of a server that may refuse this share of the calls.

        While it `is_doubling`, each answer earns a slot: the window doubles in the time of a reply.
        """
        self._answers += 1
        gain = share / (1 - share) * max(1.0, share * self._answers)
        self.size = min(self.most, self.size + (1.0 if self.is_doubling else gain))

    def shrink(self, under_way: float | None = None) -> None:
        """Count a refusal; go down to the calls `under_way` if given, but at most by half."""
        size = self.size - min(1.0, self.size / 4)
        if under_way is not None:
            size = max(min(size, under_way), self.size / 2)
        self.settle(size)

    def settle(self, size: float) -> None:
        """Continue with this size."""
        self._answers = 0
        self.is_doubling = False
        self.size = size


@dataclass(slots=True)
class Chance:
    """The share of calls that a server refuses whatever the load.

    A limit that refuses less than half of the calls refuses fewer and fewer as the window halves.
    If it has halved and refusals have not become rarer, they come by chance.
    """

    share: float = 0.0
    _peak: float = 0.0
    _refused: list[int] = field(default_factory=list)
    _measured: int = 0

    def refuse(self, number: int, size: float) -> float | None:
        """Count a refusal after this number of calls, which lowered the window to this size.

        Returns the size to go back to if the refusals come by chance.
        """
        if number - self._measured >= MEMORY:
            self.share, self._measured = self.share / 2, number
        if size >= 0.9 * self._peak:
            self._peak, self._refused = max(self._peak, size), []
        self._refused.append(number)
        refusals = len(self._refused) - 1
        if size > self._peak / 2 or refusals < SERIES:
            return None
        peak, first, middle = self._peak, self._refused[0], self._refused[refusals // 2]
        share = refusals / max(1, number - first)
        is_constant = share < 0.5 and number - middle <= 2 * (middle - first)
        self._peak, self._measured = 0.0, number
        self.share = share if is_constant else 0.0
        return peak if is_constant else None


@dataclass(frozen=True, slots=True)
class ReportedLimit:
    """A limit as the server stated it when it answered a call, and what calls had cost by then."""

    limit: ServerLimit
    at: float
    spent: float

    def opens_at(self, spent: float, cost: float) -> float:
        """When a call of this cost may go out; units come back evenly until the reset."""
        used = self.limit.limit - self.limit.remaining
        left = self.limit.remaining - SHARE * self.limit.limit - (spent - self.spent)
        missing = min(cost, self.limit.limit) - left
        if missing <= 0 or used <= 0:
            return 0.0
        return self.at + missing * self.limit.reset / used


class Stopped(Exception):
    """Raised to calls that wait for their turn when the run is stopped."""


def longest_delay(attempt: int) -> float:
    """The longest backoff in seconds after this attempt: it doubles each time."""
    # larger powers overflow a float
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(attempt, 64))


@dataclass(order=True, slots=True)
class _Waiting:
    priority: int
    ticket: int
    asker: object = field(compare=False)
    tokens: Callable[[], float] | None = field(compare=False)
    future: asyncio.Future[Slot] = field(compare=False)


class ConcurrencyLimiter:
    """A semaphore that serves the smallest priority first, as far as the server's limits allow."""

    def __init__(self) -> None:
        self._window = Window()
        self._chance = Chance()
        self._reported: dict[str, ReportedLimit] = {}
        self._held = 0
        self._sent = 0
        self._tokens = 0.0
        self._latency = FIRST_SECONDS
        self._answers = 0
        self._closed = False
        self._waiting: list[_Waiting] = []
        self._ticket = count()
        self._timer: asyncio.TimerHandle | None = None
        # when the next call may go out: by the window, and while the server refuses all
        self._paced_at = self._opens_at = 0.0
        self._probe = 0.0
        # refusals in a row, the last one's number, and the window before them
        self._row = self._last_refused = 0
        self._size_before = 1.0
        # refusals and closings since the last answer, and until when a server asked to wait
        self._unanswered = self._closings = 0
        self._asked_until = 0.0
        # a model that has not answered yet counts as silent forever
        self._silent_since: float | None = -math.inf
        self._is_given_up = False
        # jitter changes no result, so it needs no seed
        self._random = random.Random()

    def open(self, most: int) -> None:
        """Set the maximum number of calls under way at once."""
        self._window.most = self._window.size = most

    async def acquire(
        self, priority: int, asker: object = None, tokens: Callable[[], float] | None = None
    ) -> Slot:
        """Wait for a slot, to be released afterwards; `tokens` estimates those of the call.

        Raises `Stopped` after `close`, or after `turn_away` of this `asker`.
        """
        if self._closed:
            raise Stopped
        future: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, _Waiting(priority, next(self._ticket), asker, tokens, future))
        self._serve()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.release()
            raise

    def turn_away(self, asker: object) -> None:
        """Raise `Stopped` to all calls of this asker that wait for a slot."""
        for waiting in self._waiting:
            if waiting.asker is asker and not waiting.future.done():
                waiting.future.set_exception(Stopped())

    def release(self) -> None:
        """Give a slot back."""
        self._held -= 1
        self._serve()

    def close(self) -> None:
        """Give no more slots: calls that wait for one raise `Stopped`."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for waiting in self._waiting:
            if not waiting.future.done():
                waiting.future.set_exception(Stopped())
        self._waiting.clear()

    def report(self, slot: Slot, limits: Iterable[ServerLimit]) -> None:
        """Keep to what the server said of its limits when it answered the call of this slot.

        It counts the calls that were sent before, so an answer to an older call is of no use.
        """
        for limit in limits:
            spent = slot.tokens if limit.unit == "tokens" else slot.number
            known = self._reported.get(limit.unit)
            if known is None or known.at <= slot.sent_at:
                self._reported[limit.unit] = ReportedLimit(limit, slot.sent_at, spent)

    def answered(self, slot: Slot) -> None:
        """Count an answered call, which still holds its slot."""
        self._silent_since = None
        self._is_given_up = False
        self._unanswered = self._closings = 0
        self._answers += 1
        latency = asyncio.get_running_loop().time() - slot.sent_at
        if self._answers == 1:
            # the server bears this pace, and the calls under way
            size = max(self._held, self._window.size * latency / self._latency)
            self._window.size = min(self._window.most, size)
        self._latency += (latency - self._latency) / min(self._answers, 32)
        if self._waiting:
            self._window.grow(SHARE + self._chance.share)

    def refused(self, slot: Slot, error: Transient) -> None:
        """Slow down after a refusal of a call, which still holds its slot."""
        now = asyncio.get_running_loop().time()
        if self._silent_since is None:
            self._silent_since = now
        if self._is_given_up:
            return
        if slot.number > self._last_refused + 1:
            self._row = 0
        if self._row == 0:
            self._size_before = self._window.size
        self._row += 1
        self._last_refused = max(self._last_refused, slot.number)
        self._unanswered += 1
        asked_for = error.retry_after if (error.retry_after or 0.0) >= SHORTEST_ASKED else None
        if asked_for is not None:
            self._asked_until = max(self._asked_until, now + asked_for)
        is_full = self._row >= REFUSALS_IN_A_ROW
        self._window.shrink(self._held - 1 if is_full else None)
        if not self._answers:
            self._paced_at = now + self._gap()
        if (size := self._chance.refuse(self._sent, self._window.size)) is not None:
            self._window.settle(size)
        if self._held == 1 and (is_full or self._unanswered >= REFUSALS_IN_A_ROW):
            self._close_gate(asked_for, now)
        elif self._window.size < self._size_before / 4:
            # the server answers a few calls, and it is unknown how many more it would bear
            self._window.is_doubling = True

    def is_given_up(self, *, spent: bool) -> bool:
        """Whether a call that was just refused fails; `spent`: it has no attempt left.

        It does if no call is under way and none was answered for `LONGEST_WAIT`, or ever. From then
        on every refused call fails, until one is answered.
        """
        if spent and not self._held and self._silent_since is not None:
            silent = asyncio.get_running_loop().time() - self._silent_since
            self._is_given_up = self._is_given_up or silent >= LONGEST_WAIT
        return self._is_given_up

    def _close_gate(self, asked_for: float | None, now: float) -> None:
        """Let no call out for a while: the server refuses them all."""
        self._closings += 1
        backoff = longest_delay(self._closings) * (1 + self._random.random()) / 2
        if asked_for is None:
            wait = backoff
        else:
            wait = asked_for if self._closings == 1 else max(asked_for, backoff)
        self._opens_at = max(now + wait, self._asked_until)
        self._probe = min(wait, LONGEST_PROBE)
        if not self._answers:
            self._latency = max(self._latency, wait)
        # a window as large as before if nothing was answered since: the server is down, not full
        self._window.settle(self._size_before / (2 if self._closings == 1 else 1))

    def _serve(self) -> None:
        """Give slots to waiting calls as long as all limits allow it."""
        while self._waiting and self._has_room():
            waiting = self._waiting[0]
            if not waiting.future.done():
                loop = asyncio.get_running_loop()
                now = loop.time()
                tokens = 0.0
                if waiting.tokens is not None and "tokens" in self._reported:
                    tokens = waiting.tokens()
                if (opens_at := self._may_send_at(tokens)) > now + 1e-6:
                    if self._timer is not None:
                        self._timer.cancel()
                    self._timer = loop.call_at(opens_at, self._serve)
                    return
                waiting.future.set_result(self._send(now, tokens))
            heapq.heappop(self._waiting)

    def _send(self, now: float, tokens: float) -> Slot:
        self._held += 1
        self._sent += 1
        self._tokens += tokens
        if self._probe:
            self._opens_at = self._paced_at = now + self._probe
            self._probe = 0.0
        elif self._is_paced():
            self._paced_at = now + self._gap()
        return Slot(self._sent, now, self._tokens)

    def _has_room(self) -> bool:
        """Whether the window holds one more call; until the first answer it only sets the pace."""
        size = self._window.size if self._answers else self._window.most
        return self._held < max(1, int(size))

    def _is_paced(self) -> bool:
        is_unknown = not self._answers and self._sent >= FIRST_CALLS and self._held > 0
        return is_unknown or self._window.size < self._window.most

    def _gap(self) -> float:
        return self._latency / self._window.size / HASTE

    def _may_send_at(self, tokens: float) -> float:
        """When the next call may go out."""
        opens_at = self._opens_at
        if self._is_paced():
            opens_at = max(opens_at, self._paced_at)
        for unit, reported in self._reported.items():
            spent, cost = (self._tokens, tokens) if unit == "tokens" else (self._sent, 1.0)
            opens_at = max(opens_at, reported.opens_at(spent, cost))
        return opens_at
