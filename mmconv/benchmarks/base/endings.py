"""How a candidate's answers ended: whether they were cut off, filtered or empty, and how long.

Every benchmark scores this beside its judgements, since judges are asked about such answers too: a
bad score may come of a short budget, of a server's content filter, or of silence. No judgement is
read here.
"""

from __future__ import annotations

from collections.abc import Iterator

from mmconv.core.errors import FailureKind
from mmconv.core.types import Failure, Outcome, Reply

TRUNCATED = "truncated"
FILTERED = "filtered"
EMPTY = "empty"
TOKENS = "tokens"
METRICS = (TRUNCATED, FILTERED, EMPTY, TOKENS)
"""`truncated` (by `max_tokens`), `filtered` (held back or ended by a content filter) and `empty`
(nothing but blanks) are 0 or 1; `tokens` counts what was generated."""

HELD_BACK: FailureKind = "filter"
"""How an answer failed of which a filter left nothing: filtered it is, and the rest is missing."""

SHARES = {TRUNCATED: "cut off (%)", FILTERED: "filtered (%)", EMPTY: "empty (%)"}
"""The metrics that are 0 or 1, each with the column of its share."""


def how_ended(finish: str, text: str) -> dict[str, bool]:
    """Which of the metrics that are 0 or 1 are 1 for a reply."""
    return {
        TRUNCATED: finish == "length",
        FILTERED: finish == "filter",
        EMPTY: not text.strip(),
    }


def endings(outcome: Outcome) -> Iterator[tuple[str, float | None, str | None]]:
    """Each metric of an answer with its value, or with None and why there is none."""
    if not isinstance(outcome, Reply):
        is_filtered = isinstance(outcome, Failure) and outcome.kind == HELD_BACK
        for metric in METRICS:
            known = is_filtered and metric == FILTERED
            yield (metric, 1.0, None) if known else (metric, None, outcome.why)
        return
    for metric, is_so in how_ended(outcome.finish, outcome.text).items():
        yield metric, float(is_so), None
    tokens = outcome.output_tokens
    if tokens is None:
        yield TOKENS, None, "not reported by the server"
    else:
        yield TOKENS, float(tokens), None
