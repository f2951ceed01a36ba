"""What rescoring hands back: the tables that published judgements lead to.

Each text benchmark reads its authors' layout by itself, and puts what is in it through the parsers,
scores and tables of a live run.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmconv.values import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescored:
    """The tables of rescored judgements; what the files hide is among them, or in their notes."""

    tables: tuple[Table, ...]
