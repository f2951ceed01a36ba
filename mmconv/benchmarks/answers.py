"""How a candidate's answers ended: whether they were cut off, and how long they are.

Every benchmark scores this beside its judgements, so that a bad score can be told from a short
budget. No judgement is read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmconv.values import Cell, Outcome, Reply

if TYPE_CHECKING:
    from mmconv.stats import Column

TRUNCATED = "truncated"
TOKENS = "tokens"
METRICS = (TRUNCATED, TOKENS)
"""`truncated` is 0 or 1; `tokens` counts what was generated."""

COLUMNS = ("cut off (%)", "tokens")


def ending(metric: str, outcome: Outcome) -> tuple[float | None, str | None]:
    """One of the two metrics of an answer, or None and why there is none."""
    if not isinstance(outcome, Reply):
        return None, outcome.why
    if metric == TRUNCATED:
        return float(outcome.finish == "length"), None
    if outcome.output_tokens is None:
        return None, "not told by the server"
    return float(outcome.output_tokens), None


def ending_cells(truncated: Column, tokens: Column) -> dict[str, Cell]:
    """The cells of a table's row under `COLUMNS`."""
    # numpy comes with them, and only the end of a run needs it
    from mmconv.stats import as_cell, bounded, summarise, summarise_share

    return {
        COLUMNS[0]: as_cell(summarise_share(truncated), 100.0),
        COLUMNS[1]: as_cell(bounded(summarise(tokens), lowest=0.0)),
    }
