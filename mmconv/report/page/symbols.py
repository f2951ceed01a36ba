"""ConvBench's quantities as the paper sets them: hats and tildes for `S2_hat` and `S3_tilde`."""

from __future__ import annotations

import re
from dataclasses import replace

from mmconv.report.raised import mark_name, mark_raised
from mmconv.values import Table

SIGNS = (
    ("_hat", "\N{COMBINING CIRCUMFLEX ACCENT}"),
    ("_tilde", "\N{COMBINING TILDE}"),
)

LEGEND = (
    "S1 to S3 are the turns and S0 is the whole conversation. A hat stands for perfect perception, "
    "a tilde for perfect perception and reasoning."
)
"""What a page says under a table of such names."""


def typeset(text: str) -> str:
    """The quantities in a text as the paper sets them."""
    for plain, sign in SIGNS:
        text = re.sub(rf"S(\d){plain}", rf"S{sign}\1", text)
    return text


def typeset_name(name: str) -> str:
    """The name of a quantity or of a delta, marked if need be, whose minus is one of printers."""
    return typeset(mark_name(name)).replace(" - ", " \N{MINUS SIGN} ")


def typeset_table(table: Table) -> Table:
    """A table with its rows' names and notes as the paper sets them."""
    marked = mark_raised(table)
    rows = {typeset_name(name): row for name, row in table.rows.items()}
    return replace(marked, rows=rows, notes=tuple(map(typeset, marked.notes)))
