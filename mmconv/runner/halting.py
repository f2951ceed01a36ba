"""When a model cannot answer at all, so that there is no use in asking it for the rest of a run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from mmconv.errors import FailureKind
from mmconv.values import Failure, Outcome, Reply

MOST_FAILED = 20
"""Calls of a model that fail in a row, each after all of its attempts, before a run stops."""

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
"""Counts only until the model has answered once: before that its set-up may be wrong, afterwards
what it is asked is."""

ABSENT: FailureKind = "connection"
"""Is hopeless, after all attempts, as long as the model has answered nothing: nobody is there."""


@dataclass(slots=True)
class _Streak:
    failed: int = 0
    hopeless: int = 0


class Streaks:
    """How many calls of each model have failed in a row; a model is any number that names it."""

    def __init__(self) -> None:
        self._streaks: defaultdict[int, _Streak] = defaultdict(_Streak)
        self._able: set[int] = set()

    def note_stored(self, model: int) -> None:
        """The store has a reply of the model: it was able to answer, whether or not it is now."""
        self._able.add(model)

    def note(self, model: int, outcome: Outcome) -> int:
        """Count how a call of the model ended; how many failed in a row if those are too many."""
        if isinstance(outcome, Reply):
            self._able.add(model)
            self._streaks.pop(model, None)
        elif isinstance(outcome, Failure) and self._counts(model, outcome):
            streak = self._streaks[model]
            streak.failed += 1
            streak.hopeless += self._is_hopeless(model, outcome)
            if streak.failed >= MOST_FAILED or streak.hopeless >= MOST_HOPELESS:
                return streak.failed
        return 0

    def _is_hopeless(self, model: int, failure: Failure) -> bool:
        return failure.kind in HOPELESS or (failure.kind == ABSENT and model not in self._able)

    def _counts(self, model: int, failure: Failure) -> bool:
        return failure.kind in COUNTED or (failure.kind == UNSUITED and model not in self._able)
