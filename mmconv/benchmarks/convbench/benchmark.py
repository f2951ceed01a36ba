"""ConvBench as a benchmark: options, data, chains, grading and tables put together.

Source: Liu et al., ConvBench (paper and authors' repository); every switch is in `options`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from judges import PromptSet
from mmconv.benchmarks.choosing import choose
from mmconv.benchmarks.convbench.chains import candidate_calls
from mmconv.benchmarks.convbench.columns import CAPTION, REFERENCES
from mmconv.benchmarks.convbench.data import (
    Row,
    Source,
    Survey,
    filled_columns,
    load_rows,
    source_keys,
    survey,
)
from mmconv.benchmarks.convbench.grading import Grader, build_judges
from mmconv.benchmarks.convbench.options import ALONE, CONDITIONS, GIVEN, ConvBenchOptions
from mmconv.benchmarks.convbench.scoring import score_row
from mmconv.benchmarks.data_files.bad_records import bad_records_list, bad_records_table
from mmconv.benchmarks.shared.options import named_conditions, read_options, require_judge
from mmconv.benchmarks.shared.scoring import Calls, Outcomes, Scores
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_files
from mmconv.core.protocols import ImageSink
from mmconv.core.types import Call, Sampling, Table

REFERENCE_JUDGE = "reference"
"""The provider of the judge that measures overlap."""

OFFLINE_JUDGES = {
    REFERENCE_JUDGE: "The judge is an offline overlap measure: not comparable with judgements by "
    "an LLM.",
    "scenes": "The judge checks facts about drawn scenes: exact there, and not comparable with "
    "judgements by an LLM.",
}
"""The providers of judges that are no models, and share prompt files of their own; what to note."""


def build(spec: RunSpec, images: ImageSink) -> ConvBench:
    """Check options and data; raises `ConfigError` or `DataError` before anything is paid."""
    options = read_options(ConvBenchOptions, spec.options, "convbench")
    return ConvBench(spec, options, images)


class ConvBench:
    """The benchmark; see `Benchmark`."""

    name = "convbench"

    def __init__(self, spec: RunSpec, options: ConvBenchOptions, images: ImageSink) -> None:
        self._spec = spec
        self._options = options
        self._images = images
        self.conditions = named_conditions(self.name, spec.conditions, CONDITIONS) or (
            ("free",) if options.generate_only else tuple(GIVEN)
        )
        if not options.generate_only:
            require_judge(spec, example="--judge reference/chrf needs no model")
        prompts = _prompts(spec)
        self._grader = None if options.generate_only else _grader(spec, options, prompts)
        everything = _source(options, self.conditions)
        choice = choose(spec, source_keys(everything))
        self._source = replace(everything, choice=choice)
        self._survey = survey(self._source, images)

    @property
    def size(self) -> int:
        """How many rows will be run."""
        return self._survey.intake.good

    @property
    def notes(self) -> tuple[str, ...]:
        """A part of the rows, drafts, rows without focus points or left out, no LLM as judge."""
        points = self._grader is not None and self._options.focus_points
        return tuple(_notes(self._spec, self._survey, points=points))

    @property
    def facts(self) -> Mapping[str, Any]:
        """Hashes of the data files and prompts, and what the survey left out."""
        files = (self._options.data, self._options.annotations, self._options.positions)
        return {
            "data": hash_files(filter(None, files)),
            "prompts": {} if self._grader is None else self._grader.prompts.digests(),
            "rows": self._survey.intake.good,
            "drafts": self._survey.drafts,
            "left_out": bad_records_list(self._survey.bad),
        }

    def load(self) -> Iterator[Row]:
        """Stream the rows that the survey found good and the run takes."""
        return load_rows(self._source, self._images, self._survey)

    def key(self, sample: Row) -> str:
        """The row's ID."""
        return sample.id

    def about(self, sample: Row) -> Mapping[str, str]:
        """The caption, people's answers and the focus points, those that there are."""
        names = ("caption", "perception", "reasoning", "creation", "focus points")
        texts = (sample.caption, *sample.references, sample.focus_points)
        return {name: text for name, text in zip(names, texts, strict=True) if text}

    def plan(self, sample: Row, condition: str) -> tuple[Call, ...]:
        """The candidate's own turns under the condition, and their judgements."""
        sampling = Sampling(max_tokens=self._options.max_tokens)
        calls = candidate_calls(sample, condition, sampling, self._options.candidate_system)
        if self._grader is None:
            return calls
        return (*calls, *self._grader.calls(sample, condition))

    def score(self, sample: Row, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        """Ratings, wins, and how the answers ended."""
        return score_row(sample, condition, calls, outcomes, self._grader)

    def tables(self, scores: Scores) -> list[Table]:
        """The paper's tables and ours."""
        # numpy comes with them, and only the end of a run needs it
        from mmconv.benchmarks.convbench.layouts import build_tables
        from mmconv.benchmarks.convbench.official import Convention, constant_for
        from mmconv.benchmarks.layouts import Context

        seats, intake = self._spec.seats, self._survey.intake
        rows, left_out = intake.good + intake.beyond + intake.choice.passed_over, len(intake.bad)
        official = Convention(
            denominator=self._options.denominator or constant_for(rows + left_out),
            rows=rows,
            trials=self._spec.trials,
            left_out=left_out,
        )
        context = Context(
            candidate=seats["candidate"].label,
            judge=seats["judge"].label if "judge" in seats else "nobody",
            notes=self.notes,
        )
        made = build_tables(scores, self._spec.options, official, context)
        return [*made, *bad_records_table(self._survey.bad)]


def _prompts(spec: RunSpec) -> PromptSet:
    """The judge's prompts; a user's own are checked even where no judge is asked."""
    offline = _is_offline(spec)
    if offline and spec.prompts is not None:
        raise ConfigError("an offline judge has prompt files of its own; leave out --prompts")
    return PromptSet("convbench_reference" if offline else "convbench", spec.prompts)


def _grader(spec: RunSpec, options: ConvBenchOptions, prompts: PromptSet) -> Grader:
    judges = build_judges(options, prompts, offline=_is_offline(spec))
    return Grader(options=options, prompts=prompts, judges=judges)


def _is_offline(spec: RunSpec) -> bool:
    judge = spec.seats.get("judge")
    return judge is not None and judge.provider in OFFLINE_JUDGES


def _source(options: ConvBenchOptions, conditions: tuple[str, ...]) -> Source:
    """What the run needs of every row: a judge reads caption and all three references.

    Of the rows that a run goes on with, those that no judge could judge are left out even if none
    is asked. So answers without a judge are of the same samples as the judgements that come later.
    Data without any references are for answers alone.
    """
    given = max((GIVEN[name] for name in conditions if name not in ALONE), default=0)
    source = Source(
        data=options.data,
        images=options.images,
        sheet=options.sheet,
        annotations=options.annotations,
        positions=options.positions if options.order == "authors" else None,
        needs=REFERENCES[:given],
        skip_bad=options.skip_bad_records,
        allow_drafts=options.allow_drafts,
    )
    judged = (CAPTION, *REFERENCES)
    if not options.generate_only:
        return replace(source, needs=judged)
    if not options.skip_bad_records:
        return source
    return replace(source, needs={*source.needs, *filled_columns(source, judged)})


def _notes(spec: RunSpec, found: Survey, *, points: bool) -> Iterator[str]:
    """What tables tell; `points`: whether the creation turn is judged by focus points."""
    yield from found.intake.notes()
    if _is_offline(spec):
        yield OFFLINE_JUDGES[spec.seats["judge"].provider]
    if found.drafts:
        drafts = "is a draft" if found.drafts == 1 else "are drafts"
        yield f"{found.drafts} of {found.intake.good} rows {drafts} that no person has verified."
    if points and (lacking := found.without_focus_points):
        have, turn = ("has", "its creation turn is")
        if lacking > 1:
            have, turn = ("have", "their creation turns are")
        rows = f"{lacking} of {found.intake.good} rows"
        yield f"{rows} {have} no focus points: {turn} judged without them."
    if unused := found.unused_annotations:
        place, (fault, *_) = next(iter(unused.items()))
        which = "1 annotation is" if len(unused) == 1 else f"{len(unused)} annotations are"
        yield f"{which} not used, for instance {place}: {fault}."
    for file, faults in found.misspelt.items():
        yield from (f"{file}: {fault}." for fault in faults)
    options = spec.options
    if options.get("positions") and options.get("order", "random") != "authors":
        yield "The file of sides (positions) was not used: only order: authors takes them from it."
