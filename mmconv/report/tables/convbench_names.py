"""How ConvBench's quantities are named for readers: marked where they rise by themselves, typeset.

A mark stands on deltas of the whole conversation. A page also has hats and tildes, as the paper
sets them, for `S2_hat` and `S3_tilde`. Files for programs keep the names as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from mmconv.benchmarks.convbench.quantities import DELTAS
from mmconv.core.types import Table

MARK = "\N{DAGGER}"

RAISED = (
    f"{MARK} The references are part of the whole conversation that is judged, and raise it by "
    "themselves."
)
"""What the mark means."""

_OVERALL = "|".join(name for name, (start, _) in DELTAS.items() if start.startswith("S0"))
_RAISED = re.compile(rf"(?<![\w-])({_OVERALL})(?!\w)")

SIGNS = (
    ("_hat", "\N{COMBINING CIRCUMFLEX ACCENT}"),
    ("_tilde", "\N{COMBINING TILDE}"),
)

LEGEND = (
    "S1 to S3 are the turns and S0 is the whole conversation. A hat stands for perfect perception, "
    "a tilde for perfect perception and reasoning."
)
"""What a page says under a table of such names."""


def mark_name(name: str) -> str:
    """The name of a row with the mark behind such a delta."""
    return _RAISED.sub(rf"\1 {MARK}", name)


def mark_raised(table: Table) -> Table:
    """The table with marked rows and columns, and what the mark means."""
    marked = _renamed(table, mark_name)
    is_same = (marked.columns, [*marked.rows]) == (table.columns, [*table.rows])
    return replace(marked, notes=(*(() if is_same else (RAISED,)), *table.notes))


def typeset(text: str) -> str:
    """The quantities in a text as the paper sets them."""
    for plain, sign in SIGNS:
        text = re.sub(rf"S(\d){plain}", rf"S{sign}\1", text)
    return text


def typeset_name(name: str) -> str:
    """The name of a quantity or of a delta, marked if need be, whose minus is one of printers."""
    return typeset(mark_name(name)).replace(" - ", " \N{MINUS SIGN} ")


def typeset_table(table: Table) -> Table:
    """A table with the names of its rows and columns, and its notes, as the paper sets them."""
    notes = mark_raised(table).notes
    return replace(_renamed(table, typeset_name), notes=tuple(map(typeset, notes)))


def _renamed(table: Table, rename: Callable[[str], str]) -> Table:
    rows = {
        rename(name): {rename(column): cell for column, cell in row.items()}
        for name, row in table.rows.items()
    }
    return replace(table, columns=tuple(map(rename, table.columns)), rows=rows)
