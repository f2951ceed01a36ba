"""A finished dialogue judged as FB-Bench judges it: the answer to feedback, by a checklist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from judges.parsers.fbbench import Criterion
from mmconv.benchmarks.fbbench.chains import ANSWER
from mmconv.benchmarks.fbbench.data import Sample, misfits
from mmconv.benchmarks.fbbench.grading import JUDGEMENT, Grader
from mmconv.benchmarks.fbbench.options import TEMPERATURES, JudgeSettings, Maintenance
from mmconv.benchmarks.fbbench.scoring import score_judgement
from mmconv.benchmarks.shared.judgements import (
    SAMPLE,
    Fault,
    FinishedTurn,
    JudgementRequest,
    Supplies,
    Words,
    with_answers,
)
from mmconv.benchmarks.shared.scoring import Outcomes
from mmconv.core.types import Call, Reply, Sampling, Score


class ChecklistItem(BaseModel):
    """One criterion; in error correction it has a weight, and all weights sum to 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: Words
    weight: float | None = Field(default=None, gt=0, le=1)


class FBBenchJudgement(JudgementRequest):
    """Two turns: a question with the answer to it, feedback with the answer that is judged.

    `scenario` and `maintenance` decide how the checklist adds up. A `reference` answer to the
    feedback is read by the judge where it is given.
    """

    benchmark: Literal["fbbench"]
    prompt: Literal["judge"]
    scenario: Literal["Error Correction", "Response Maintenance"]
    turns: tuple[FinishedTurn, FinishedTurn]
    checklist: tuple[ChecklistItem, ...] = Field(min_length=1)
    reference: Words | None = None
    maintenance: Maintenance = "any"
    judge_settings: JudgeSettings = "schema"
    retries: StrictInt = Field(default=2, ge=0, le=5)
    max_tokens: StrictInt = Field(default=4096, gt=0)

    def faults(self) -> Iterator[Fault]:
        """Weights that do not suit the scenario, and criteria that stand there twice."""
        for fault in misfits(self._sample()):
            yield "checklist", fault.removeprefix("checklist: ").removeprefix("checklist ")

    def call(self, supplies: Supplies) -> Call:
        """The judgement of the second answer."""
        grader = Grader(
            prompts=supplies.prompts,
            sampling=Sampling(max_tokens=self.max_tokens),
            retries=self.retries,
            reference=self.reference is not None,
            json_mode=self.judge_settings == "code-exact",
        )
        return with_answers(grader.call(self._sample()), {ANSWER: self.turns[1].assistant})

    def scores(self, call: Call, outcomes: Outcomes) -> Iterator[Score]:
        """The weighted score, the authors' own, and the reply's departures from the checklist."""
        answer = Reply(text=self.turns[1].assistant)
        known = {**outcomes, ANSWER: answer}
        yield from score_judgement(self._sample(), {JUDGEMENT: call}, known, self.maintenance)

    def _sample(self) -> Sample:
        (query, first_answer), (feedback, _) = ((turn.user, turn.assistant) for turn in self.turns)
        return Sample(
            id=SAMPLE,
            scenario=self.scenario,
            task=next(iter(TEMPERATURES)),  # It decides only how a candidate is asked.
            subtask="",
            query=query,
            first_answer=first_answer,
            feedback=feedback,
            deficiencies=(),
            feedback_types=(),
            checklist=tuple(
                Criterion(text=item.text, weight=item.weight) for item in self.checklist
            ),
            reference=self.reference,
        )
