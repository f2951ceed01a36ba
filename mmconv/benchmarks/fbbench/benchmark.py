"""FB-Bench as a benchmark: options, data, grading and tables put together.

Source: the FB-Bench paper and the authors' repository; every switch is in `options`. Published
judgements are rescored in `rescore`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from judges import PromptSet
from mmconv.benchmarks.choosing import choose
from mmconv.benchmarks.data_files.bad_records import bad_records_list, bad_records_table
from mmconv.benchmarks.fbbench.chains import answer_call
from mmconv.benchmarks.fbbench.data import Sample, Survey, load_samples, source_keys, survey
from mmconv.benchmarks.fbbench.grading import Grader
from mmconv.benchmarks.fbbench.options import CONDITION, FBBenchOptions
from mmconv.benchmarks.fbbench.scoring import score_answer, score_judgement
from mmconv.benchmarks.shared.options import named_conditions, read_options, require_judge
from mmconv.benchmarks.shared.scoring import Calls, Outcomes, Scores
from mmconv.core.config import RunSpec
from mmconv.core.keys import hash_files
from mmconv.core.protocols import ImageSink
from mmconv.core.types import Call, Sampling, Table


def build(spec: RunSpec, images: ImageSink) -> FBBench:
    """Check options and data; raises `ConfigError` or `DataError` before anything is paid."""
    options = read_options(FBBenchOptions, spec.options, "fbbench")
    return FBBench(spec, options)


class FBBench:
    """The benchmark; see `Benchmark`."""

    name = "fbbench"
    conditions = (CONDITION,)

    def __init__(self, spec: RunSpec, options: FBBenchOptions) -> None:
        self._spec = spec
        self._options = options
        named_conditions(self.name, spec.conditions, self.conditions)
        if not options.generate_only:
            require_judge(spec)
        self._survey = survey(
            options.data,
            # with bad samples left out, the same ones run whether a judge comes now or later
            reference=options.reference and (options.skip_bad_records or not options.generate_only),
            skip_bad=options.skip_bad_records,
            choice=choose(spec, source_keys(options.data)),
        )
        # A user's own prompts are checked even where no judge is asked.
        prompts = PromptSet(self.name, spec.prompts)
        self._grader = None if options.generate_only else _grader(prompts, options, self._survey)

    @property
    def size(self) -> int:
        """How many samples will be run."""
        return self._survey.intake.good

    @property
    def notes(self) -> tuple[str, ...]:
        """What the judge reads, the convention of response maintenance, and records left out."""
        return tuple(_notes(self._options, self._grader, self._survey))

    @property
    def facts(self) -> Mapping[str, Any]:
        """Hashes of data and prompts, conventions in force, and what the survey left out."""
        return {
            "data": hash_files([self._options.data]),
            "prompts": {} if self._grader is None else self._grader.prompts.digests(),
            "samples": self._survey.intake.good,
            "reference": self._grader is not None and self._grader.reference,
            "maintenance": self._options.maintenance,
            "left_out": bad_records_list(self._survey.intake.bad),
        }

    def load(self) -> Iterator[Sample]:
        """Stream the samples that the survey found good."""
        return load_samples(self._options.data, self._survey.intake)

    def key(self, sample: Sample) -> str:
        """The sample's ID, which is made of its query."""
        return sample.id

    def about(self, sample: Sample) -> Mapping[str, str]:
        """The checklist with its weights and, where there is one, the reference answer."""
        checklist = "\n".join(
            each.text if each.weight is None else f"{each.text} ({each.weight:g})"
            for each in sample.checklist
        )
        reference = {} if sample.reference is None else {"reference": sample.reference}
        return {"checklist": checklist, **reference}

    def plan(self, sample: Sample, condition: str) -> tuple[Call, ...]:
        """The answer to the feedback, and its judgement."""
        answer = answer_call(sample, self._options.max_tokens)
        return (answer,) if self._grader is None else (answer, self._grader.call(sample))

    def score(self, sample: Sample, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        """The answer's score by us and by the authors, and what is odd about its judgement."""
        yield from score_answer(sample, outcomes)
        if self._grader is not None:
            yield from score_judgement(sample, calls, outcomes, self._options.maintenance)

    def tables(self, scores: Scores) -> list[Table]:
        """The paper's tables and ours."""
        # numpy comes with them, and only the end of a run needs it
        from mmconv.benchmarks.fbbench.tables import build_tables
        from mmconv.stats import ScoreFrame

        seats = self._spec.seats
        judge = seats["judge"].label if self._grader is not None else "nobody"
        frames = {seats["candidate"].label: ScoreFrame.of(scores)}
        tables = build_tables(frames, judge=judge, notes=self.notes)
        return [*tables, *bad_records_table(self._survey.intake.bad)]


def _grader(prompts: PromptSet, options: FBBenchOptions, found: Survey) -> Grader:
    return Grader(
        prompts=prompts,
        sampling=Sampling(max_tokens=options.judge_max_tokens),
        retries=options.judge_retries,
        reference=found.referenced if options.reference is None else options.reference,
        json_mode=options.judge_settings == "code-exact",
    )


def _notes(options: FBBenchOptions, grader: Grader | None, found: Survey) -> Iterator[str]:
    if grader is not None:
        read = "with" if grader.reference else "without"
        yield f"Judged {read} reference answers."
    if options.maintenance == "all":
        yield (
            "Response maintenance counts only where all criteria are met (the paper's formula); "
            "the authors' columns count any."
        )
    yield from found.intake.notes()
