"""Scores in columns: a run's scores without an object for each.

Texts are kept once and referred to by number, so a score costs some tens of bytes. A frame grows
and is read; it neither aggregates (`mmconv.stats.estimates`) nor stores (`mmconv.store`).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from mmconv.stats.column import Column
from mmconv.values import Score

_ABSENT = -1
_FIELDS = ("sample", "cluster", "metric", "condition", "why")
_RESERVED = frozenset(_FIELDS) - {"cluster"} | {"turn"}


class ScoreFrame:
    """A growing table of scores, read in `Column`s.

    The tag `cluster` says which scores are not independent of each other; without it those of one
    sample are not.
    """

    def __init__(self, scores: Iterable[Score] = ()) -> None:
        self._texts: list[str] = []
        self._codes: dict[str, int] = {}
        self._values = array("d")
        self._turns = array("i")
        self._fields: dict[str, array[int]] = {name: array("i") for name in _FIELDS}
        for score in scores:
            self.append(score)

    def __len__(self) -> int:
        return len(self._values)

    def append(self, score: Score) -> None:
        """Add one score; raises `ValueError` for an infinite value or a tag named like a field."""
        if score.value is not None and not math.isfinite(score.value):
            raise ValueError(f"sample {score.sample!r}: a score of {score.metric!r} is infinite")
        if clash := _RESERVED & score.tags.keys():
            raise ValueError(f"tags cannot be named {sorted(clash)}: scores have such fields")
        row: dict[str, str | None] = {
            "cluster": score.sample,
            **score.tags,
            "sample": score.sample,
            "metric": score.metric,
            "condition": score.condition,
            "why": score.why,
        }
        for name in row.keys() - self._fields.keys():
            self._fields[name] = array("i", [_ABSENT]) * len(self)
        for name, codes in self._fields.items():
            codes.append(self._code(row.get(name)))
        self._values.append(math.nan if score.value is None else score.value)
        self._turns.append(_ABSENT if score.turn is None else score.turn)

    def select(self, *, turn: int | None = None, **where: str | Collection[str]) -> Column:
        """The scores that match everything asked for, one row each, in the order they came.

        `where` names metric, condition, sample, cluster or tags, each with the text or the texts
        to match; a score without the tag does not match. `turn` None takes all turns.
        """
        rows = np.ones(len(self), dtype=np.bool_)
        if turn is not None:
            rows &= np.asarray(self._turns) == turn
        for name, wanted in where.items():
            rows &= self._matches(name, wanted)
        places = np.flatnonzero(rows)
        return Column(
            samples=tuple(self._texts[code] for code in self._taken("sample", places)),
            clusters=tuple(self._texts[code] for code in self._taken("cluster", places)),
            numbers=np.asarray(self._values)[places],
            reasons=tuple(
                None if code == _ABSENT else self._texts[code]
                for code in self._taken("why", places)
            ),
        )

    def distinct(self, name: str) -> tuple[str, ...]:
        """The texts of a field or tag, in order of first appearance; none for an unknown tag."""
        codes = np.asarray(self._fields.get(name, array("i")))
        found, firsts = np.unique(codes, return_index=True)
        ordered = found[np.argsort(firsts)].tolist()
        return tuple(self._texts[code] for code in ordered if code != _ABSENT)

    def clusters(self) -> dict[str, str]:
        """Sample -> the cluster of its first score."""
        found: dict[str, str] = {}
        pairs = dict.fromkeys(zip(self._fields["sample"], self._fields["cluster"], strict=True))
        for sample, cluster in pairs:
            found.setdefault(self._texts[sample], self._texts[cluster])
        return found

    def turns(self) -> tuple[int, ...]:
        """The turns that scores have, ascending; 0 stands for whole conversations."""
        return tuple(sorted(set(self._turns) - {_ABSENT}))

    def _code(self, text: str | None) -> int:
        if text is None:
            return _ABSENT
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self._texts)
            self._texts.append(text)
        return code

    def _matches(self, name: str, wanted: str | Collection[str]) -> NDArray[np.bool_]:
        if name not in self._fields:
            return np.zeros(len(self), dtype=np.bool_)
        texts = (wanted,) if isinstance(wanted, str) else wanted
        codes = [self._codes[text] for text in texts if text in self._codes]
        values = np.asarray(self._fields[name])
        # a comparison takes a tenth of the time, and nearly all that is asked for is one text
        return values == codes[0] if len(codes) == 1 else np.isin(values, codes)

    def _taken(self, name: str, places: NDArray[np.intp]) -> list[int]:
        taken: list[int] = np.asarray(self._fields[name])[places].tolist()
        return taken
