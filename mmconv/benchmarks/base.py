"""A benchmark over one file of records: everything but its prompts and what they mean.

A subclass names its fields and prompts, and says which calls a sample needs (`plan`) and how
replies are read (`score`); the class itself is then what builds the benchmark. Data of several
files, pictures, options and official aggregations need a package of their own, such as `convbench`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict

from judges import Prompt, PromptSet
from mmconv.benchmarks.bad_records import (
    BadRecords,
    bad_records_list,
    bad_records_note,
    bad_records_table,
    refusal,
)
from mmconv.benchmarks.describing import ANY_SEAT, Description, named_conditions
from mmconv.benchmarks.records import Record, Unreadable, read_records, scan_records, text
from mmconv.config import RunSpec, nearest, validate
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
    """Options under `options:` of a run file."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    data: Path
    """A file of records: .jsonl, .json, .csv or .xlsx."""
    sheet: str | None = None
    """One of a workbook's sheets, where several have the fields."""
    skip_bad_records: bool = False
    """Go on without incomplete or unreadable records; the report lists them."""


class FileBenchmark(ABC):
    """See `mmconv.protocols.Benchmark`. Every record has an `id` and the `fields`, none empty.

    Numbers in fields are taken as text. `prompts` are those that a user may replace (`--prompts`);
    `plan` gets at them by `prompt`. `scale` is the lowest and the highest value that a score can
    have; intervals of means end there.

    Raises `ConfigError` for a wrong option, a seat without a model or a model on a seat that no
    sample asks, `DataError` for bad records,
    `PromptError` for a file that replaces no prompt.
    """

    name: str
    fields: tuple[str, ...]
    prompts: tuple[Prompt, ...] = ()
    conditions: tuple[str, ...] = ("free",)
    notes: tuple[str, ...] = ()
    scale: tuple[float, float] | None = None

    def __init__(self, spec: RunSpec, images: ImageSink) -> None:
        options = validate(FileOptions, spec.options, f"options of {self.name}")
        self._data, self._sheet = options.data, options.sheet
        known = self.conditions
        self.conditions = named_conditions(self.name, spec.conditions, known) or known
        if spec.prompts is not None and not self.prompts:
            raise ConfigError(f"{self.name} has no prompts to replace; leave out --prompts")
        self._prompts = PromptSet(self.name, spec.prompts, own=self.prompts)
        self.size, self._left_out = self._survey()
        if not self.size or (self._left_out and not options.skip_bad_records):
            needed = ", ".join((ID, *self.fields))
            advice = f"Every record needs {needed}."
            raise refusal(self._data, self._left_out, self.size, advice)
        self.notes = (*self.notes, *bad_records_note(self._left_out, self.size))
        self._check_seats(spec)

    @classmethod
    def describe(cls) -> Description:
        """What `mmconv options` prints of the class."""
        needed = ", ".join((ID, *cls.fields))
        return Description(
            options=FileOptions,
            conditions=dict.fromkeys(cls.conditions, f"What {cls.__name__} makes of it."),
            unnamed=", ".join(cls.conditions),
            seats={ANY_SEAT: f"Every seat that {cls.__name__} asks; records need {needed}."},
        )

    @property
    def facts(self) -> Mapping[str, Any]:
        """Hashes of the data file and the prompts, and the records left out."""
        return {
            "data": {self._data.name: hash_file(self._data)},
            "prompts": self._prompts.digests(),
            "left_out": bad_records_list(self._left_out),
        }

    def load(self) -> Iterator[Fields]:
        """Stream the records' fields."""
        columns = (ID, *self.fields)
        records = read_records(self._data, self._sheet, columns=columns, skip=self._left_out)
        return (self._fields(record) for record in records)

    def key(self, sample: Fields) -> str:
        """The record's id."""
        return sample[ID]

    def about(self, sample: Fields) -> Mapping[str, str]:
        """All fields of the record but its id."""
        return {name: sample[name] for name in self.fields}

    def prompt(self, name: str) -> Prompt:
        """The prompt of this name, or the user's in its place."""
        return self._prompts[name]

    @abstractmethod
    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        """All calls for the sample under the condition."""

    @abstractmethod
    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        """Read the outcomes as scores; what cannot be scored says why."""

    def tables(self, scores: Scores) -> Sequence[Table]:
        """The mean of every metric under every condition, with its interval."""
        # numpy comes with them, and only the end of a run needs it
        from mmconv.stats import ScoreFrame, as_cell, bounded, summarise

        frame, ends = ScoreFrame(scores), self.scale or (None, None)
        rows = {
            metric: {
                condition: as_cell(
                    bounded(summarise(frame.select(metric=metric, condition=condition)), *ends)
                )
                for condition in self.conditions
            }
            for metric in frame.distinct("metric")
        }
        table = Table(
            name=self.name, title=self.name, columns=self.conditions, rows=rows, notes=self.notes
        )
        return [table, *bad_records_table(self._left_out)]

    def _survey(self) -> tuple[int, BadRecords]:
        """Read all records: how many are good, and what is wrong with the others."""
        bad: dict[str, tuple[str, ...]] = {}
        first: dict[str, str] = {}
        for record in scan_records(self._data, self._sheet, columns=(ID, *self.fields)):
            if isinstance(record, Unreadable):
                bad[record.where] = (record.fault,)
                continue
            try:
                key = self._fields(record)[ID]
            except DataError as error:
                bad[record.where] = error.problems
                continue
            if key in first:
                bad[record.where] = (f"id {key!r} is that of {first[key]}",)
            first.setdefault(key, record.where)
        return len(first), bad

    def _fields(self, record: Record) -> Fields:
        texts = {name: text(record, name) for name in (ID, *self.fields)}
        given = {name: value for name, value in texts.items() if value is not None}
        if missing := [f"no {name}" for name in texts if name not in given]:
            raise DataError(record.where, missing)
        return given

    def _check_seats(self, spec: RunSpec) -> None:
        needed = self._asked(next(self.load()), self.conditions)
        known = dict(needed)
        if not spec.seats.keys() <= known.keys():
            # a seat may be one of other samples, or of a condition that this run leaves out
            for sample in self.load():
                known |= self._asked(sample, type(self).conditions)
        for seat in spec.seats:
            if seat not in known:
                raise ConfigError(f"{self.name} has no seat {seat!r}{nearest(seat, list(known))}")
        for seat in needed:
            if seat not in spec.seats:
                raise ConfigError(f"{self.name} needs a model: name a {seat}")

    def _asked(self, sample: Fields, conditions: Iterable[str]) -> dict[str, None]:
        """The seats that the sample's calls and their rescues ask, in their order."""
        calls = (call for condition in conditions for call in self.plan(sample, condition))
        return {each.seat: None for call in calls for each in (call, *call.rescues)}
