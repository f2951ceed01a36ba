"""A benchmark: what it declares, and what is derived from it.

A benchmark declares five things: a `Sample`, `Options`, `plan`, `score` and `metrics`. Reading
files, calling models, tables, comparison, leaderboard, report, HTTP and the command line are
derived. The shipped benchmarks and those of users are the same.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

from judges import Prompt, PromptSet
from mmconv.benchmarks.base.compare import Board, Tables, derive_boards
from mmconv.benchmarks.base.dataset import Dataset, load_dataset
from mmconv.benchmarks.base.endings import endings
from mmconv.benchmarks.base.judges import (
    check_judges,
    combine_judges,
    copy_calls,
    make_judge_tables,
    split_calls,
)
from mmconv.benchmarks.base.layouts import Build, Context, Layout, make_tables
from mmconv.benchmarks.base.metrics import Metric, default_metrics, endings_metrics, quantities
from mmconv.benchmarks.base.results import (
    NOT_JUDGED,
    Calls,
    Outcomes,
    Results,
    Scale,
    Scores,
    check_scores,
    contents_of,
    ends_of,
    roles_of,
)
from mmconv.benchmarks.base.sample import SHARED_IMAGES, Sample, cluster_of, images_of
from mmconv.benchmarks.options import (
    Description,
    Display,
    Options,
    named_conditions,
    read_options,
)
from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.core.documents import Place, nearest
from mmconv.core.errors import ConfigError
from mmconv.core.graph import check
from mmconv.core.judges import JUDGE, base_role, list_judges
from mmconv.core.keys import hash_files
from mmconv.core.plans import Finished
from mmconv.core.protocols import ImageSink
from mmconv.core.turns import turn_of
from mmconv.core.types import UNASKED, Call, Score, Skipped, Table
from mmconv.core.user_code import noted
from mmconv.stats import Quantity, ScoreFrame
from mmconv.stats.corrections import Rate

SHIPPED = "mmconv."
"""What the modules of shipped benchmarks begin with."""

PLAIN_NAME = re.compile(r"[\w-][\w.-]*")
"""The names that a file may have."""


SampleT = TypeVar("SampleT", bound=Sample)
OptionsT = TypeVar("OptionsT", bound=Options)


class Benchmark(ABC, Generic[SampleT, OptionsT]):
    """The base of all benchmarks: `class Doubts(Benchmark[Doubt, ImageOptions])`.

    Attributes that a class may set:

    - `name`, of letters, digits, `_`, `-` and `.`; `title`, as its authors write it.
    - `conditions`: strings or `Condition`s. A run that names none takes `default_conditions`, or
      all of them; if that depends on the run, `unnamed` says how.
    - `prompts`: the prompts that a user may replace (`--prompts`), or the name of a folder of
      shipped ones; `plan` gets them by `self.prompt(name)`.
    - `roles`: what each model does. `candidate` is the model that is evaluated.
    - `scale`: the lowest and highest value of all scores, or a mapping of each score's name to its
      own, or to None if it has none. Other values are refused, and intervals end there.
    - `least`: names of scores, such as errors, of which the least is best.
    - `display`: how results are shown to readers.
    - `judging`: names of options that change how equal answers are judged.
    - `offline_judges`: providers of judges that are not language models, each with a remark.

    `self.options` are the options of the run. Building a benchmark checks them; `load_data` reads
    the dataset. Raises `ConfigError` for a wrong option, `PromptError` for a wrong prompt file.
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""
    conditions: tuple[str, ...] = ("free",)
    default_conditions: ClassVar[tuple[str, ...]] = ()
    unnamed: ClassVar[str] = ""
    prompts: ClassVar[str | tuple[Prompt, ...]] = ()
    roles: ClassVar[Mapping[str, str]] = {}
    scale: ClassVar[Scale] = None
    least: ClassVar[tuple[str, ...]] = ()
    judging: ClassVar[frozenset[str]] = frozenset()
    offline_judges: ClassVar[Mapping[str, str]] = {}
    display: ClassVar[Display] = Display()
    sample_type: ClassVar[type[Sample]]
    options_type: ClassVar[type[Options]]
    options: OptionsT
    dataset: Dataset[SampleT]

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Take the sample and options types from `Benchmark[...]`."""
        super().__init_subclass__(**arguments)
        for base in cls.__dict__.get("__orig_bases__", ()):
            if get_origin(base) is Benchmark:
                cls.sample_type, cls.options_type = get_args(base)

    def __init__(self, spec: RunSpec) -> None:
        _check_class(type(self))
        self.spec = spec
        self.options = read_options(self.options_type, spec.options, self.name)  # type: ignore[assignment]
        known = tuple(self.conditions)
        self.conditions = (
            named_conditions(self.name, spec.conditions, known) or self.unnamed_conditions or known
        )
        if spec.prompts is not None and not self.prompts:
            raise ConfigError(f"{self.name} has no prompts to replace; leave out --prompts")

    # --- what a benchmark declares -------------------------------------------------------------

    @abstractmethod
    def plan(self, sample: SampleT, condition: str) -> Iterable[Call]:
        """All calls for the sample under the condition, judgements included.

        The calls must be the same every time. A `Ref` stands for the whole text of a call's first
        reply, even if its parser cannot read it.
        """

    @abstractmethod
    def score(self, sample: SampleT, results: Results) -> Iterable[Score]:
        """The scores of the sample: what cannot be scored has no value and a reason.

        There is at most one score of each name, turn and set of tags.
        """

    def metrics(self) -> Iterable[Metric]:
        """Named estimates over the scores; by default the mean of each score per condition."""
        return ()

    def layouts(self) -> Iterable[Layout | Build]:
        """The tables, in their order. Titles may contain {candidate} and {judge}."""
        yield Layout(self.name, self.title or self.name)
        yield Layout(
            "answers",
            "How the answers of {candidate} ended",
            rows={"condition": self.conditions},
            columns="name",
            detail=True,
        )

    def corrected(
        self, frame: ScoreFrame, fails_right: Callable[[str, int], Rate | None]
    ) -> Iterable[Table]:
        """Numbers without the errors of a judge that fails right answers at these rates.

        `fails_right` gives the rate of a score in a turn, from an audit of the judge.
        """
        return ()

    def leaderboard(self) -> Iterable[Layout]:
        """The tables of a leaderboard: a row for each run, sorted by the metric `rank`."""
        return ()

    def tags(self, sample: SampleT, turn: int | None) -> Mapping[str, str]:
        """Tags of all scores of the sample or of one of its turns; tables can be split by them."""
        return {}

    def references(self, sample: SampleT, condition: str) -> Mapping[str, str]:
        """People's answers by the call that asks for each; `--candidate reference` gives them."""
        return {}

    def mistakes(self, sample: SampleT, condition: str) -> Mapping[str, str]:
        """Answers that are known to be wrong, by the call that asks for each; for audits of judges.

        Without them an audit takes the references of another sample.
        """
        return {}

    def least_pass(self, score: str) -> float | None:
        """The least value of a score with which an answer has not failed: half of its scale.

        None for scores that are not a judge's opinion: they have no scale.
        """
        ends = ends_of(self.scale, score)
        return None if ends is None else sum(ends) / 2

    def metadata(self, sample: SampleT) -> Mapping[str, str]:
        """Texts that help to read the sample's conversations in the report, by name."""
        values = ((name, getattr(sample, name)) for name in type(sample).model_fields)
        return {name: text for name, text in values if name != "id" and isinstance(text, str)}

    def remarks(self) -> Iterable[str]:
        """What a reader of any table must know about the options of this run."""
        if self.is_offline:
            yield self.offline_judges[self.spec.models[JUDGE].provider]

    def faults(self, sample: SampleT) -> Iterable[tuple[Place, str]]:
        """What a sample lacks for this run, beyond its type: where in it, and a message."""
        return ()

    def read_data(self, images: ImageSink) -> Dataset[SampleT]:
        """Read and check the dataset; raises `DataError` with all problems in one message."""
        kind: type[Any] = self.sample_type
        return load_dataset(kind, self.options, self.spec, images, self.faults)

    # --- what is derived -----------------------------------------------------------------------

    def load_data(self, images: ImageSink) -> None:
        """Check roles and prompts, and read the dataset; nothing is paid before that."""
        if JUDGE in self.roles and not self.options.generate_only and JUDGE not in self.spec.models:
            raise ConfigError(
                f"{self.name} needs a judge: name one (--judge reference/chrf needs no model), or "
                "give --no-judge"
            )
        check_judges(self.spec.models, self.offline_judges)
        references = {role for role, model in self.spec.models.items() if model.is_reference}
        if JUDGE in references:
            raise ConfigError("reference is a candidate, not a judge; use --judge reference/chrf")
        if references and type(self).references is Benchmark.references:
            raise ConfigError(f"{self.name} has no references; name a model as --candidate")
        _ = self.prompt_set
        self.dataset = self.read_data(images)

    @property
    def is_offline(self) -> bool:
        """Whether the judge is not a language model."""
        judge = self.spec.models.get(JUDGE)
        return judge is not None and judge.provider in self.offline_judges

    @property
    def unnamed_conditions(self) -> tuple[str, ...]:
        """The conditions of a run that names none; empty means all."""
        return self.default_conditions

    @cached_property
    def prompt_set(self) -> PromptSet:
        """The prompts of this run: shipped ones, and the user's in their place."""
        if isinstance(self.prompts, str):
            return PromptSet(self.prompts, self.spec.prompts)
        return PromptSet(self.name, self.spec.prompts, own=self.prompts)

    @classmethod
    def prompt_folder(cls, options: Mapping[str, Any]) -> str:
        """The folder of shipped prompts that a user's folder replaces, with these options."""
        return cls.prompts if isinstance(cls.prompts, str) else cls.name

    def prompt(self, name: str) -> Prompt:
        """The prompt of this name, or the user's in its place."""
        return self.prompt_set[name]

    @property
    def size(self) -> int:
        """How many samples the run has."""
        return len(self.dataset.samples)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of any table must know."""
        several = any(len({*images_of(sample)}) > 1 for sample in self.dataset.samples)
        shared = (SHARED_IMAGES,) if several else ()
        return (*self.remarks(), *self.dataset.notes(), *shared)

    @property
    def data_files(self) -> tuple[Path, ...]:
        """The files whose hash says whether the data have changed."""
        return (self.options.data,)

    @property
    def provenance(self) -> dict[str, Any]:
        """What the manifest records: hashes of data, prompts and user code, and bad records."""
        recorded: dict[str, Any] = {
            "data": hash_files(self.data_files),
            "prompts": {} if self.options.generate_only else self.prompt_set.digests(),
            "left_out": self.dataset.left_out,
        }
        if not type(self).__module__.startswith(SHIPPED):
            own = {sys.modules[kind.__module__] for kind in type(self).__mro__}
            own -= {sys.modules[kind.__module__] for kind in Benchmark.__mro__}
            # what is typed into a notebook has no file
            files = {Path(file) for module in own if (file := getattr(module, "__file__", None))}
            recorded |= {"code": hash_files(sorted(files)), "least": [*self.least]}
            recorded["scale"] = dict(self.scale) if isinstance(self.scale, Mapping) else self.scale
        return recorded

    @classmethod
    def describe(cls) -> Description:
        """What `mmconv options` and the API say about the benchmark."""
        conditions = {
            str(condition): getattr(condition, "meaning", f"See {cls.__name__}.plan.")
            for condition in cls.conditions
        }
        required = ", ".join(
            name for name, field in cls.sample_type.model_fields.items() if field.is_required()
        )
        scales = cls.scale if isinstance(cls.scale, Mapping) else {}
        any_role = {"NAME": f"Every model role that plan() uses; records need {required}."}
        return Description(
            options=cls.options_type,
            conditions=conditions,
            unnamed=cls.unnamed or ", ".join(cls.default_conditions or conditions),
            roles=cls.roles or any_role,
            judging=cls.judging | {"judges_by"},
            scale={name: ends for name, ends in scales.items() if ends is not None},
            display=cls.display,
        )

    def load(self) -> Iterator[SampleT]:
        """The samples, in the dataset's order."""
        return iter(self.dataset.samples)

    def calls(self, sample: SampleT, condition: str) -> tuple[Call, ...]:
        """The calls of `plan` that this run makes; without a judge only the candidate's."""
        with self._noted(sample, condition, "plan"):
            calls = tuple(self.plan(sample, condition))
        if self.options.generate_only:
            return tuple(call for call in calls if call.model == CANDIDATE)
        return (*calls, *copy_calls(self.spec.models, calls))

    def scores(
        self, sample: SampleT, condition: str, calls: Calls, outcomes: Outcomes
    ) -> list[Score]:
        """How the candidate's answers ended, then the scores of `score`.

        Raises `ConfigError` for scores that are off the scale, given twice, or not there at all.
        """
        parts = split_calls(self.spec.models, calls, outcomes)
        results = {label: self.results(sample, condition, *part) for label, part in parts.items()}
        with self._noted(sample, condition, "score"):
            judged = {label: self.score(sample, each) for label, each in results.items()}
            scores = tuple(combine_judges(judged, self.scale, self.options.judges_by))
            if scores or not self.options.generate_only:
                check_scores(scores, self.scale)
        kept = (score for score in scores if score.why != NOT_JUDGED)
        return [*self.endings(next(iter(results.values()))), *kept]

    def score_finished(self, sample: SampleT, finished: Finished) -> Iterator[Score]:
        """The scores of a finished plan of the sample, under the name of its trial."""
        plan = finished.plan
        calls = {call.id: call for call in plan.calls}
        is_named = plan.sample == sample.id
        for score in self.scores(sample, plan.condition, calls, finished.outcomes):
            yield score if is_named else replace(score, sample=plan.sample)

    def data_table(self) -> Table | None:
        """Statistics of the data, which `mmconv check` prints."""
        return None

    def results(self, sample: SampleT, condition: str, calls: Calls, outcomes: Outcomes) -> Results:
        """What `score` reads."""
        cluster = cluster_of(sample)
        return Results(
            sample=sample.id,
            condition=condition,
            calls=calls,
            outcomes=outcomes,
            tags=lambda turn: {**cluster, **self.tags(sample, turn)},
        )

    def endings(self, results: Results) -> Iterator[Score]:
        """Scores of how each of the candidate's answers ended: cut off, filtered, empty, tokens."""
        for call in results.calls.values():
            if call.model == CANDIDATE:
                turn = turn_of(call.id)
                tags = {} if turn is not None else {"call": call.id}
                for name, value, reason in endings(results.outcomes[call.id]):
                    yield results.score(name, value, reason, turn=turn, **tags)

    def metrics_for(self, frame: ScoreFrame) -> list[Metric]:
        """The metrics of the benchmark, or the default ones, and how the answers ended."""
        declared = [*self.metrics()]
        if not declared:
            declared += default_metrics(frame, self.conditions, self.scale, table=self.name)
        return [*declared, *endings_metrics("answers")]

    def quantities(self, frame: ScoreFrame) -> Iterator[Quantity]:
        """What runs are compared in; override it if some scores are those of other models."""
        return quantities(self.metrics_for(frame), frame)

    def boards(self, runs: Sequence[Tables]) -> Iterable[Board]:
        """What a leaderboard of runs with these tables shows, by default that of `leaderboard`."""
        return derive_boards([*self.leaderboard()], [*self.metrics()])

    def tables(self, scores: Scores) -> list[Table]:
        """All tables that the scores have something for."""
        frame, models = ScoreFrame.of(scores), self.spec.models
        candidate, judge = models[CANDIDATE].label, list_judges(models) or "no judge"
        context = Context(candidate=candidate, judge=judge, notes=self.notes)

        def make(part: ScoreFrame) -> list[Table]:
            return make_tables(self.layouts(), self.metrics_for(part), {candidate: part}, context)

        with noted(f"the tables of {type(self).__name__}"):
            made = make(frame)
            made += make_judge_tables(frame, made[:], make, self.least_pass, self.display.labels)
        return [*made, *self.dataset.tables()]

    def check_plans(self) -> None:
        """Plan all samples, and score the first one as if no call had a reply.

        Raises `ConfigError` for a role without a model, for a model without a role, and for a plan
        that is different the second time.
        """
        needed: dict[str, str] = {}
        for sample, condition in product(self.load(), self.conditions):
            calls = self.calls(sample, condition)
            is_first = sample is self.dataset.samples[0]
            again = self.calls(sample, condition) if is_first else calls
            with self._noted(sample, condition, "plan"):
                check(calls)
                if contents_of(calls) != contents_of(again):
                    raise ConfigError(
                        "not deterministic: it returned different calls the second time, so cached "
                        "replies cannot be found"
                    )
            needed |= roles_of(calls)
            if is_first:
                by_id = {call.id: call for call in calls}
                skipped = Skipped(because=UNASKED, reason="unrequested")
                self.scores(sample, condition, by_id, dict.fromkeys(by_id, skipped))
                self.metadata(sample)
        self._check_roles(needed)

    def _check_roles(self, needed: Mapping[str, str]) -> None:
        known = dict(needed)
        if not known.keys() >= self.spec.models.keys():
            # a role may be one of a condition that this run leaves out
            for sample, condition in product(self.load(), type(self).conditions):
                known |= roles_of(self.plan(sample, condition))
        for role in self.spec.models:
            if base_role(role) not in known and not self.dataset.is_part:
                raise ConfigError(f"{self.name} has no role {role!r}{nearest(role, list(known))}")
        for role, call in needed.items():
            if role not in self.spec.models:
                raise ConfigError(f"{self.name} needs a model: name a {role} (for call {call!r})")

    def _noted(self, sample: SampleT, condition: str, method: str) -> AbstractContextManager[None]:
        return noted(f"sample {sample.id}, condition {condition}, {type(self).__name__}.{method}")


def _check_class(kind: type[Benchmark[Any, Any]]) -> None:
    if not hasattr(kind, "name") or not PLAIN_NAME.fullmatch(kind.name):
        raise ConfigError(f"{kind.__name__}.name must be set, of letters, digits, '_', '-' and '.'")
    if not hasattr(kind, "sample_type"):
        raise ConfigError(
            f"{kind.__name__} must name its types: class {kind.__name__}(Benchmark[MySample, "
            "Options])"
        )
    conditions: Any = kind.conditions
    if isinstance(conditions, str):
        raise ConfigError(f"{kind.__name__}.conditions must be a tuple: ({conditions!r},)")
