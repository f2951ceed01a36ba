"""A benchmark over one file of records: everything but its prompts and what they mean.

A subclass names its fields and prompts, and says which calls a sample needs (`plan`) and how
replies are read (`score`); the class itself is then what builds the benchmark. Data of several
files, options and official aggregations need a package of their own, such as `convbench`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from judges import Prompt, PromptSet
from mmconv.benchmarks.bad_records import bad_records_list, bad_records_table
from mmconv.benchmarks.choosing import choose
from mmconv.benchmarks.describing import ANY_SEAT, BenchmarkOptions, Description, named_conditions
from mmconv.benchmarks.own_code import TELLING
from mmconv.benchmarks.samples import ID, Fields, Source, load, source_keys, survey
from mmconv.config import RunSpec, nearest, validate
from mmconv.errors import ConfigError, OwnCodeError, PlanError
from mmconv.graph import check
from mmconv.keys import hash_files
from mmconv.protocols import ImageSink
from mmconv.values import UNASKED, Call, Outcome, Score, Skipped, Table

__all__ = ["Calls", "Fields", "FileBenchmark", "FileOptions", "ImageOptions", "Outcomes", "Scores"]

Calls: TypeAlias = Mapping[str, Call]
Outcomes: TypeAlias = Mapping[str, Outcome]
Scores: TypeAlias = Iterable[Score]


class FileOptions(BenchmarkOptions):
    """Options under `options:` of a run file."""

    data: Path
    """A file of records: .jsonl, .json, .csv, .tsv or .xlsx."""
    sheet: str | None = None
    """One of a workbook's sheets, where several have the fields."""
    skip_bad_records: bool = False
    """Go on without incomplete or unreadable records; the report lists them."""


class ImageOptions(FileOptions):
    """The options where records name images."""

    images: Path
    """The folder that the records' images are in."""


class FileBenchmark(ABC):
    """See `mmconv.protocols.Benchmark`. Every record has an `id` and the `fields`, none empty.

    Numbers in fields are taken as text. Each of the `image_fields` holds the name of a file in the
    folder that the option `images` names, or a list of names ([] where there is no image); a sample
    has them as `sample.images[field]`, to stand among the parts of any message. `prompts` are those
    that a user may replace (`--prompts`); `plan` gets at them by `prompt`. `scale` is the lowest
    and the highest value that a score can have: others are refused, and intervals of means end
    there. A sample has one score of a metric per condition, turn and `tags`.

    Building one checks the options and the records. `plan` and `score` are not called before
    `check_plans`, so that a subclass may go on with its own state after `super().__init__`.

    Raises `ConfigError` for a wrong option, `DataError` for bad records and images, `PromptError`
    for a file that replaces no prompt.
    """

    name: str
    fields: tuple[str, ...]
    image_fields: tuple[str, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    conditions: tuple[str, ...] = ("free",)
    notes: tuple[str, ...] = ()
    scale: tuple[float, float] | None = None

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Have what the subclass's own methods raise told with the sample."""
        super().__init_subclass__(**arguments)
        for method in TELLING.keys() & vars(cls).keys():
            setattr(cls, method, TELLING[method](vars(cls)[method]))

    def __init__(self, spec: RunSpec, images: ImageSink) -> None:
        self._check_declared()
        options = validate(self._option_kind(), spec.options, f"options of {self.name}")
        known = self.conditions
        self.conditions = named_conditions(self.name, spec.conditions, known) or known
        if spec.prompts is not None and not self.prompts:
            raise ConfigError(f"{self.name} has no prompts to replace; leave out --prompts")
        self._prompts = PromptSet(self.name, spec.prompts, own=self.prompts)
        self._library, self._seats = images, tuple(spec.seats)
        everything = Source(
            data=options.data,
            sheet=options.sheet,
            fields=self.fields,
            image_fields=self.image_fields,
            images=options.images if isinstance(options, ImageOptions) else Path(),
            skip_bad=options.skip_bad_records,
        )
        choice = choose(spec, source_keys(everything))
        self._source = replace(everything, choice=choice)
        self._intake = survey(self._source, images)
        self.size = self._intake.good
        self.notes = (*self.notes, *self._intake.notes())

    @classmethod
    def describe(cls) -> Description:
        """What `mmconv options` prints of the class."""
        needed = ", ".join((ID, *cls.fields, *cls.image_fields))
        return Description(
            options=cls._option_kind(),
            conditions=dict.fromkeys(cls.conditions, f"What {cls.__name__} makes of it."),
            unnamed=", ".join(cls.conditions),
            seats={ANY_SEAT: f"Every seat that {cls.__name__} asks; records need {needed}."},
        )

    @property
    def facts(self) -> Mapping[str, Any]:
        """Hashes of the data file and the prompts, and the records left out."""
        return {
            "data": hash_files([self._source.data]),
            "prompts": self._prompts.digests(),
            "left_out": bad_records_list(self._intake.bad),
        }

    def load(self) -> Iterator[Fields]:
        """Stream the good records that the run takes."""
        return load(self._source, self._library, self._intake)

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

    def clustered(self, sample: Fields, scores: tuple[Score, ...]) -> tuple[Score, ...]:
        """The scores, told to hang together with those of other samples of the same images.

        A tag `cluster` that `score` has set itself stays.
        """
        shown = [image.sha256 for name in self.image_fields for image in sample.images[name]]
        if not shown:
            return scores
        images = {"cluster": "+".join(shown)}
        return tuple(replace(score, tags={**images, **score.tags}) for score in scores)

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
        return [table, *bad_records_table(self._intake.bad)]

    def check_plans(self) -> None:
        """Plan all samples, and score the first as if no call had brought a reply.

        What the report tells about samples is asked for too. Raises `ConfigError` for a seat
        without a model or a model on a seat that no sample asks, `OwnCodeError` for what the
        methods raise, and for calls that cannot be asked.
        """
        needed: dict[str, None] = {}
        for number, sample in enumerate(self.load()):
            self.about(sample)
            for condition in self.conditions:
                calls = self.plan(sample, condition)
                try:
                    check(calls)
                except PlanError as error:
                    kind = type(self).__name__
                    where = f"{kind}.plan of sample {self.key(sample)!r} under {condition}"
                    raise OwnCodeError(f"{where}: {error}") from error
                needed |= _seats(calls)
                if not number:
                    lost = Skipped(because=UNASKED, reason="unasked")
                    by_id = {call.id: call for call in calls}
                    self.score(sample, condition, by_id, dict.fromkeys(by_id, lost))
        self._check_seats(needed)

    def _check_seats(self, needed: Mapping[str, None]) -> None:
        known = dict(needed)
        if not known.keys() >= {*self._seats}:
            # a seat may be one of a condition that this run leaves out
            for sample in self.load():
                for condition in type(self).conditions:
                    known |= _seats(self.plan(sample, condition))
        for seat in self._seats:
            # records that the run does not come to may ask it
            if seat not in known and not self._intake.is_part:
                raise ConfigError(f"{self.name} has no seat {seat!r}{nearest(seat, list(known))}")
        for seat in needed:
            if seat not in self._seats:
                raise ConfigError(f"{self.name} needs a model: name a {seat}")

    def _check_declared(self) -> None:
        kind = type(self)
        for needed in ("name", "fields"):
            if not hasattr(kind, needed):
                raise ConfigError(f"{kind.__name__} is a benchmark without `{needed}`: set it")
        for several in ("fields", "image_fields", "conditions"):
            if isinstance(given := getattr(kind, several), str):
                told = f"{kind.__name__}.{several} is {given!r}, and no tuple"
                raise ConfigError(f"{told}: write ({given!r},)")

    @classmethod
    def _option_kind(cls) -> type[FileOptions]:
        return ImageOptions if cls.image_fields else FileOptions


def _seats(calls: Iterable[Call]) -> dict[str, None]:
    """The seats that the calls and their rescues ask, in their order."""
    return {each.seat: None for call in calls for each in (call, *call.rescues)}
