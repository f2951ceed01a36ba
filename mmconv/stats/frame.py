"""Scores in columns, to be read by metric, condition, turn and tags.

A frame reads what `mmconv.core.score_rows` has gathered. It neither aggregates, as
`mmconv.stats.estimates` does, nor stores.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from mmconv.core.score_rows import ABSENT, CLUSTER, PLAIN, ScoreRows
from mmconv.core.types import Score
from mmconv.stats.column import Column

_Wanted: TypeAlias = frozenset[tuple[str, tuple[str, ...]]]
"""The fields and tags that are asked for, each with the texts to match."""

_Text = TypeVar("_Text", str, str | None)

_Made = TypeVar("_Made")

_Codes: TypeAlias = NDArray[np.int32]
"""A number for each score's text, or `ABSENT`."""


class ScoreFrame:
    """A table of scores in their order, read in `Column`s, or score by score as often as wanted.

    The tag `cluster` says which scores are not independent of each other; without it those of one
    sample are not. Rows that a frame was made of are its memory: they come into their order, and
    can grow no more. Raises `ValueError` for scores that `ScoreRows.append` refuses.

    `people` are the scores that people gave some of the same answers; None without any. `judges`
    are those that each of several judges gave, whose means the frame has.
    """

    people: ScoreFrame | None = None
    judges: Mapping[str, ScoreFrame] = MappingProxyType({})

    def __init__(self, scores: Iterable[Score] | ScoreRows = ()) -> None:
        rows = scores if isinstance(scores, ScoreRows) else ScoreRows.of(scores)
        self._texts = tuple(rows.codes)
        self._codes = rows.codes
        self._values: NDArray[np.float64] = np.asarray(rows.values)
        self._turns: NDArray[np.int64] = np.asarray(rows.turns)
        self._tags: _Codes = np.asarray(rows.tags)
        self._tag_names = tuple(rows.tag_names)
        self._fields: dict[str, _Codes] = {
            name: np.asarray(codes) for name, codes in rows.columns.items()
        }
        _put_in_order(
            np.asarray(rows.orders), self._values, self._turns, self._tags, *self._fields.values()
        )
        self._clusters = self._fields["sample"]
        if (named := self._fields.get(CLUSTER)) is not None:
            self._clusters = np.where(named == ABSENT, self._clusters, named)
        self._selected: dict[tuple[int | None, tuple[str, ...], _Wanted], Column] = {}
        self._shared: dict[Any, Any] = {}
        self._made: dict[Any, Any] = {}

    @classmethod
    def of(cls, scores: Iterable[Score]) -> ScoreFrame:
        """A frame of these scores, which may be one already."""
        return scores if isinstance(scores, cls) else cls(scores)

    def only(self, *, turn: int | None = None, **where: str | Collection[str]) -> ScoreFrame:
        """The frame of those scores that match, as `select` matches them."""
        rows = self._matching(turn, _wanted(where))
        part = copy(self)
        part._values, part._turns = self._values[rows], self._turns[rows]
        part._tags = self._tags[rows]
        part._fields = {name: codes[rows] for name, codes in self._fields.items()}
        part._clusters = self._clusters[rows]
        part._selected, part._made = {}, {}
        part.people = self.people and self.people.only(turn=turn, **where)
        return part

    def split(self, tag: str) -> dict[str, ScoreFrame]:
        """The scores with each value of a tag."""
        return {text: self.only(turn=None, **{tag: text}) for text in self.distinct(tag)}

    def once(self, make: Callable[[ScoreFrame], _Made]) -> _Made:
        """What `make` makes of this frame: made at the first time, and kept.

        Equal makers share one result, so `make` must be hashable.
        """
        if make not in self._made:
            self._made[make] = make(self)
        made: _Made = self._made[make]
        return made

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Score]:
        for row, value in enumerate(self._values.tolist()):
            names = self._tag_names[self._tags[row]]
            plain = [name for name in PLAIN if self._fields[name][row] != ABSENT]
            turn = int(self._turns[row])
            yield Score(
                tags={name: self._texts[self._fields[name][row]] for name in names},
                turn=None if turn == ABSENT else turn,
                value=None if value != value else value,
                **{name: self._texts[self._fields[name][row]] for name in plain},
            )

    def select(
        self,
        apart: tuple[str, ...] = (),
        /,
        *,
        turn: int | None = None,
        **where: str | Collection[str],
    ) -> Column:
        """The scores that match everything asked for, one row each, in their order.

        `where` names metric, condition, sample, cluster or tags, each with the text or the texts
        to match; a score without the tag does not match. `turn` None takes all turns. Scores that
        differ in `apart` (`turn` or tags) are samples of their own, in one cluster. What was asked
        for before is the same column again.
        """
        wanted = turn, apart, _wanted(where)
        if wanted not in self._selected:
            self._selected[wanted] = self._select(*wanted)
        return self._selected[wanted]

    def distinct(self, name: str) -> tuple[str, ...]:
        """The texts of a field or tag, in order of first appearance; none for an unknown tag."""
        codes = self._coded(name)
        if codes is None:
            return ()
        found, firsts = np.unique(codes, return_index=True)
        ordered = found[np.argsort(firsts)].tolist()
        return tuple(self._texts[code] for code in ordered if code != ABSENT)

    def clusters(self) -> dict[str, str]:
        """Sample -> the cluster of its first score."""
        samples, firsts = np.unique(self._fields["sample"], return_index=True)
        order = np.argsort(firsts)
        clusters = self._clusters[firsts]
        return {
            self._texts[sample]: self._texts[cluster]
            for sample, cluster in zip(
                samples[order].tolist(), clusters[order].tolist(), strict=True
            )
        }

    def turns(self) -> tuple[int, ...]:
        """The turns that scores have, ascending; 0 stands for whole conversations."""
        return tuple(turn for turn in np.unique(self._turns).tolist() if turn != ABSENT)

    def _select(self, turn: int | None, apart: tuple[str, ...], wanted: _Wanted) -> Column:
        places = np.flatnonzero(self._matching(turn, wanted))
        whys = self._fields["why"][places].tolist()
        samples = self._named(self._fields["sample"][places])
        for name in apart:
            marks = self._marks(name, places)
            samples = tuple(
                f"{each}, {name} {mark}" for each, mark in zip(samples, marks, strict=True)
            )
        return Column(
            samples=samples,
            clusters=self._named(self._clusters[places]),
            numbers=self._values[places],
            reasons=self._once(None if code == ABSENT else self._texts[code] for code in whys),
        )

    def _marks(self, name: str, places: NDArray[np.intp]) -> list[str]:
        """The turns of these scores, or their texts of a tag; "" without one."""
        if name == "turn":
            return [*map(str, self._turns[places].tolist())]
        codes = self._coded(name)
        found = [ABSENT] * len(places) if codes is None else codes[places].tolist()
        return ["" if code == ABSENT else self._texts[code] for code in found]

    def _matching(self, turn: int | None, wanted: _Wanted) -> NDArray[np.bool_]:
        rows = np.ones(len(self), dtype=np.bool_)
        if turn is not None:
            rows &= self._turns == turn
        for name, texts in wanted:
            rows &= self._matches(name, texts)
        return rows

    def _matches(self, name: str, texts: tuple[str, ...]) -> NDArray[np.bool_]:
        values = self._coded(name)
        if values is None:
            return np.zeros(len(self), dtype=np.bool_)
        codes = [self._codes[text] for text in texts if text in self._codes]
        # a comparison takes a tenth of the time, and nearly all that is asked for is one text
        return values == codes[0] if len(codes) == 1 else np.isin(values, codes)

    def _coded(self, name: str) -> _Codes | None:
        """The number of each score's text; None where no score has the tag."""
        return self._clusters if name == CLUSTER else self._fields.get(name)

    def _named(self, codes: _Codes) -> tuple[str, ...]:
        return self._once(map(self._texts.__getitem__, codes.tolist()))

    def _once(self, texts: Iterable[_Text]) -> tuple[_Text, ...]:
        """A tuple of these texts, which is one and the same for all columns that hold just them."""
        held = tuple(texts)
        shared: tuple[_Text, ...] = self._shared.setdefault(held, held)
        return shared


def _wanted(where: Mapping[str, str | Collection[str]]) -> _Wanted:
    return frozenset(
        (name, (texts,) if isinstance(texts, str) else tuple(texts))
        for name, texts in where.items()
    )


def _put_in_order(orders: NDArray[np.int64], *columns: NDArray[Any]) -> None:
    """Sort the rows in place, orders too: no more than one column is copied at a time."""
    if (orders[1:] < orders[:-1]).any():
        places = np.argsort(orders, kind="stable")
        for column in (orders, *columns):
            column[:] = column[places]
