"""A mark on ConvBench's deltas of the whole conversation, which rise by themselves.

It is for those who read tables; files for programs keep the names as they are.
"""

from __future__ import annotations

import re
from dataclasses import replace

from mmconv.benchmarks.convbench.quantities import DELTAS
from mmconv.values import Table

MARK = "\N{DAGGER}"

RAISED = (
    f"{MARK} The references are part of the whole conversation that is judged, and raise it by "
    "themselves."
)
"""What the mark means."""

_OVERALL = "|".join(name for name, (start, _) in DELTAS.items() if start.startswith("S0"))
_RAISED = re.compile(rf"(?<![\w-])({_OVERALL})(?!\w)")


def mark_name(name: str) -> str:
    """The name of a row with the mark behind such a delta."""
    return _RAISED.sub(rf"\1 {MARK}", name)


def mark_raised(table: Table) -> Table:
    """The table with marked rows, and what the mark means."""
    rows = {mark_name(name): row for name, row in table.rows.items()}
    marked = rows.keys() != table.rows.keys()
    return replace(table, rows=rows, notes=((RAISED,) if marked else ()) + tuple(table.notes))
