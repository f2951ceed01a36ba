"""The limits on a model's requests: how many at once, and how many a second.

If a server refuses a call now and then, only that call waits. If it refuses several in a row, it is
overloaded: no call goes out for as long as it asks. Then calls go out one by one, at the rate at
which the server accepted them before; the rate grows slowly.
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
"""The longest wait in seconds that a server may ask for, and the longest time without a reply from
a model that has answered before; a call that would wait longer fails."""

LONGEST_PROBE = 1.0
"""Seconds after which the first call that goes out again counts as accepted."""

REFUSALS_IN_A_ROW = 5
"""Calls refused in a row, with no reply between them, after which a server counts as overloaded."""

SPEED_UP = 0.98
"""The factor by which the time between two calls shrinks with every call."""

SLOWEST = 3.0
"""The longest time between two calls, as a multiple of the longest wait. If a server refuses calls
even then, it does so at random, and the rate limit is dropped."""

UNTOLD_WAIT = 3.0
"""The longest wait in seconds of a server that asks for none.

Such refusals usually come at random from a busy server, not from a low rate limit.
"""

SHORTEST_TOLD = 0.1
"""A shorter wait that a server asks for is ignored.

Some send `Retry-After: 0` with every refusal, or a date in the past.
"""

SHORTEST_GAP = 0.001
"""With fewer seconds between two calls, the rate is not limited."""


class Stopped(Exception):
    """Raised to calls that wait for their turn when the run is stopped."""


def longest_delay(attempt: int) -> float:
    """The longest backoff in seconds after this attempt: it doubles each time."""
    # larger powers overflow a float
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(attempt, 64))


@dataclass(slots=True)
class RateLimiter:
    """The time between two calls to a server that refuses some of them.

    `gap` is 0 if the rate is not limited. No call goes out before `opens_at`. All times are in
    seconds of one clock.
    """

    gap: float = 0.0
    opens_at: float = 0.0
    _probe: float = 0.0
    _sent: int = 0
    _closed_at: float = 0.0
    _refusals: int = 0
    _longest: float = UNTOLD_WAIT

    def send(self, now: float) -> None:
        """Count a call that goes out."""
        self._sent += 1
        self.gap *= SPEED_UP
        self.opens_at = now + (max(self.gap, self._probe) if self._sent == 1 else self.gap)
        if self.gap < SHORTEST_GAP:
            self.gap = 0.0

    def close(self, now: float, asked_for: float | None, slots: float, drawn: float) -> bool:
        """Let no call out for as long as the server asks, or else for a backoff.

        The backoff grows as long as the first call afterwards is refused too. `drawn`, from 0 to
        1, is its jitter. Returns whether any call was accepted since the last time.
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
        """Let no call out before this time."""
        self.opens_at = max(self.opens_at, until)


class ConcurrencyLimiter:
    """A semaphore that serves the smallest priority first, at the rate that the server accepts.

    Each slot belongs to an epoch, which a refusal ends, so that calls refused together count once.
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
        # a model that has not answered yet counts as silent forever
        self._is_strained = self._may_shrink = True
        self._refused_in_a_row = 0
        self._silent_since: float | None = -math.inf
        self._is_given_up = False
        # jitter changes no result, so it needs no seed
        self._random = random.Random()

    def open(self, most: int) -> None:
        """Set the maximum number of calls under way at once."""
        self._most = most
        self._limit = float(most)
        self._room = most

    async def acquire(self, priority: int, asker: object = None) -> int:
        """Wait for a slot, to be released afterwards; returns its epoch.

        Raises `Stopped` after `close`, or after `turn_away` of this `asker`.
        """
        if self._closed:
            raise Stopped
        if self._held < self._room and not self._waiting:
            self._held += 1
        else:
            await self._turn(priority, asker)
        return self._epoch

    def turn_away(self, asker: object) -> None:
        """Raise `Stopped` to all calls of this asker that wait for a slot."""
        for _, _, waits_for, future in self._waiting:
            if waits_for is asker and not future.done():
                future.set_exception(Stopped())

    def release(self) -> None:
        """Give a slot back."""
        self._held -= 1
        self._serve()

    def note_failure(self, epoch: int, error: Transient) -> bool:
        """Slow down after a refusal of a call of this epoch, which still holds its slot.

        Returns whether the limiter delays the call's next slot; if not, the caller must. A server
        that asks for more than `LONGEST_WAIT` is not waited for.
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
        """Let no call out for a while; halve the concurrency once per round of replies.

        It stays at least the number of calls under way that the server has not refused.
        """
        passed = self._rate_limiter.close(now, asked_for, self._limit, self._random.random())
        self._least = self._limit
        if passed and self._may_shrink:
            self._may_shrink = False
            self._least = max(1.0, self._limit / 2)

    def is_given_up(self, *, spent: bool) -> bool:
        """Whether a call that was just refused fails; `spent`: it has no attempt left.

        It does if no call is under way and none was answered for `LONGEST_WAIT`, or ever. From then
        on every refused call fails, until one is answered.
        """
        if spent and not self._held and self._silent_since is not None:
            silent = asyncio.get_running_loop().time() - self._silent_since
            self._is_given_up = self._is_given_up or silent >= LONGEST_WAIT
        return self._is_given_up

    def grow(self) -> None:
        """Count an answered call: raise the concurrency by one per round of replies."""
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
        """With a limited rate no call gets a slot without `_serve`, which keeps calls apart."""
        self._room = 0 if self._rate_limiter.gap else int(self._limit)

    async def _turn(self, priority: int, asker: object) -> None:
        """Wait until this call holds a slot."""
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
