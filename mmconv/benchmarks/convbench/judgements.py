"""A finished conversation judged as ConvBench judges it: a turn or the whole, rated or compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, TypeAlias, get_args

from pydantic import StrictBool

from judges import read_verdict
from mmconv.benchmarks.convbench.data import Row
from mmconv.benchmarks.convbench.grading import OVERALL, Grader, PlannedJudgement, build_judges
from mmconv.benchmarks.convbench.options import GradingOptions
from mmconv.benchmarks.convbench.scoring import worth
from mmconv.benchmarks.convbench.sides import Side
from mmconv.benchmarks.shared.judgements import (
    SAMPLE,
    ByField,
    FinishedTurn,
    JudgementRequest,
    Supplies,
    Words,
    with_answers,
)
from mmconv.benchmarks.shared.scoring import Outcomes
from mmconv.core.types import Call, Image, Score

Prompt: TypeAlias = Literal[
    "direct_turn_1",
    "direct_turn_2",
    "direct_turn_3",
    "direct_overall",
    "pairwise_turn_1",
    "pairwise_turn_2",
    "pairwise_turn_3",
    "pairwise_overall",
]

_UNSEEN = Image(sha256="", media_type="", width=0, height=0)
"""Stands for the picture that a row has and that this judge is not shown."""


class ReferencedTurn(FinishedTurn):
    """One turn with the human's answer to it."""

    reference: Words


class ConvBenchJudgement(JudgementRequest):
    """Three turns with the human's answers, and the `caption`, which tells what the image shows.

    `pairwise_...` compares the answers with the human's; the answers stand on `side`. The judge of
    turn 3 reads `focus_points` where they are given, that of the whole conversation the
    `judgements` of the turns. With `extraction` a second prompt asks what an unreadable judgement
    decided. An `image` (`image:<id>` or a data URI) is shown to the judge beside the caption.
    """

    needing: ClassVar[ByField] = {
        "side": [each for each in get_args(Prompt) if each.startswith("pairwise")]
    }
    reading: ClassVar[ByField] = {
        "focus_points": ("direct_turn_3", "pairwise_turn_3"),
        "judgements": ("direct_overall", "pairwise_overall"),
    }

    benchmark: Literal["convbench"]
    prompt: Prompt
    turns: tuple[ReferencedTurn, ReferencedTurn, ReferencedTurn]
    caption: Words
    image: Words | None = None
    focus_points: Words | None = None
    judgements: tuple[Words, Words, Words] | None = None
    side: Side | None = None
    extraction: StrictBool = True

    def call(self, supplies: Supplies) -> Call:
        """The judgement that the prompt names."""
        graded = self._graded
        options = GradingOptions(
            grading=(graded.grading,),
            order="authors",
            turn_judgements=self.judgements is not None,
            judge_sees_image=supplies.picture is not None,
            judge_retries=self.retries,
            extraction=self.extraction,
            judge_max_tokens=self.max_tokens,
        )
        judges = build_judges(options, supplies.prompts, offline=supplies.offline)
        grader = Grader(options=options, prompts=supplies.prompts, judges=judges)
        calls = grader.calls(self._row(supplies.picture), "free")
        found = next(call for call in calls if call.id == graded.call)
        return with_answers(found, self._answers())

    def scores(self, call: Call, outcomes: Outcomes) -> Iterator[Score]:
        """The rating, or 1 if the answers won and 0 if not."""
        graded = self._graded
        reading = read_verdict(call, outcomes)
        yield Score(
            sample=SAMPLE,
            condition="free",
            metric="rating" if graded.side is None else "win",
            turn=graded.turn,
            value=None if reading.verdict is None else worth(graded, reading.verdict),
            why=reading.why,
        )

    @property
    def _graded(self) -> PlannedJudgement:
        turn = OVERALL if self.prompt.endswith("overall") else int(self.prompt[-1])
        if self.prompt.startswith("direct"):
            return PlannedJudgement(grading="direct", turn=turn)
        return PlannedJudgement(grading="pairwise", turn=turn, side=self.side)

    def _answers(self) -> dict[str, str]:
        """The texts that the judge's prompt refers to: answers, and judgements of the turns."""
        answers = {
            f"turn_{number}": turn.assistant for number, turn in enumerate(self.turns, start=1)
        }
        for number, text in enumerate(self.judgements or (), start=1):
            made = PlannedJudgement(grading=self._graded.grading, turn=number, side=self.side)
            answers[made.call] = text
        return answers

    def _row(self, picture: Image | None) -> Row:
        first, second, third = self.turns
        return Row(
            id=SAMPLE,
            image=picture or _UNSEEN,
            instructions=(first.user, second.user, third.user),
            caption=self.caption,
            references=(first.reference, second.reference, third.reference),
            focus_points=self.focus_points,
            categories=(None, None, None),
            position=self.side,
            draft=False,
        )
