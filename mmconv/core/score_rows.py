"""Scores in rows of numbers, without an object for each: what is held of them while a run goes on.

Texts are kept once and referred to by number, so a score costs some tens of bytes. Rows grow here;
`mmconv.stats.ScoreFrame` reads them, and only that needs numpy.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable

from mmconv.core.types import Score

ABSENT = -1
"""Stands for a field that a score does not have: a tag, a turn, a reason."""

PLAIN = ("sample", "condition", "metric", "why")
"""The fields of every score that hold a text; all others are tags."""

CLUSTER = "cluster"
"""The tag of scores that are not independent of each other."""

RESERVED = frozenset({*PLAIN, "turn"})
"""The names that a tag cannot have."""


class ScoreRows:
    """A growing table of scores: a number for each text, a column of numbers for each field.

    `codes` has the number of each text, counted up, `columns` a number per row for each field and
    tag; `values` are NaN where there is none. `tag_names` has a number for each tuple of tags, in a
    score's order, `tags` that of each row. `orders` are what rows are read in the order of.
    """

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.orders = array("q")
        self.values = array("d")
        self.turns = array("q")
        self.columns: dict[str, array[int]] = {name: array("i") for name in PLAIN}
        self.tags = array("i")
        self.tag_names: dict[tuple[str, ...], int] = {}

    @classmethod
    def of(cls, scores: Iterable[Score]) -> ScoreRows:
        """These scores in their order; raises as `append` does."""
        rows = cls()
        for score in scores:
            rows.append(score)
        return rows

    def __len__(self) -> int:
        return len(self.values)

    def append(self, score: Score, order: int = 0) -> None:
        """Add a score; `ValueError` for an infinite value or a tag named like a field."""
        if score.value is not None and not math.isfinite(score.value):
            raise ValueError(f"sample {score.sample!r}: a score of {score.metric!r} is infinite")
        if clash := RESERVED & score.tags.keys():
            raise ValueError(f"tags cannot be named {sorted(clash)}: scores have such fields")
        texts = {"sample": score.sample, "condition": score.condition, "metric": score.metric}
        if score.why is not None:
            texts["why"] = score.why
        texts |= score.tags
        row = {name: self.codes.setdefault(text, len(self.codes)) for name, text in texts.items()}
        for name in row:
            if name not in self.columns:
                self.columns[name] = array("i", [ABSENT]) * len(self)
        for name, codes in self.columns.items():
            codes.append(row.get(name, ABSENT))
        self.tags.append(self.tag_names.setdefault(tuple(score.tags), len(self.tag_names)))
        self.orders.append(order)
        self.values.append(math.nan if score.value is None else score.value)
        self.turns.append(ABSENT if score.turn is None else score.turn)
