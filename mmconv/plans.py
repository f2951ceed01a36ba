"""Plans: what a run is made of, and what it leaves behind, call by call.

The runner takes plans in and hands finished ones out; the report writes them down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mmconv.values import Call, Message, Outcome, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All calls for one sample under one condition; `order` numbers the plans of a run."""

    order: int
    sample: str
    condition: str
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One call as it is sent: resolved messages, effective sampling, content key.

    A `stored` one was not asked for itself: its reply was there, or an equal call brought it.
    """

    call: Call
    key: str
    messages: tuple[Message, ...]
    sampling: Sampling
    stored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A plan whose calls all have outcomes, and how those that were resolved were asked."""

    plan: Plan
    outcomes: Mapping[str, Outcome]
    asked: Mapping[str, Asked]
