"""A finished dialogue judged as FB-Bench judges it: the answer to feedback, by a checklist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from judges.parsers.fbbench import Criterion
from mmconv.benchmarks.fbbench.benchmark import (
    ANSWER,
    JUDGEMENT,
    TEMPERATURES,
    FBBenchOptions,
    JudgeSettings,
    Maintenance,
    Sample,
    judgement_call,
    misfits,
    score_judgement,
)
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
from mmconv.core.types import Call, Reply, Score


class ChecklistItem(BaseModel):
    """One criterion; in error correction it has a weight, and all weights sum to 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: Words
    weight: float | None = Field(default=None, gt=0, le=1)


class FBBenchJudgement(JudgementRequest):
    """Two turns: a question with the answer to it, feedback with the answer that is judged.

    `scenario` and `maintenance` decide how the checklist adds up. A `reference` answer to the
    feedback is read by the judge if it is given.
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
        """Weights that do not suit the scenario, and criteria that are listed twice."""
        for fault in misfits(self._sample()):
            yield "checklist", fault.removeprefix("checklist: ").removeprefix("checklist ")

    def call(self, supplies: Supplies) -> Call:
        """The judgement of the second answer."""
        options = FBBenchOptions(
            data=Path(),
            judge_settings=self.judge_settings,
            judge_retries=self.retries,
            judge_max_tokens=self.max_tokens,
        )
        call = judgement_call(self._sample(), self.reference, supplies.prompts, options)
        return with_answers(call, {ANSWER: self.turns[1].assistant})

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
            task=next(iter(TEMPERATURES)),  # it decides only the candidate's temperature
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
