"""The records that a run takes in: all are checked before anything is paid for, then they stream.

A file is read twice, and both times a benchmark says what it finds of each record (`find_samples`).
`Intake.take` is the first pass, `Intake.stream` the second. What makes a record bad, and what a
sample is, is the benchmark's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

from mmconv.benchmarks.choosing import EVERYTHING, Choice, KeyOf, key_or_place
from mmconv.benchmarks.data_files.bad_records import bad_records_note, refusal
from mmconv.benchmarks.data_files.records import Record, Unreadable
from mmconv.core.errors import DataError

Sample = TypeVar("Sample")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[Sample]):
    """What was found of a record: its place, its sample, and all that is wrong with it.

    There may be no sample where anything is wrong. `key` is the sample's, or the record's place.
    """

    place: str
    key: str = ""
    sample: Sample | None = None
    faults: tuple[str, ...] = ()


def find_samples(
    records: Iterable[Record | Unreadable],
    choice: Choice,
    key_of: KeyOf,
    read: Callable[[Record], Found[Sample]],
    *,
    key_field: str,
) -> Iterator[Found[Sample]]:
    """What `read` finds of each record of the choice.

    A key, which stands in `key_field`, is an earlier record's: that is a fault too.
    """
    first: dict[str, str] = {}
    for record in choice.among(records, key_of):
        if isinstance(record, Unreadable):
            yield Found(place=record.where, key=record.where, faults=(record.fault,))
            continue
        found, key = read(record), key_or_place(record, key_of)
        faults = found.faults
        if (earlier := first.setdefault(key, record.where)) != record.where:
            faults = (*faults, f"{key_field} is that of {earlier}")
        yield replace(found, key=key, faults=faults)


@dataclass(slots=True, kw_only=True)
class Intake:
    """Counts the records that a run takes in, one after another, and keeps what is wrong with them.

    Where the choice is of the first ones, they are, with `skip_bad`, the first good ones. Records
    after them are `beyond`, and nothing else is said of them. Of a run that has chosen before, the
    last one is that of its samples which comes last.
    """

    choice: Choice = EVERYTHING
    skip_bad: bool = False
    good: int = 0
    beyond: int = 0
    bad: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _to_come: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self._to_come = set(self.choice.earlier or ())

    @property
    def is_full(self) -> bool:
        """Whether no further record is wanted."""
        if self.choice.earlier is not None:
            return self.choice.limit is not None and not self._to_come
        taken = self.good if self.skip_bad else self.good + len(self.bad)
        return self.choice.limit is not None and taken >= self.choice.limit

    @property
    def is_part(self) -> bool:
        """Whether there are samples that the run does not take."""
        return bool(self.beyond or self.choice.passed_over)

    def add(self, found: Found[Any], more_faults: tuple[str, ...] = ()) -> bool:
        """Take in the next record; returns whether it is wanted and nothing is wrong with it."""
        if self.is_full:
            self.beyond += 1
            return False
        self._to_come.discard(found.key)
        faults, chosen = (*found.faults, *more_faults), self._is_chosen(found)
        if faults and (chosen or self.skip_bad):
            self.bad[found.place] = faults
        if faults or not chosen:
            return False
        self.good += 1
        return True

    def _is_chosen(self, found: Found[Any]) -> bool:
        return self.choice.earlier is None or found.key in self.choice.earlier

    def take(self, found: Iterable[Found[Sample]]) -> Iterator[Sample]:
        """Take in all records; yields the samples of those that are wanted and good."""
        for each in found:
            if self.add(each) and each.sample is not None:
                yield each.sample

    def check(self, where: str | Path, advice: str = "") -> None:
        """Raise `DataError` that tells all bad records, with `skip_bad` only if none is good."""
        if not self.good or (self.bad and not self.skip_bad):
            more = bool(self.beyond and self.bad)
            raise refusal(where, self.bad, self.good, advice, more=more)

    def stream(self, found: Iterable[Found[Sample]]) -> Iterator[Sample]:
        """The samples that were good and wanted when they were taken in.

        Raises `DataError` for one that has gone bad since.
        """
        good = (each for each in found if each.place not in self.bad and self._is_chosen(each))
        for each in islice(good, self.choice.limit):
            if each.sample is None or each.faults:
                advice = "The file has changed: start the run again."
                raise DataError(each.place, each.faults, advice)
            yield each.sample

    def notes(self) -> Iterator[str]:
        """Lines for all tables: which samples the run takes, and which records it leaves out."""
        if self.bad and self.beyond:
            # how many of those beyond are good, nobody looked
            yield (
                f"The first {self.good} good samples of the data (--limit); the {self.beyond} "
                "records after them were not looked at."
            )
        else:
            yield from self.choice.note(self.good + self.beyond)
        yield from bad_records_note(self.bad, self.good, beyond=self.beyond)
