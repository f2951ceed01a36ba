"""When a model's calls go out: how many at once, and how soon one after the other.

A server that never refuses is sent as many calls at once as its slots are; of one that refuses now
and then, the refused call alone waits. One that is overloaded, and refuses several in a row, is
left alone for as long as it asks, by all calls of the model; then calls go out one by one, at the
pace at which it took them of late, which grows again slowly.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from dataclasses import dataclass
from itertools import count

from mmconv.core.errors import Transient

FIRST_DELAY = 0.5
LONGEST_DELAY = 60.0

LONGEST_WAIT = 600.0
"""Seconds that a server may ask to be left alone, or refuse all calls of a model that has answered
before; a call that would wait longer fails."""

LONGEST_PROBE = 1.0
"""Seconds after which the first call that goes out again is taken not to have been refused."""

REFUSALS_IN_A_ROW = 5
"""How many calls are refused, without an answer between them, by a server that is overloaded.

One that now and then refuses a call, and answers the others, is sent them as before.
"""

SPEED_UP = 0.98
"""By which the time between two calls shrinks with every call."""

SLOWEST = 3.0
"""How many times the longest wait calls are kept apart at the most. A server that refuses them even
then does so by chance, and not because they are too many: the pace is dropped."""

UNTOLD_WAIT = 3.0
"""Seconds that stand for the longest wait of a server that asks for none.

Such refusals are more often those of a busy server, at random, than of a low limit.
"""

SHORTEST_TOLD = 0.1
"""Seconds below which a server that asks to be left alone might as well ask for nothing.

Some send `Retry-After: 0` with every refusal, or a date that has passed by their clock.
"""

SHORTEST_GAP = 0.001
"""Seconds between two calls below which they need no pace."""


class Stopped(Exception):
    """Raised to calls that wait for a slot when the run is being stopped."""


def longest_delay(attempt: int) -> float:
    """The longest backoff in seconds after so many attempts: it doubles each time."""
    # Larger powers than a float can hold would wait no longer.
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(attempt, 64))


@dataclass(slots=True)
class RateLimiter:
    """How soon calls follow each other to a server that refuses them now and then.

    `gap` is the time between two calls, 0 where they need not be kept apart; before `opens_at` none
    goes out. All times are in seconds, of one clock.
    """

    gap: float = 0.0
    opens_at: float = 0.0
    _probe: float = 0.0
    _sent: int = 0
    _closed_at: float = 0.0
    _refusals: int = 0
    _longest: float = UNTOLD_WAIT

    def send(self, now: float) -> None:
        """Note that a call goes out."""
        self._sent += 1
        self.gap *= SPEED_UP
        self.opens_at = now + (max(self.gap, self._probe) if self._sent == 1 else self.gap)
        if self.gap < SHORTEST_GAP:
            self.gap = 0.0

    def close(self, now: float, asked_for: float | None, slots: float, drawn: float) -> bool:
        """Let nothing out for as long as the server asks, or for a backoff where it asks nothing.

        That goes on growing as long as the one call that tries is refused too. `drawn`, of 0 to 1,
        spreads it. Returns whether anything had got through since the last time.
        """
        passed = self._sent - 1
        is_first = not self.gap
        self._refusals = 1 if passed > 0 else self._refusals + 1
        backoff = longest_delay(self._refusals) * (1 + drawn) / 2
        if asked_for is None:
            wait = backoff
        else:
            wait = asked_for if self._refusals == 1 else max(asked_for, backoff)
        if is_first:
            self._longest = UNTOLD_WAIT if asked_for is None else asked_for
            self.gap = wait / slots
        elif passed > 0:
            self.gap = min(2 * self.gap, (now - self._closed_at) / passed)
        self._longest = max(asked_for or 0.0, self._longest)
        if self.gap > SLOWEST * self._longest:
            self.gap = 0.0
        self._probe = min(wait, LONGEST_PROBE)
        self.opens_at = max(self.opens_at, now + wait)
        self._closed_at, self._sent = now, 0
        return is_first or passed > 0

    def extend(self, until: float) -> None:
        """Let nothing out before then either, where calls are kept apart."""
        self.opens_at = max(self.opens_at, until)


class ConcurrencyLimiter:
    """A semaphore that serves the smallest priority first, at the pace that the server bears.

    Every slot is held in an epoch; a refusal ends the epoch, so that the many calls that are
    refused together count once.
    """

    def __init__(self) -> None:
        self._most = 1
        self._limit = self._least = 1.0
        self._room = 1
        self._held = 0
        self._epoch = 0
        self._closed = False
        self._waiting: list[tuple[int, int, object, asyncio.Future[None]]] = []
        self._ticket = count()
        self._rate_limiter = RateLimiter()
        self._timer: asyncio.TimerHandle | None = None
        # A model that has answered nothing yet is one from which nothing was heard for ever.
        self._is_strained = self._may_shrink = True
        self._refused_in_a_row = 0
        self._silent_since: float | None = -math.inf
        self._is_given_up = False
        # Jitter spreads retries over time; it decides no result, so it needs no seed.
        self._random = random.Random()

    def open(self, most: int) -> None:
        """Let so many calls be under way at once."""
        self._most = most
        self._limit = float(most)
        self._room = most

    async def acquire(self, priority: int, asker: object = None) -> int:
        """Wait for a slot, which is to be released; returns its epoch.

        Raises `Stopped` where there are no more, or none for the `asker`.
        """
        if self._closed:
            raise Stopped
        if self._held < self._room and not self._waiting:
            self._held += 1
        else:
            await self._turn(priority, asker)
        return self._epoch

    def turn_away(self, asker: object) -> None:
        """Have all calls of this asker that wait for a slot raise `Stopped`."""
        for _, _, waits_for, future in self._waiting:
            if waits_for is asker and not future.done():
                future.set_exception(Stopped())

    def release(self) -> None:
        """Give a slot back."""
        self._held -= 1
        self._serve()

    def note_failure(self, epoch: int, error: Transient) -> bool:
        """Slow down if that is why a call of this epoch, which still holds its slot, has failed.

        Returns whether its next slot waits for the server; else the call has to. A server that asks
        for more than `LONGEST_WAIT` is not waited for.
        """
        asked_for = error.retry_after
        if asked_for is not None and asked_for < SHORTEST_TOLD:
            asked_for = None
        if not error.overloaded or (asked_for or 0.0) > LONGEST_WAIT:
            return False
        now = asyncio.get_running_loop().time()
        self._is_strained = True
        self._refused_in_a_row += 1
        if self._silent_since is None:
            self._silent_since = now
        if self._is_given_up:
            return True
        self._rate_limiter.extend(now + (asked_for or 0.0))
        if not self._rate_limiter.gap and self._refused_in_a_row < REFUSALS_IN_A_ROW:
            return False
        if epoch == self._epoch:
            self._epoch += 1
            was_paced = bool(self._rate_limiter.gap)
            self._end_epoch(now, asked_for)
            if was_paced and not self._rate_limiter.gap:
                self._refused_in_a_row = 0
        self._limit = max(self._least, min(self._limit, self._held - 1))
        self._make_room()
        return bool(self._rate_limiter.gap)

    def _end_epoch(self, now: float, asked_for: float | None) -> None:
        """Close the gate, and have the slots halved once for every round that was answered.

        They are as many, though, as calls are under way that the server has not refused.
        """
        passed = self._rate_limiter.close(now, asked_for, self._limit, self._random.random())
        self._least = self._limit
        if passed and self._may_shrink:
            self._may_shrink = False
            self._least = max(1.0, self._limit / 2)

    def is_given_up(self, *, spent: bool) -> bool:
        """Whether a call that was just refused fails; `spent` says that it has no attempt left.

        So it is where nothing is under way and nothing was answered for `LONGEST_WAIT`, or ever.
        From then on every call fails that is refused, until one is answered.
        """
        if spent and not self._held and self._silent_since is not None:
            silent = asyncio.get_running_loop().time() - self._silent_since
            self._is_given_up = self._is_given_up or silent >= LONGEST_WAIT
        return self._is_given_up

    def grow(self) -> None:
        """A call was answered: win back one slot for every round of answers."""
        if self._is_strained:
            self._silent_since = None
            self._refused_in_a_row = 0
            self._is_given_up = False
            self._may_shrink = True
            self._limit = min(float(self._most), self._limit + 1 / self._limit)
            self._make_room()
            self._is_strained = self._room < self._most
            self._serve()

    def close(self) -> None:
        """Give no more slots: calls that wait for one raise `Stopped`."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for *_, future in self._waiting:
            if not future.done():
                future.set_exception(Stopped())
        self._waiting.clear()

    def _make_room(self) -> None:
        """Calls are kept apart by `_serve` alone, so that none gets a slot without waiting."""
        self._room = 0 if self._rate_limiter.gap else int(self._limit)

    async def _turn(self, priority: int, asker: object) -> None:
        """Wait until a slot is held for this call."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._ticket), asker, future))
        if not self._room:
            self._serve()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.release()
            raise

    def _serve(self) -> None:
        while self._waiting and self._held < int(self._limit):
            future = self._waiting[0][-1]
            if not future.done():
                if self._rate_limiter.gap and not self._may_send():
                    return
                self._held += 1
                future.set_result(None)
            heapq.heappop(self._waiting)

    def _may_send(self) -> bool:
        """Whether a call goes out now; if not, `_serve` is called when one may."""
        loop = asyncio.get_running_loop()
        if (now := loop.time()) >= self._rate_limiter.opens_at:
            self._rate_limiter.send(now)
            return True
        if self._timer is None:
            self._timer = loop.call_at(self._rate_limiter.opens_at, self._ring)
        return False

    def _ring(self) -> None:
        self._timer = None
        self._serve()
