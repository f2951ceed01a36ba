"""The circuit breaker: decides when a model cannot answer at all, so that the run should stop.

A rejected request may be wrong itself. The error message does not show that: a closed account and a
series of images that a server does not accept get the same one. So after a series of rejections
mmconv replays a request that the model has answered before.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from mmconv.core.errors import FailureKind
from mmconv.core.plans import ResolvedCall
from mmconv.core.types import Failure, Outcome, Reply

MOST_FAILED = 20
"""Calls of a model that fail in a row, each after all of its attempts, before a run stops."""

MOST_EARLY = 10 * MOST_FAILED
"""The same for refusals before the first reply: a model may refuse at once and answer slowly."""

MOST_HOPELESS = 3
"""Failures in a row before a run stops if they are `HOPELESS`, or `ABSENT` without any reply."""

HOPELESS: frozenset[FailureKind] = frozenset({"authentication", "quota", "not_found"})
"""Kinds of failure that concern every call of the model."""

COUNTED: frozenset[FailureKind] = HOPELESS | {
    "forbidden",
    "timeout",
    "connection",
    "rate_limit",
    "server",
    "malformed",
}
"""Kinds of failure that may be the model's fault; the others are the request's."""

UNSUITED: FailureKind = "rejected"
"""Counts as the model's fault until it has answered once: its set-up may be wrong. Afterwards
only a replayed request shows whose fault it is."""

REFUSALS: frozenset[FailureKind] = frozenset({"forbidden", UNSUITED})
"""Kinds of failure that a server reports at once."""

ABSENT: FailureKind = "connection"
"""Counts as hopeless as long as the model has not answered once: its server is not there."""


@dataclass(slots=True)
class _Streak:
    failed: int = 0
    hopeless: int = 0
    rejected: int = 0


class CircuitBreaker:
    """Counts the failures in a row of each model; `model` is any number that identifies it."""

    def __init__(self) -> None:
        self._breaker: defaultdict[int, _Streak] = defaultdict(_Streak)
        self._able: dict[int, ResolvedCall] = {}

    def note_cached(self, model: int, resolved: ResolvedCall) -> None:
        """Note a cached reply: the model was able to answer this request once."""
        self._able.setdefault(model, resolved)

    def note(self, model: int, resolved: ResolvedCall, outcome: Outcome) -> int:
        """Count an outcome; returns the number of failures in a row if the run should stop."""
        if isinstance(outcome, Reply):
            self._able[model] = resolved
            self._breaker.pop(model, None)
        elif isinstance(outcome, Failure) and outcome.kind == UNSUITED and model in self._able:
            streak = self._breaker[model]
            streak.rejected += 1
            return streak.rejected if resolved is self._able[model] else 0
        elif isinstance(outcome, Failure) and outcome.kind in COUNTED | {UNSUITED}:
            streak = self._breaker[model]
            streak.failed += 1
            is_early = model not in self._able
            streak.hopeless += outcome.kind in HOPELESS or (is_early and outcome.kind == ABSENT)
            most = MOST_EARLY if is_early and outcome.kind in REFUSALS else MOST_FAILED
            if streak.failed >= most or streak.hopeless >= MOST_HOPELESS:
                return streak.failed
        return 0

    def doubt(self, model: int, failure: Failure) -> ResolvedCall | None:
        """The request to replay, and to note, after this failure; None if not needed.

        After every `MOST_FAILED` rejections in a row it is one that the model answered before. If
        the model rejects that too, the requests are not to blame.
        """
        rejected = self._breaker[model].rejected if failure.kind == UNSUITED else 0
        return self._able[model] if rejected and rejected % MOST_FAILED == 0 else None
