"""From a request to plans, one for each condition; nothing is asked here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from judges import PromptSet
from mmconv.benchmarks.convbench.data import Row, Triple
from mmconv.benchmarks.convbench.grading import Grader as ConvBenchGrader
from mmconv.benchmarks.convbench.grading import build_judges
from mmconv.benchmarks.convbench.options import GradingOptions
from mmconv.core.errors import PlanError
from mmconv.core.keys import hash_bytes
from mmconv.core.plans import Plan
from mmconv.core.turns import Turn, chain
from mmconv.core.types import Call, Text
from mmconv.dialogues.grading import AsConvBench, Grader, Pictures, TurnGrader
from mmconv.dialogues.request import DialogueRequest, condition_name

PROMPTS = ("dialogue", "convbench", "convbench_reference")
"""The sets of prompt files that dialogues are judged by; the last one is the overlap measure's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """A request without faults, its images by turn, and its grader, None where nobody judges."""

    request: DialogueRequest
    pictures: Pictures
    grader: Grader | None

    @classmethod
    def of(
        cls,
        request: DialogueRequest,
        pictures: Pictures,
        prompts: Mapping[str, PromptSet],
        *,
        offline: bool = False,
    ) -> Dialogue:
        """Put a dialogue together; `prompts` are those of `PROMPTS`, by name.

        `pictures` are those of each turn; the request's own are the first of turn 1.
        `offline` says that the judge is the overlap measure, which reads ConvBench's layout only.
        """
        grader = None
        if request.judge is not None:
            grader = _grader(request, pictures, prompts, offline=offline)
        return cls(request=request, pictures=pictures, grader=grader)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """One plan for each condition, fewest given turns first."""
        name = hash_bytes(self.request.model_dump_json().encode())[:12]
        return tuple(
            Plan(
                order=order,
                sample=name,
                condition=condition_name(given),
                calls=(*self._answers(given), *self._judgements(given)),
            )
            for order, given in enumerate(self.request.given)
        )

    def _answers(self, given: int) -> tuple[Call, ...]:
        turns = []
        for number, turn in enumerate(self.request.turns, start=1):
            text = Text(text=turn.instruction)
            turns.append(
                Turn(
                    user=(*self.pictures[number - 1], text),
                    answer=turn.reference if number <= given else None,
                    generate=number > given,
                )
            )
        request = self.request
        return chain(turns, seat="candidate", sampling=request.drawn, system=request.system)

    def _judgements(self, given: int) -> tuple[Call, ...]:
        return () if self.grader is None else tuple(self.grader.calls(given))


def _grader(
    request: DialogueRequest,
    pictures: Pictures,
    prompts: Mapping[str, PromptSet],
    *,
    offline: bool,
) -> Grader:
    options = GradingOptions(
        grading=request.gradings,
        order="both" if request.order == "both" else "authors",
        judge_sees_image=request.judge_sees_images and request.prompts == "convbench",
        judge_retries=request.retries,
        judge_max_tokens=request.judge_max_tokens,
    )
    if request.prompts == "dialogue":
        return TurnGrader(
            request=request,
            prompts=prompts["dialogue"],
            judges=build_judges(options, prompts["convbench"]),
            shown=pictures if request.judge_sees_images else ((),) * len(pictures),
        )
    own = prompts["convbench_reference" if offline else "convbench"]
    judges = build_judges(options, own, offline=offline)
    grader = ConvBenchGrader(options=options, prompts=own, judges=judges)
    return AsConvBench(grader=grader, row=_row(request, pictures))


def _row(request: DialogueRequest, pictures: Pictures) -> Row:
    """The request as a row of ConvBench; its faults would have told if it is none."""
    first, second, third = request.turns
    references: Triple = (first.reference, second.reference, third.reference)
    [picture] = pictures[0]
    if request.caption is None:
        raise PlanError("ConvBench's prompts need a caption")
    return Row(
        id="request",
        image=picture,
        instructions=(first.instruction, second.instruction, third.instruction),
        caption=request.caption,
        references=references,
        focus_points=third.focus_points,
        categories=(None, None, None),
        position=None if request.order == "both" else request.order,
        draft=False,
    )
