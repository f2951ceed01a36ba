"""Scores in rows of numbers, without an object for each: what is held of them while a run goes on.

Texts are kept once and referred to by number, so a score costs some tens of bytes. Rows grow here;
`mmconv.stats.ScoreFrame` reads them, and only that needs numpy.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping

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

    `texts` has the text of each number, `codes` the number of each text, `columns` a number per row
    for each field and tag; `values` are NaN where there is none. `tag_names` has the names of a
    score's tags in their order, `tags` which of those a row has. `orders` are what rows are read in
    the order of.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.codes: dict[str, int] = {}
        self.orders = array("q")
        self.values = array("d")
        self.turns = array("q")
        self.columns: dict[str, array[int]] = {name: array("i") for name in PLAIN}
        self.tags = array("i")
        self.tag_names: list[tuple[str, ...]] = []
        self._tag_codes: dict[tuple[str, ...], int] = {}

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
        row: Mapping[str, str | None] = {
            **score.tags,
            "sample": score.sample,
            "condition": score.condition,
            "metric": score.metric,
            "why": score.why,
        }
        for name in row:
            if name not in self.columns:
                self.columns[name] = array("i", [ABSENT]) * len(self)
        for name, codes in self.columns.items():
            codes.append(self.code(row.get(name)))
        names = tuple(score.tags)
        code = self._tag_codes.setdefault(names, len(self.tag_names))
        if code == len(self.tag_names):
            self.tag_names.append(names)
        self.tags.append(code)
        self.orders.append(order)
        self.values.append(math.nan if score.value is None else score.value)
        self.turns.append(ABSENT if score.turn is None else score.turn)

    def code(self, text: str | None) -> int:
        """The number of a text, which gets one if it has none."""
        if text is None:
            return ABSENT
        code = self.codes.get(text)
        if code is None:
            code = self.codes[text] = len(self.texts)
            self.texts.append(text)
        return code
