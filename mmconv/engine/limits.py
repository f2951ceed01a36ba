"""What a server allows: learned from its refusals, or read from its headers.

A refusal does not say which limit a call has met. But a limit of `n` calls a second is one of
`n` times their latency at once (Little's law), so one number describes both: the window.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mmconv.core.protocols import ServerLimit

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
    is_doubling: bool = False
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
