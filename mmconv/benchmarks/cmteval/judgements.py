"""A finished dialogue judged as CMT-Eval judges it: one judgement that scores every turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field, StrictInt

from mmconv.benchmarks.cmteval.data import Dialogue, Reference, UserTurn, split_long_text
from mmconv.benchmarks.cmteval.fields import ACTS
from mmconv.benchmarks.cmteval.grading import Grader
from mmconv.benchmarks.cmteval.options import GradingOptions, JudgeSettings
from mmconv.benchmarks.cmteval.scoring import score_judgement
from mmconv.benchmarks.shared.judgements import (
    SAMPLE,
    ByField,
    Fault,
    FinishedTurn,
    JudgementRequest,
    Supplies,
    Words,
    with_answers,
)
from mmconv.benchmarks.shared.scoring import Outcomes
from mmconv.core.types import Call, Score

LONG_TEXT = "judge_long_text"
"""The prompt whose judge reads a summary and QA pairs in place of the text that was asked about."""


_ACT = (
    "The user's speech acts as the data name them, several joined by `+`: "
    f"{', '.join(f'`{act}` ({meaning})' for act, meaning in ACTS.items())}."
)


class SpokenTurn(FinishedTurn):
    """One turn; `act` names the user's speech acts."""

    act: Words = Field(description=_ACT)


class CMTEvalJudgement(JudgementRequest):
    """A dialogue whose every turn is scored for synthesis and adaptability, 1 to 5.

    For `judge_long_text` the first user message is the long text, one line break, and the question;
    the judge reads the question only, and `summary` and `qa_pairs` instead of the text.
    """

    needing: ClassVar[ByField] = dict.fromkeys(("summary", "qa_pairs"), (LONG_TEXT,))

    benchmark: Literal["cmteval"]
    prompt: Literal["judge_dialogue", "judge_long_text"]
    turns: tuple[SpokenTurn, ...] = Field(min_length=1)
    summary: Words | None = None
    qa_pairs: Words | None = None
    judge_settings: JudgeSettings = "paper"
    max_tokens: StrictInt = Field(default=8192, gt=0)

    def faults(self) -> Iterator[Fault]:
        """Beside fields that are lacking or not read: speech acts and a long text that are none."""
        yield from super().faults()
        for place, turn in enumerate(self.turns):
            for act in turn.act.split("+"):
                if act.strip() not in ACTS:
                    known = ", ".join(ACTS)
                    yield f"turns[{place}].act", f"no speech act {act!r}; known are {known}"
        if self.prompt == LONG_TEXT and split_long_text(self.turns[0].user) is None:
            yield "turns[0].user", "must be the long text, one line break, and the question"

    def call(self, supplies: Supplies) -> Call:
        """The judgement of the dialogue."""
        options = GradingOptions(
            judge_settings=self.judge_settings,
            judge_retries=self.retries,
            judge_max_tokens=self.max_tokens,
        )
        call = Grader(prompts=supplies.prompts, options=options).call(self._dialogue())
        answers = {
            f"turn_{number}": turn.assistant for number, turn in enumerate(self.turns, start=1)
        }
        return with_answers(call, answers)

    def scores(self, call: Call, outcomes: Outcomes) -> Iterator[Score]:
        """DLS, then every turn's IS, Adp and TLS, and what is odd about the judgement."""
        found = list(score_judgement(self._dialogue(), call, outcomes, model=SAMPLE))
        yield from sorted(found, key=lambda score: score.metric != "DLS")

    def _dialogue(self) -> Dialogue:
        reference = None
        if self.summary is not None and self.qa_pairs is not None:
            reference = Reference(summary=self.summary, qa_pairs=self.qa_pairs)
        return Dialogue(
            subset="long-text" if self.prompt == LONG_TEXT else "standard",
            id=SAMPLE,
            pattern="",
            persona="",
            turns=tuple(
                UserTurn(number=number, query=turn.user, label=turn.act, acts=(), strategy=None)
                for number, turn in enumerate(self.turns, start=1)
            ),
            reference=reference,
        )
