"""How a candidate's answer ended, as numbers: whether it was cut off, and how long it is.

No judgement is read here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mmconv.values import Failure, Outcome, Reply

TRUNCATED = "truncated"
TOKENS = "tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A number by the name of its metric, or None and why there is none."""

    metric: str
    value: float | None
    why: str | None


def measure_answer(outcome: Outcome) -> Iterator[Measure]:
    """`truncated` (0 or 1) and `tokens` of an answer."""
    if not isinstance(outcome, Reply):
        why = (
            f"failed: {outcome.kind}"
            if isinstance(outcome, Failure)
            else f"skipped: {outcome.because}"
        )
        yield from (Measure(metric=metric, value=None, why=why) for metric in (TRUNCATED, TOKENS))
        return
    yield Measure(metric=TRUNCATED, value=float(outcome.finish == "length"), why=None)
    if outcome.output_tokens is None:
        yield Measure(metric=TOKENS, value=None, why="not told by the server")
    else:
        yield Measure(metric=TOKENS, value=float(outcome.output_tokens), why=None)
