"""When a model cannot answer at all, so that there is no use in asking it for the rest of a run.

What it rejects may lie with the call. Whether it does is not told by the words: an account that is
closed, and a row of pictures that a server does not take, have the same for each. So a model that
has answered before, and now rejects one call after the other, is asked again what it answered.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from mmconv.core.errors import FailureKind
from mmconv.core.plans import ResolvedCall
from mmconv.core.types import Failure, Outcome, Reply

MOST_FAILED = 20
"""Calls of a model that fail in a row, each after all of its attempts, before a run stops.

A model that has answered nothing yet may refuse some calls at once and be slow to answer others:
as many of its first calls must have come to an end, too, or `MOST_EARLY` have failed.
"""

MOST_EARLY = 10 * MOST_FAILED
"""As many failures leave no hope in an answer that is still under way."""

MOST_HOPELESS = 3
"""As many of those suffice that are `HOPELESS`, or `ABSENT` from a model that never answered."""

HOPELESS: frozenset[FailureKind] = frozenset({"authentication", "quota", "not_found"})
"""Failures that tell that no other call will be answered either."""

COUNTED: frozenset[FailureKind] = HOPELESS | {
    "forbidden",
    "timeout",
    "connection",
    "rate_limit",
    "server",
    "malformed",
}
"""Failures that may lie with the model; the others lie with what it was asked, and say nothing."""

UNSUITED: FailureKind = "rejected"
"""Counts as such until the model has answered once: before that its set-up may be wrong. Afterwards
what it is asked may be, and as many in a row are a reason to doubt the model."""

ABSENT: FailureKind = "connection"
"""Is hopeless, after all attempts, as long as the model has answered nothing: nobody is there."""


@dataclass(slots=True)
class _Streak:
    failed: int = 0
    hopeless: int = 0
    rejected: int = 0


class CircuitBreaker:
    """How many calls of each model have failed in a row; a model is any number that names it."""

    def __init__(self) -> None:
        self._breaker: defaultdict[int, _Streak] = defaultdict(_Streak)
        self._able: dict[int, ResolvedCall] = {}

    def note_cached(self, model: int, asked: ResolvedCall) -> None:
        """The store has a reply of the model: it was able to answer, whether or not it is now."""
        self._able.setdefault(model, asked)

    def note(
        self, model: int, asked: ResolvedCall, outcome: Outcome, *, first_under_way: bool = False
    ) -> int:
        """Count how a call of the model ended; how many failed in a row if those are too many.

        `first_under_way` says that one of the model's first `MOST_FAILED` calls has no end yet.
        """
        if isinstance(outcome, Reply):
            self._able[model] = asked
            self._breaker.pop(model, None)
        elif isinstance(outcome, Failure) and outcome.kind == UNSUITED and model in self._able:
            streak = self._breaker[model]
            streak.rejected += 1
            return streak.rejected if asked is self._able[model] else 0
        elif isinstance(outcome, Failure) and outcome.kind in COUNTED | {UNSUITED}:
            streak = self._breaker[model]
            streak.failed += 1
            streak.hopeless += self._is_hopeless(model, outcome)
            is_early = first_under_way and model not in self._able
            most = MOST_EARLY if is_early else MOST_FAILED
            if streak.failed >= most or streak.hopeless >= MOST_HOPELESS:
                return streak.failed
        return 0

    def doubt(self, model: int, failure: Failure) -> ResolvedCall | None:
        """What to ask the model again, and to note, after a failure that was noted just now.

        That is what it answered before, each time when it has rejected `MOST_FAILED` more calls
        and answered none. If it rejects that too, the calls are not what is wrong.
        """
        rejected = self._breaker[model].rejected if failure.kind == UNSUITED else 0
        return self._able[model] if rejected and rejected % MOST_FAILED == 0 else None

    def _is_hopeless(self, model: int, failure: Failure) -> bool:
        return failure.kind in HOPELESS or (failure.kind == ABSENT and model not in self._able)
