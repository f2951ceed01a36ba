"""Limits as servers have them: calls at once, calls and tokens a second, blocks.

`LimitedServer` decides which requests are refused. It reads no clock, so the mock server uses it in
real time and tests on the virtual clock in simulated time.
"""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a server allows; all times in seconds, and None or nothing for no limit.

    - `caps`: (time since the first request, calls at once from then on);
    - `rate` calls a second, and at most `burst` at once after a pause; `tokens` a second likewise;
    - `block`: a call above the rate or cap closes the server for as long, and a call to the closed
      server closes it for as long again;
    - `chance`: the share of calls that is refused whatever the load;
    - `retry_after`: sent with every refusal; `headers`: replies say how much of `rate` and `tokens`
      is left.
    """

    caps: tuple[tuple[float, int], ...] = ()
    rate: float | None = None
    burst: float = 1.0
    tokens: float | None = None
    token_burst: float = 0.0
    block: float = 0.0
    retry_after: float | None = None
    headers: bool = False
    chance: float = 0.0

    def ideal(self, calls: int, latency: float, tokens: float = 0.0) -> float:
        """The shortest time in which so many calls of together so many tokens are answered."""
        seconds = latency
        if self.rate is not None:
            seconds = max(seconds, (calls - self.burst) / self.rate)
        if self.tokens is not None:
            seconds = max(seconds, (tokens - self.token_burst) / self.tokens)
        if self.caps:
            seconds = max(seconds, self._ideal_under_caps(calls, latency))
        return seconds

    def _ideal_under_caps(self, calls: float, latency: float) -> float:
        ends = [begin for begin, _ in self.caps[1:]]
        for (begin, cap), end in zip(self.caps, ends, strict=False):
            if calls <= (end - begin) * cap / latency:
                break
            calls -= (end - begin) * cap / latency
        else:
            begin, cap = self.caps[-1]
        return begin + calls * latency / cap


@dataclass(slots=True)
class Bucket:
    """Holds at most `size` units and gains `rate` units a second."""

    rate: float
    size: float
    left: float
    at: float = 0.0

    def fill(self, now: float) -> None:
        self.left = min(self.size, self.left + (now - self.at) * self.rate)
        self.at = now

    def header(self, name: str) -> list[str]:
        """What OpenAI's servers say of a limit: the time is that until the bucket is full."""
        return [
            f"x-ratelimit-limit-{name}: {int(self.size)}",
            f"x-ratelimit-remaining-{name}: {int(max(0.0, self.left))}",
            f"x-ratelimit-reset-{name}: {1000 * (self.size - self.left) / self.rate:.0f}ms",
        ]


class LimitedServer:
    """Counts requests against its limits; `now` is the time in seconds since any moment."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.under_way = 0
        self.refused = 0
        self.tokens = 0.0
        self._begun: float | None = None
        self._blocked_until = 0.0
        self._calls: Bucket | None = None
        self._tokens: Bucket | None = None
        self._random = random.Random(7)

    def admit(self, now: float, tokens: float = 0.0) -> bool:
        """Whether a request is answered; it is then under way until `finish`."""
        limits = self.limits
        if self._begun is None:
            self._begun = now
            if limits.rate is not None:
                self._calls = Bucket(limits.rate, limits.burst, limits.burst, now)
            if limits.tokens is not None:
                self._tokens = Bucket(limits.tokens, limits.token_burst, limits.token_burst, now)
        if self._random.random() < limits.chance:
            self.refused += 1
            return False
        if now < self._blocked_until or not self._has_room(now, tokens):
            self.refused += 1
            self._blocked_until = now + limits.block
            return False
        if self._calls is not None:
            self._calls.left -= 1
        if self._tokens is not None:
            self._tokens.left -= tokens
        self.under_way += 1
        self.tokens += tokens
        return True

    def finish(self) -> None:
        """Count a request as answered."""
        self.under_way -= 1

    def headers(self, now: float) -> list[str]:
        """What a reply says of the limits, as lines of HTTP."""
        lines: list[str] = []
        for name, bucket in (("requests", self._calls), ("tokens", self._tokens)):
            if self.limits.headers and bucket is not None:
                bucket.fill(now)
                lines += bucket.header(name)
        return lines

    def _has_room(self, now: float, tokens: float) -> bool:
        assert self._begun is not None
        passed = [cap for begin, cap in self.limits.caps if now - self._begun >= begin]
        if passed and self.under_way >= passed[-1]:
            return False
        for bucket, cost in ((self._calls, 1.0), (self._tokens, tokens)):
            if bucket is not None:
                bucket.fill(now)
                if bucket.left < cost - 1e-9:
                    return False
        return True
