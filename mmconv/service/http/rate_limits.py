"""What each token uses of this process: requests per minute, and calls that wait for a model.

Counted in memory, by process. How many runs a token has is counted in the queue, and what its
images take up by `images.uploads`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from mmconv.service.errors.problems import Problem
from mmconv.service.settings import Allowance

BUSY_SECONDS = 2.0
"""When a client that has too many calls waiting is told to come back."""


class Meter:
    """The use of one token.

    Requests are counted as a bucket that holds a minute's allowance and fills at its rate.
    """

    def __init__(self) -> None:
        self._left: float | None = None
        self._seen = 0.0
        self.calls = 0
        self.watchers = 0

    def count_request(self, limits: Allowance) -> None:
        """Count a request; raises `Problem` 429 beyond the token's requests per minute."""
        allowed = limits.requests_per_minute
        if allowed is None:
            return
        now = time.monotonic()
        rate = allowed / 60
        left = allowed if self._left is None else self._left + (now - self._seen) * rate
        self._seen, self._left = now, min(float(allowed), left)
        if self._left < 1:
            raise Problem(
                429,
                f"this token may send {allowed} requests per minute",
                code="rate_limit_exceeded",
                retry_after=(1 - self._left) / rate,
            )
        self._left -= 1

    @contextmanager
    def calling(self, limits: Allowance, calls: int = 1) -> Iterator[None]:
        """Count calls to models while they wait or are under way.

        Raises `Problem` 429 where the token would have more of them than it may.
        """
        if self.calls + calls > limits.queued_calls:
            raise Problem(
                429,
                f"{self.calls} calls of this token wait already, and at most "
                f"{limits.queued_calls} may",
                code="queue_full",
                retry_after=BUSY_SECONDS,
            )
        self.calls += calls
        try:
            yield
        finally:
            self.calls -= calls

    @contextmanager
    def watching(self, limits: Allowance) -> Iterator[None]:
        """Count a request that watches a job for as long as it does.

        Raises `Problem` 429 where the token would have more of them than it may.
        """
        if self.watchers >= limits.watchers:
            raise Problem(
                429,
                f"{self.watchers} requests of this token watch or wait for jobs already, "
                "and no more may",
                code="too_many_watchers",
                retry_after=BUSY_SECONDS,
            )
        self.watchers += 1
        try:
            yield
        finally:
            self.watchers -= 1


class Meters:
    """The meters of all tokens, by name."""

    def __init__(self) -> None:
        self._meters: dict[str, Meter] = {}

    def of(self, name: str) -> Meter:
        """The meter of a token; names come from the settings, so there are only so many."""
        return self._meters.setdefault(name, Meter())
