"""CMT-Eval as a benchmark: options, files, plans, scores and tables put together.

Source: Tian et al., CMT-Eval (paper and authors' repository); every switch is in `options`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from judges import PromptSet
from mmconv.benchmarks.choosing import choose
from mmconv.benchmarks.cmteval.chains import candidate_calls
from mmconv.benchmarks.cmteval.data import Dialogue, Source, load_dialogues, source_keys, survey
from mmconv.benchmarks.cmteval.grading import Grader
from mmconv.benchmarks.cmteval.options import CONDITION, CMTEvalOptions
from mmconv.benchmarks.cmteval.scoring import score_dialogue
from mmconv.benchmarks.cmteval.subset_files import find_files, find_references
from mmconv.benchmarks.data_files.bad_records import bad_records_list, bad_records_table
from mmconv.benchmarks.shared.options import named_conditions, read_options, require_judge
from mmconv.benchmarks.shared.scoring import Calls, Outcomes, Scores
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_file
from mmconv.core.protocols import ImageSink
from mmconv.core.types import Call, Table


def build(spec: RunSpec, images: ImageSink) -> CMTEval:
    """Check options and data; raises `ConfigError` or `DataError` before anything is paid."""
    return CMTEval(spec, read_options(CMTEvalOptions, spec.options, "cmteval"))


class CMTEval:
    """The benchmark; see `Benchmark`."""

    name = "cmteval"
    conditions = (CONDITION,)

    def __init__(self, spec: RunSpec, options: CMTEvalOptions) -> None:
        named_conditions(self.name, spec.conditions, self.conditions)
        if not options.generate_only:
            require_judge(spec)
        self._spec = spec
        self._options = options
        # A user's own prompts are checked even where no judge is asked.
        prompts = PromptSet(self.name, spec.prompts)
        self._grader = None if options.generate_only else Grader(prompts=prompts, options=options)
        files = find_files(options)
        self._source = Source(
            files=files,
            references=_references(options) if "long-text" in files else None,
            skip_bad=options.skip_bad_records,
            choice=choose(spec, source_keys(files)),
        )
        self._intake = survey(self._source)

    @property
    def size(self) -> int:
        """How many dialogues will be run."""
        return self._intake.good

    @property
    def notes(self) -> tuple[str, ...]:
        """How the dialogues were chosen, and records left out."""
        return tuple(self._intake.notes())

    @property
    def facts(self) -> Mapping[str, Any]:
        """Hashes of the data files and prompts, and what the survey left out."""
        files = dict(self._source.files)
        hashes = {str(subset): hash_file(path) for subset, path in files.items()}
        if self._source.references is not None:
            hashes["references"] = hash_file(self._source.references)
        return {
            "data": hashes,
            "prompts": {} if self._grader is None else self._grader.prompts.digests(),
            "dialogues": self._intake.good,
            "left_out": bad_records_list(self._intake.bad),
        }

    def load(self) -> Iterator[Dialogue]:
        """Stream the dialogues that the survey found good, subset by subset."""
        return load_dialogues(self._source, self._intake)

    def key(self, sample: Dialogue) -> str:
        """Subset and identifier."""
        return sample.key

    def about(self, sample: Dialogue) -> Mapping[str, str]:
        """The persona and the pattern of speech acts."""
        return {"persona": sample.persona, "pattern": sample.pattern}

    def plan(self, sample: Dialogue, condition: str) -> tuple[Call, ...]:
        """A call per turn, and the one that judges them all."""
        calls = candidate_calls(sample, self._options.max_tokens)
        return calls if self._grader is None else (*calls, self._grader.call(sample))

    def score(self, sample: Dialogue, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        """IS, Adp and TLS by turn, DLS by dialogue, and how the replies ended."""
        return score_dialogue(sample, calls, outcomes, self._spec.seats["candidate"].label)

    def tables(self, scores: Scores) -> list[Table]:
        """The paper's tables and ours."""
        # numpy comes with them, and only the end of a run needs it
        from mmconv.benchmarks.cmteval.tables import build_tables

        judge = self._spec.seats.get("judge")
        label = "nobody" if judge is None or self._grader is None else judge.label
        tables = build_tables(scores, judge=label, notes=self.notes)
        return [*tables, *bad_records_table(self._intake.bad)]


def _references(options: CMTEvalOptions) -> Path | None:
    """The references that judging Long-Text needs.

    With bad records left out they are read without a judge too, if they are there: the same
    dialogues run whether a judge comes now or later.
    """
    if not options.generate_only:
        return find_references(options)
    with suppress(ConfigError):
        return find_references(options) if options.skip_bad_records else None
    return None
