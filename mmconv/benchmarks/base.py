"""A benchmark over one file of records: everything but its prompts and what they mean.

A subclass names its fields and says which calls a sample needs (`plan`) and how replies are read
(`score`); the class itself is then what builds the benchmark. Data of several files, pictures,
options and official aggregations need a package of their own, such as `convbench`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict

from mmconv.benchmarks.records import Record, Unreadable, read_records, scan_records, text
from mmconv.config import RunSpec, validate
from mmconv.errors import ConfigError, DataError
from mmconv.keys import hash_file
from mmconv.protocols import ImageSink
from mmconv.values import Call, Outcome, Score, Table

Fields: TypeAlias = Mapping[str, str]
"""A sample: the declared fields of its record, as text."""

Calls: TypeAlias = Mapping[str, Call]
Outcomes: TypeAlias = Mapping[str, Outcome]
Scores: TypeAlias = Iterable[Score]

ID = "id"


class FileOptions(BaseModel):
    """The one option: `data`, a file of records (.jsonl, .json, .csv, .xlsx)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: Path


class FileBenchmark(ABC):
    """See `mmconv.protocols.Benchmark`. Every record has an `id` and the `fields`, none empty.

    Raises `ConfigError` for a wrong option or a seat without a model, `DataError` for bad records.
    """

    name: str
    fields: tuple[str, ...]
    conditions: tuple[str, ...] = ("free",)
    notes: tuple[str, ...] = ()

    def __init__(self, spec: RunSpec, images: ImageSink) -> None:
        self._data = validate(FileOptions, spec.options, f"options of {self.name}").data
        self.size = self._check()
        self._check_seats(spec)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The hash of the data file."""
        return {"data": {self._data.name: hash_file(self._data)}}

    def load(self) -> Iterator[Fields]:
        """Stream the records' fields."""
        return (self._fields(record) for record in read_records(self._data))

    def key(self, sample: Fields) -> str:
        """The record's id."""
        return sample[ID]

    def about(self, sample: Fields) -> Mapping[str, str]:
        """All fields of the record but its id."""
        return {name: sample[name] for name in self.fields}

    @abstractmethod
    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        """All calls for the sample under the condition."""

    @abstractmethod
    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        """Read the outcomes as scores; what cannot be scored says why."""

    def tables(self, scores: Scores) -> Sequence[Table]:
        """The mean of every metric under every condition, with its interval."""
        # numpy comes with them, and only the end of a run needs it
        from mmconv.stats import ScoreFrame, as_cell, summarise

        frame = ScoreFrame(scores)
        rows = {
            metric: {
                condition: as_cell(summarise(frame.select(metric=metric, condition=condition)))
                for condition in self.conditions
            }
            for metric in frame.distinct("metric")
        }
        return [Table(name=self.name, title=self.name, columns=self.conditions, rows=rows)]

    def _check(self) -> int:
        """Read all records and count them; what is wrong is told in one message."""
        problems: list[str] = []
        first: dict[str, str] = {}
        for record in scan_records(self._data):
            if isinstance(record, Unreadable):
                problems.append(f"{record.where}: {record.fault}")
                continue
            try:
                key = self._fields(record)[ID]
            except DataError as error:
                problems += [f"{error.where}: {problem}" for problem in error.problems]
                continue
            if key in first:
                problems.append(f"{record.where}: id {key!r} is that of {first[key]}")
            first.setdefault(key, record.where)
        if problems or not first:
            needed = ", ".join((ID, *self.fields))
            problems = problems or ["holds no record"]
            raise DataError(str(self._data), problems, f"Every record needs {needed}.")
        return len(first)

    def _fields(self, record: Record) -> Fields:
        texts = {name: text(record, name) for name in (ID, *self.fields)}
        given = {name: value for name, value in texts.items() if value is not None}
        if missing := [f"no {name}" for name in texts if name not in given]:
            raise DataError(record.where, missing)
        return given

    def _check_seats(self, spec: RunSpec) -> None:
        sample = next(self.load())
        for condition in self.conditions:
            for call in self.plan(sample, condition):
                if call.seat not in spec.seats:
                    raise ConfigError(f"{self.name} needs a model: name a {call.seat}")
