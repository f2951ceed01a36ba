"""Which of a benchmark's samples a run takes: all, the first, some drawn at random, named ones.

The first ones (`limit`) are counted as samples are read. For the others the keys of all records are
read beforehand, and whatever is not chosen is neither checked nor counted. What is drawn depends on
the seed and the keys alone: not on the order of the data, the machine or the models.

A run that is scored or shown again takes the samples that it chose when it was started, whatever
its data would give today (`RunSpec.chosen`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import TypeAlias

from mmconv.benchmarks.data_files.bad_records import name_few
from mmconv.benchmarks.data_files.records import Record, Unreadable
from mmconv.core.config import RunSpec
from mmconv.core.documents import nearest
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.keys import hash_json

KeyOf: TypeAlias = Callable[[Record], str | None]
"""Reads the key that a record's sample has; None, or a `DataError`, where it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The samples that a run takes; all of them where nothing is set.

    `limit` is how many are wanted: the first ones. `keys` are those of drawn or named samples, of
    the `records` that there are; the two never go together. `seed` is what they were drawn by.
    `earlier` are the keys that a run chose when it was started, as far as the data still have them:
    no other sample is taken then.
    """

    limit: int | None = None
    keys: frozenset[str] | None = None
    records: int = 0
    seed: int | None = None
    earlier: frozenset[str] | None = None

    @property
    def passed_over(self) -> int:
        """How many records were neither drawn nor named."""
        return 0 if self.keys is None else self.records - len(self.keys)

    def takes(self, record: Record | Unreadable, key_of: KeyOf) -> bool:
        """Whether the record is wanted, as far as that does not depend on those before it."""
        return self.keys is None or key_or_place(record, key_of) in self.keys

    def note(self, samples: int) -> Iterator[str]:
        """A line for all tables where a run takes a part; `samples` is how many it may take."""
        if self.keys is None:
            if self.limit is not None and self.limit < samples:
                first = "first" if self.limit == 1 else f"first {self.limit}"
                yield f"The {first} of {samples} samples of the data (--limit)."
        elif self.passed_over:
            drawn = f"drawn at random (--shuffle {self.seed})"
            how = "named (--samples)" if self.seed is None else drawn
            yield f"{len(self.keys)} of {self.records} samples, {how}."


def choose(spec: RunSpec, keys: Iterable[str]) -> Choice:
    """What a run chooses of the samples of these keys, which are read only where that needs them.

    Raises `ConfigError` that names the keys which no record has.
    """
    if spec.chosen is None:
        return _choose_new(spec, keys)
    known = dict.fromkeys(keys)
    earlier = frozenset(key for key in spec.chosen if key in known)
    named = None if spec.samples is None else tuple(key for key in spec.samples if key in known)
    choice = _choose_new(spec.model_copy(update={"samples": named}), known)
    if not earlier:  # a benchmark of a user's own may have other keys: `Evaluation` looks at those
        return choice
    if choice.keys is None:
        return replace(choice, earlier=earlier)
    # what was bad is drawn again, and fills up their number; other data may draw others
    bad = sorted(choice.keys - earlier)[: len(choice.keys) - len(earlier)]
    return replace(choice, keys=earlier.union(bad), earlier=earlier)


def _choose_new(spec: RunSpec, keys: Iterable[str]) -> Choice:
    if spec.samples is None and spec.shuffle is None:
        return Choice(limit=spec.limit)
    known = dict.fromkeys(keys)
    if spec.samples is None:
        drawn = nsmallest(spec.limit or 0, known, key=lambda key: hash_json([spec.shuffle, key]))
        return Choice(keys=frozenset(drawn), records=len(known), seed=spec.shuffle)
    if unknown := [key for key in spec.samples if key not in known]:
        like = (
            nearest(unknown[0], list(known)) or f"; the first of the data has {next(iter(known))}"
        )
        raise ConfigError(f"samples: no sample has the key {name_few(unknown)}{like}")
    return Choice(keys=frozenset(spec.samples), records=len(known))


def key_or_place(record: Record | Unreadable, key_of: KeyOf) -> str:
    """The key of a record's sample, or where it stands if it has none."""
    if isinstance(record, Unreadable):
        return record.where
    try:
        return key_of(record) or record.where
    except DataError:
        return record.where
