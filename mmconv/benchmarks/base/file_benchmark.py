"""A benchmark over one file of records: everything but its prompts and what they mean.

A subclass names its fields and prompts, and says which calls a sample needs (`plan`) and how
replies are read (`score`); the class itself is then what builds the benchmark. Data of several
files, options and official aggregations need a package of their own, such as `convbench`.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges import Prompt, PromptSet
from mmconv.benchmarks.base.own_methods import PLAIN_NAME, make_telling
from mmconv.benchmarks.base.samples import ID, Fields, Source, load, source_keys, survey
from mmconv.benchmarks.choosing import choose
from mmconv.benchmarks.data_files.bad_records import bad_records_list, bad_records_table
from mmconv.benchmarks.shared.options import (
    ANY_SEAT,
    BenchmarkOptions,
    Description,
    named_conditions,
)
from mmconv.benchmarks.shared.scoring import Calls, Outcomes, Scale, Scores, ends_of
from mmconv.core.config import CANDIDATE, RunSpec, validate
from mmconv.core.errors import ConfigError, OwnCodeError, PlanError
from mmconv.core.graph import check
from mmconv.core.keys import hash_files
from mmconv.core.protocols import ImageSink
from mmconv.core.types import UNASKED, Call, Cell, Score, Skipped, Table
from mmconv.core.user_code import telling
from mmconv.core.validation import nearest

if TYPE_CHECKING:
    from mmconv.stats import ScoreFrame

NOT_SCORED = "not scored"
"""Why a sample lacks a metric that others of its condition have."""

SHARED_PICTURES = (
    "Samples that show the same pictures, in any order, are a cluster. Those that share only some "
    "of several are taken to be independent, which makes intervals too narrow where many do; a tag "
    "`cluster` of their scores tells otherwise."
)


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
    """See `Benchmark`. Every record has an `id` and the `fields`, none empty.

    Numbers in fields are taken as text. Each of the `image_fields` holds the name of a file in the
    folder that the option `images` names, or a list of names ([] where there is no image); a sample
    has them as `sample.images[field]`, to stand among the parts of any message. `prompts` are those
    that a user may replace (`--prompts`); `plan` gets at them by `prompt`. `options` may be a class
    of one's own that adds fields to `FileOptions` (`ImageOptions` where there are `image_fields`);
    `run_options` are those of the run.

    Calls ask seats of any name; the one that is evaluated sits on `candidate`, which every
    benchmark has. A sample has a score of each metric per condition, turn and `tags`, be it None
    and why. The mean of a metric, in tables as in ranks and comparisons of runs, is over samples,
    each with the mean of its own scores: all weigh alike, however many turns they have. One that
    lacks some of its scores is missing, like one without any of a metric that others have; a class
    that wants other means adds a table, or scores metrics of other names. `scale` is the
    lowest and the highest value of scores, or a mapping of each metric to its own, or to None where
    it has none: other values are refused, and intervals of means end there. A metric of which all
    values are 0 or 1 has a share's interval, unless its scale is another. Of metrics that `least`
    names, such as errors, a leaderboard puts the least first.

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
    scale: Scale = None
    least: tuple[str, ...] = ()
    options: type[FileOptions] = FileOptions
    run_options: FileOptions

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Have what the subclass's own methods raise told with the sample."""
        super().__init_subclass__(**arguments)
        make_telling(cls)
        if cls.image_fields and cls.options is FileOptions:
            cls.options = ImageOptions

    def __init__(self, spec: RunSpec, images: ImageSink) -> None:
        _check_declared(type(self))
        self.run_options = validate(self.options, spec.options, f"options of {self.name}")
        options = self.run_options
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
            options=cls.options,
            conditions=dict.fromkeys(cls.conditions, f"What {cls.__name__} makes of it."),
            unnamed=", ".join(cls.conditions),
            seats={ANY_SEAT: f"Every seat that {cls.__name__} asks; records need {needed}."},
        )

    @property
    def facts(self) -> Mapping[str, Any]:
        """Hashes of data, prompts and one's own code; records left out; `least` and `scale`."""
        own = {sys.modules[kind.__module__] for kind in type(self).__mro__}
        own -= {sys.modules[kind.__module__] for kind in FileBenchmark.__mro__}
        # what is typed into a notebook lies in no file
        files = {Path(file) for each in own if (file := getattr(each, "__file__", None))}
        return {
            "data": hash_files([self._source.data]),
            "prompts": self._prompts.digests(),
            "code": hash_files(sorted(files)),
            "left_out": bad_records_list(self._intake.bad),
            "least": [*self.least],
            "scale": dict(self.scale) if isinstance(self.scale, Mapping) else self.scale,
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
        """All calls for the sample under the condition; the same whenever it is asked.

        Nothing is known of replies yet. A `Ref` puts the whole text of a call's first reply into a
        later prompt, also where its parser could not read that and `score` takes a rescue's; what
        is to go on with a part of a reply asks another call for that part, and refers to it.
        """

    @abstractmethod
    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        """Read the outcomes as scores; what cannot be scored says why."""

    def clustered(self, sample: Fields, scores: tuple[Score, ...]) -> tuple[Score, ...]:
        """The scores, told to hang together with those of other samples of the same images.

        Their order does not matter, but samples that share only some are not told to: which ones
        hang together by way of others would depend on the samples that a run takes. A tag `cluster`
        that `score` has set itself stays.
        """
        shown = {image.sha256 for name in self.image_fields for image in sample.images[name]}
        if not shown:
            return scores
        images = {"cluster": "+".join(sorted(shown))}
        return tuple(replace(score, tags={**images, **score.tags}) for score in scores)

    def tables(self, scores: Scores) -> Sequence[Table]:
        """The mean of every metric under every condition, with its interval; n counts samples.

        A class of one's own may add tables to these, made by `mmconv.stats`; `scores` can be read
        more than once there. What the condition `hinted` adds to `free` is::

            frame = ScoreFrame(scores)
            free = frame.select(metric="correct", condition="free")
            hinted = frame.select(metric="correct", condition="hinted")
            change = as_cell(paired_share_difference(free, hinted))  # hinted - free

        where each score is 0 or 1, and with `paired_difference` where they are not.
        """
        # numpy comes with it, and only the end of a run needs it
        from mmconv.stats import ScoreFrame

        frame = ScoreFrame.of(scores)
        samples = {each: {*frame.select(condition=each).samples} for each in self.conditions}
        rows = {
            metric: {
                condition: self._cell(frame, metric, condition, samples[condition])
                for condition in self.conditions
            }
            for metric in frame.distinct("metric")
        }
        several = self.image_fields and any("+" in each for each in frame.distinct("cluster"))
        table = Table(
            name=self.name,
            title=self.name,
            columns=self.conditions,
            rows=rows,
            notes=(*self.notes, *([SHARED_PICTURES] if several else [])),
        )
        return [table, *bad_records_table(self._intake.bad)]

    def _cell(self, frame: ScoreFrame, metric: str, condition: str, samples: set[str]) -> Cell:
        """The mean of a metric; `samples` are those that have any score under the condition."""
        from mmconv.benchmarks.shared.compared import plain_mean
        from mmconv.stats import as_cell, bounded, measure

        column = frame.select(metric=metric, condition=condition)
        ends = ends_of(self.scale, metric)
        summary = bounded(measure(plain_mean(column, metric, condition, ends)), *(ends or ()))
        unscored = len(samples.difference(column.samples)) if len(column) else 0
        missing = {**summary.missing, **({NOT_SCORED: unscored} if unscored else {})}
        return as_cell(replace(summary, missing=missing))

    def check_plans(self) -> None:
        """Plan all samples, and score the first as if no call had brought a reply.

        What the report tells about samples is asked for too. Raises `ConfigError` for a seat
        without a model or a model on a seat that no sample asks, `OwnCodeError` for what the
        methods raise, for calls that cannot be asked, and for others at the second time of asking.
        """
        kind = type(self).__name__
        if not hasattr(self, "_source"):
            told = f"{kind}.__init__ does not call super().__init__(spec, images)"
            raise OwnCodeError(f"{told}: do that first")
        needed: dict[str, str] = {}
        for number, sample in enumerate(self.load(), start=1):
            with telling(f"{kind}: reading sample {number} of `load`"):
                self.about(sample)
                for condition in self.conditions:
                    needed |= _seats(self._checked_plan(sample, condition, is_first=number == 1))
        self._check_seats(needed)

    def _checked_plan(self, sample: Fields, condition: str, *, is_first: bool) -> tuple[Call, ...]:
        calls = self.plan(sample, condition)
        where = f"{type(self).__name__}.plan of sample {self.key(sample)!r} under {condition}"
        try:
            check(calls)
        except PlanError as error:
            raise OwnCodeError(f"{where}: {error}") from error
        if is_first:
            if _asked(calls) != _asked(self.plan(sample, condition)):
                raise OwnCodeError(
                    f"{where} gives other calls when it is asked again: nothing drawn, counted or "
                    "changed may enter them, or their replies are never found again"
                )
            lost = Skipped(because=UNASKED, reason="unasked")
            by_id = {call.id: call for call in calls}
            self.score(sample, condition, by_id, dict.fromkeys(by_id, lost))
        return calls

    def _check_seats(self, needed: Mapping[str, str]) -> None:
        known = dict(needed)
        if not known.keys() >= {*self._seats}:
            # a seat may be one of a condition that this run leaves out
            for sample in self.load():
                for condition in type(self).conditions:
                    known |= _seats(self.plan(sample, condition))
        for seat in self._seats:
            # records that the run does not come to may ask it
            if seat not in known and not self._intake.is_part:
                told = f"{self.name} has no seat {seat!r}"
                if seat == CANDIDATE:
                    told += ", on which every benchmark asks the model that is evaluated"
                raise ConfigError(f"{told}{nearest(seat, list(known))}")
        for seat, call in needed.items():
            if seat not in self._seats:
                raise ConfigError(f"{self.name} needs a model: name a {seat} (for call {call!r})")


def _check_declared(kind: type[FileBenchmark]) -> None:
    """Raise `ConfigError` for what a class must not declare."""
    for needed in ("name", "fields"):
        if not hasattr(kind, needed):
            raise ConfigError(f"{kind.__name__} is a benchmark without `{needed}`: set it")
    for several in ("fields", "image_fields", "prompts", "conditions", "notes", "least"):
        if isinstance(given := getattr(kind, several), str):
            told = f"{kind.__name__}.{several} is {given!r}, and no tuple"
            raise ConfigError(f"{told}: write ({given!r},)")
    for prompt in kind.prompts:
        if not isinstance(prompt, Prompt):
            raise ConfigError(
                f"{kind.__name__}.prompts holds {prompt!r}: write parse_prompt({prompt!r}, NAME)"
            )
    if not PLAIN_NAME.fullmatch(kind.name):
        told = f"{kind.__name__}.name is {kind.name!r}, and files are named after it"
        raise ConfigError(f"{told}: letters, digits, '_', '-' and '.' will do")
    for what, names in {
        "conditions": kind.conditions,
        "fields and image_fields": (*kind.fields, *kind.image_fields),
        "prompts": tuple(prompt.name for prompt in kind.prompts),
    }.items():
        if len({*names, ""}) <= len(names):
            told = f"{kind.__name__}: the names of {what} are {', '.join(map(repr, names))}"
            raise ConfigError(f"{told}: none may be empty, or there twice")
    _check_kinds(kind)


def _check_kinds(kind: type[FileBenchmark]) -> None:
    """Raise `ConfigError` for a scale without two ends, and for options that lack some."""
    scale = kind.scale
    for ends in scale.values() if isinstance(scale, Mapping) else [scale]:
        match ends:
            case None:
                continue
            case (int() | float() as lowest, int() | float() as highest) if lowest < highest:
                continue
        raise ConfigError(
            f"{kind.__name__}.scale holds {ends!r}: write (lowest, highest), or a mapping of every "
            "metric to its own, or to None"
        )
    base = ImageOptions if kind.image_fields else FileOptions
    if not issubclass(kind.options, base):
        told = f"{kind.__name__}.options is {kind.options.__name__}, which is no {base.__name__}"
        raise ConfigError(f"{told}: derive it from that")


def _asked(calls: Iterable[Call]) -> list[tuple[Any, ...]]:
    """What the calls and their rescues ask whom."""
    return [
        (each.id, each.seat, each.messages, each.sampling)
        for call in calls
        for each in (call, *call.rescues)
    ]


def _seats(calls: Iterable[Call]) -> dict[str, str]:
    """The seats that the calls and their rescues ask, in their order, with a call that does."""
    return {each.seat: each.id for call in calls for each in (call, *call.rescues)}
