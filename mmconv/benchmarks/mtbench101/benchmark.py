"""MT-Bench-101 as a benchmark: options, data, chains, grading and tables put together.

Source: Bai et al., MT-Bench-101 (paper and the authors' evaluation code); every switch is in
`options`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from judges import PromptSet
from mmconv.benchmarks.choosing import choose
from mmconv.benchmarks.data_files.bad_records import bad_records_list, bad_records_table
from mmconv.benchmarks.layouts import Context
from mmconv.benchmarks.mtbench101.chains import candidate_calls
from mmconv.benchmarks.mtbench101.data import (
    Dialogue,
    describe_data,
    load_dialogues,
    source_keys,
    survey,
)
from mmconv.benchmarks.mtbench101.grading import Grader
from mmconv.benchmarks.mtbench101.options import CONDITIONS, SELF, MTBench101Options
from mmconv.benchmarks.mtbench101.scoring import Judged, score_answers, score_dialogue
from mmconv.benchmarks.shared.options import named_conditions, read_options, require_judge
from mmconv.benchmarks.shared.scoring import Calls, Outcomes, Scores
from mmconv.core.config import RunSpec
from mmconv.core.keys import hash_files
from mmconv.core.protocols import ImageSink
from mmconv.core.types import Call, Sampling, Score, Table


def build(spec: RunSpec, images: ImageSink) -> MTBench101:
    """Check options and data; raises `ConfigError` or `DataError` before anything is paid."""
    options = read_options(MTBench101Options, spec.options, "mtbench101")
    return MTBench101(spec, options)


class MTBench101:
    """The benchmark; see `Benchmark`."""

    name = "mtbench101"

    def __init__(self, spec: RunSpec, options: MTBench101Options) -> None:
        self._spec = spec
        self._options = options
        self.conditions = named_conditions(self.name, spec.conditions, CONDITIONS) or CONDITIONS[:1]
        if not options.generate_only:
            require_judge(spec)
        # A user's own prompts are checked even where no judge is asked.
        prompts = PromptSet(self.name, spec.prompts)
        self._grader = None if options.generate_only else Grader(options=options, prompts=prompts)
        self._intake = survey(
            options.data,
            skip_bad=options.skip_bad_records,
            choice=choose(spec, source_keys(options.data)),
        )

    @property
    def size(self) -> int:
        """How many dialogues will be run."""
        return self._intake.good

    @property
    def notes(self) -> tuple[str, ...]:
        """Records left out, and a judge's prompt without its guidelines."""
        return tuple(self._notes())

    @property
    def facts(self) -> Mapping[str, Any]:
        """Hashes of the data file and the prompts, and what the survey left out."""
        return {
            "data": hash_files([self._options.data]),
            "prompts": {} if self._grader is None else self._grader.prompts.digests(),
            "dialogues": self._intake.good,
            "left_out": bad_records_list(self._intake.bad),
        }

    def load(self) -> Iterator[Dialogue]:
        """Stream the dialogues that the survey found good."""
        return load_dialogues(self._options.data, self._intake)

    def data_table(self) -> Table:
        """The statistics of the data by task, which `mmconv check` prints."""
        return describe_data(self.load())

    def key(self, sample: Dialogue) -> str:
        """The dialogue's ID."""
        return sample.id

    def about(self, sample: Dialogue) -> Mapping[str, str]:
        """The answers of the golden history, by turn."""
        answers = (exchange.bot for exchange in sample.history)
        return {f"golden answer {turn}": text for turn, text in enumerate(answers, start=1)}

    def plan(self, sample: Dialogue, condition: str) -> tuple[Call, ...]:
        """The candidate's own turns under the condition, and their judgements."""
        sampling = Sampling(max_tokens=self._options.max_tokens)
        calls = candidate_calls(sample, condition, sampling, self._options.candidate_system)
        if self._grader is None:
            return calls
        return (*calls, *self._grader.calls(sample, condition))

    def score(
        self, sample: Dialogue, condition: str, calls: Calls, outcomes: Outcomes
    ) -> Iterator[Score]:
        """How the answers ended, the turns' ratings by both readings, the dialogue's score."""
        judged = Judged(sample=sample.id, task=sample.task, condition=condition)
        yield from score_answers(judged, sample.own_turns, outcomes)
        if self._grader is not None:
            yield from score_dialogue(
                judged, sample.own_turns, calls, outcomes, minimum=self._options.minimum
            )

    def tables(self, scores: Scores) -> list[Table]:
        """The paper's tables and ours."""
        # numpy comes with them, and only the end of a run needs it
        from mmconv.benchmarks.mtbench101.metrics import build_tables
        from mmconv.stats import ScoreFrame

        seats = self._spec.seats
        context = Context(
            candidate=seats["candidate"].label,
            judge=seats["judge"].label if "judge" in seats else "nobody",
            notes=self.notes,
        )
        frames = {context.candidate: ScoreFrame.of(scores)}
        tables = build_tables(frames, self._spec.options, context)
        return [*tables, *bad_records_table(self._intake.bad)]

    def _notes(self) -> Iterator[str]:
        if len(self.conditions) > 1:
            yield "Where no history is named, it is the golden one."
        if self.conditions == (SELF,):
            yield "The history is the candidate's own; the paper's results have the golden one."
        if not self._options.guidelines:
            yield "The judge was given no score guidelines."
        yield from self._intake.notes()
