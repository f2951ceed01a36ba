"""A dialogue that a request holds, as a run of one sample: the body, its plans and its result.

A condition is a number: how many leading turns are answered by the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, StrictBool, StrictInt

from judges import read_verdict
from mmconv.api import (
    CallUsage,
    ConditionResult,
    Delta,
    DialogueResult,
    JudgedTurn,
    NamedScore,
    TurnResult,
)
from mmconv.benchmarks.base.sample import images_of
from mmconv.benchmarks.dialogue import (
    CONVBENCH_TURNS,
    OVERALL,
    Dialogue,
    DialogueOptions,
    DialogueSample,
    GradingName,
    Judgement,
    condition_name,
    count_given,
    score_name,
)
from mmconv.benchmarks.dialogue import DialogueTurn as SampleTurn
from mmconv.core.config import CANDIDATE, SamplingSpec, Strict
from mmconv.core.documents import name_place
from mmconv.core.judges import JUDGE
from mmconv.core.keys import hash_bytes
from mmconv.core.plans import Finished, Plan
from mmconv.core.types import Call, Failure, Image, Outcome, Reply, Skipped
from mmconv.service.models import presentable_outcomes, verdict_state
from mmconv.service.requests import NOT_SENT, Words

Condition: TypeAlias = (
    Literal["free", "perception", "reasoning"] | Annotated[StrictInt, Field(ge=0)]
)
"""One of ConvBench's settings by name, or the number of leading turns that are the reference."""

_JUDGED = ("gradings", "order", "prompts", "caption", "judge_sees_images", "retries")
"""The fields that only a judge reads."""


OPTIONS: Mapping[str, str] = {
    "gradings": "gradings",
    "order": "order",
    "prompts": "prompts",
    "judge_sees_images": "judge_sees_images",
    "judge_retries": "retries",
    "judge_max_tokens": "judge_max_tokens",
    "candidate_system": "system",
}
"""Option of the benchmark -> the field that sets it."""


class DialogueTurn(Strict):
    """What the user says, the correct answer, and criteria that a good answer satisfies.

    `images` (`image:<id>` or data URIs) are shown with this turn.
    """

    instruction: Words
    reference: Words | None = None
    focus_points: Words | None = None
    images: tuple[Words, ...] = ()


class DialogueSettings(Strict):
    """How dialogues are held and judged. See `DialogueRequest`."""

    model: Words
    system: Words | None = None
    conditions: tuple[Condition, ...] = Field(default=("free",), min_length=1, max_length=16)
    sampling: SamplingSpec = SamplingSpec()
    judge: Words | None = None
    gradings: tuple[GradingName, ...] = Field(default=("direct",), min_length=1)
    order: Literal["A", "B", "both"] = "both"
    prompts: Literal["dialogue", "convbench"] = "dialogue"
    judge_sees_images: StrictBool = False
    judge_max_tokens: StrictInt = Field(default=1024, gt=0)
    retries: StrictInt = Field(default=1, ge=0, le=5)

    @property
    def models(self) -> dict[str, str]:
        """The public names of the models, by role."""
        return {CANDIDATE: self.model} | ({} if self.judge is None else {JUDGE: self.judge})

    @property
    def given(self) -> tuple[int, ...]:
        """The conditions as numbers of given turns, least first."""
        return tuple(sorted({_number(condition) for condition in self.conditions}))

    @property
    def options(self) -> dict[str, Any]:
        """The benchmark's options that the request sets. Its defaults are the benchmark's."""
        options = {
            option: getattr(self, field)
            for option, field in OPTIONS.items()
            if field in self.model_fields_set
        }
        return options | ({"generate_only": True} if self.judge is None else {})


class DialogueContent(Strict):
    """What is said and shown. See `DialogueRequest`."""

    turns: tuple[DialogueTurn, ...] = Field(min_length=1)
    images: tuple[Words, ...] = ()
    caption: Words | None = None


class DialogueRequest(DialogueSettings, DialogueContent):
    """A dialogue to be held with `model`, once under each condition, and judged by `judge`.

    `images` (`image:<id>` or data URIs) are shown with the first turn, before its own. `caption`
    describes them to a judge that does not see them. `gradings` are `direct` (1-10) and `pairwise`
    (against the references; `order` is the model's side, or both in turn). `prompts` "convbench"
    judges by ConvBench's own prompts, which need three turns, one image with turn 1, a caption and
    all references.
    """

    def sample(self, images: Sequence[tuple[Image, ...]]) -> DialogueSample:
        """The dialogue as the benchmark's sample; `images` are those of each turn."""
        # Not validated: a data file's texts may not be blank, and those of a request may.
        turns = (
            SampleTurn.model_construct(**{**dict(turn), "images": shown})
            for turn, shown in zip(self.turns, images, strict=True)
        )
        return DialogueSample.model_construct(
            id=hash_bytes(self.model_dump_json().encode())[:12],
            turns=tuple(turns),
            caption=self.caption,
        )

    def faults(self) -> Iterator[tuple[str, str]]:
        """The problems of the request that types cannot express: a field and a message."""
        if len(self.given) < len(self.conditions):
            yield "conditions", "one of them is repeated"
        if self.judge is None:
            named = [name for name in _JUDGED if name in self.model_fields_set]
            yield from (("judge", f"needed, since {name} is given") for name in named)
        counts = [len(turn.images) for turn in self.turns]
        counts[0] += len(self.images)
        sample = self.sample([(NOT_SENT,) * count for count in counts])
        options = DialogueOptions.model_validate({"data": "unused", **self.options})
        for place, message in sample.faults(options, max(self.given)):
            yield name_place(place, first=0), message
        if self.judge is None:
            return
        if any(counts) and self.caption is None and not self.judge_sees_images:
            yield "caption", "the judge needs it, or judge_sees_images, to know the images"
        if self.judge_sees_images and not any(counts):
            yield "judge_sees_images", "the dialogue has no images"
        if self.prompts == "convbench":
            for number, turn in enumerate(self.turns[: CONVBENCH_TURNS - 1]):
                if turn.focus_points is not None:
                    field = f"turns[{number}].focus_points"
                    yield field, "ConvBench's prompts read those of turn 3"


def _number(condition: Condition) -> int:
    return count_given(condition) if isinstance(condition, str) else condition


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueRun:
    """A run of the benchmark with the one sample that a request holds."""

    request: DialogueRequest
    benchmark: Dialogue
    sample: DialogueSample

    def plans(self) -> tuple[Plan, ...]:
        """One plan for each condition, the fewest given turns first."""
        return tuple(
            Plan(
                order=order,
                sample=self.sample.id,
                condition=condition,
                calls=self.benchmark.calls(self.sample, condition),
            )
            for order, condition in enumerate(map(condition_name, self.request.given))
        )

    def result(self, finished: Iterable[Finished]) -> DialogueResult:
        """The result for clients when all plans are finished, in any order."""
        ended = sorted(finished, key=lambda result: result.plan.order)
        conditions = tuple(
            self._condition(given, result)
            for given, result in zip(self.request.given, ended, strict=True)
        )
        scores = tuple(score for condition in conditions for score in _scores(condition))
        return DialogueResult(
            model=self.request.model,
            judge=self.request.judge,
            lost=sum(
                isinstance(outcome, Failure)
                or (isinstance(outcome, Skipped) and outcome.reason == "loss")
                for result in ended
                for outcome in result.outcomes.values()
            ),
            conditions=conditions,
            deltas=tuple(_deltas(conditions, scores)),
            usage=_usage(ended),
            scores=scores,
        )

    def _condition(self, given: int, finished: Finished) -> ConditionResult:
        calls = {call.id: call for call in finished.plan.calls}
        outcomes = presentable_outcomes(finished)
        judged: dict[int, list[JudgedTurn]] = {}
        if self.request.judge is not None:
            for judgement in self.benchmark.judgements(self.sample, finished.plan.condition):
                verdict = _judged(judgement, calls[judgement.call], outcomes)
                judged.setdefault(judgement.turn, []).append(verdict)
        turns = []
        for number, turn in enumerate(self.sample.turns, start=1):
            result = TurnResult(turn=number, instruction=turn.instruction, given=number <= given)
            if number <= given:
                turns.append(replace(result, text=turn.reference))
            else:
                result = replace(result, judgements=tuple(judged.get(number, ())))
                turns.append(self._answered(result, outcomes[f"turn_{number}"]))
        return ConditionResult(
            condition=finished.plan.condition,
            given=given,
            turns=tuple(turns),
            overall=tuple(judged.get(OVERALL, ())),
        )

    def _answered(self, turn: TurnResult, outcome: Outcome) -> TurnResult:
        match outcome:
            case Failure():
                return replace(turn, failed=outcome.kind, problem=outcome.message)
            case Skipped():
                return replace(turn, skipped=outcome.because)
        # a model that was sent an image's own file saw its media type
        types = {image.sha256: image.media_type for image in images_of(self.sample)}
        return replace(
            turn,
            text=outcome.text,
            reasoning=outcome.reasoning,
            finish=outcome.finish,
            input_tokens=outcome.input_tokens,
            output_tokens=outcome.output_tokens,
            seen=tuple(
                replace(image, media_type=image.media_type or types[image.sha256])
                for image in outcome.seen
            ),
        )


def _judged(judgement: Judgement, call: Call, outcomes: Mapping[str, Outcome]) -> JudgedTurn:
    reading = read_verdict(call, outcomes)
    verdict = reading.verdict
    outcome = outcomes[reading.call]
    return JudgedTurn(
        grading=judgement.grading,
        side=judgement.side,
        state=verdict_state(outcome, is_read=verdict is not None),
        score=None if verdict is None else judgement.value(verdict),
        choice=None if verdict is None else verdict.label,
        why=reading.why,
        problem=outcome.message if isinstance(outcome, Failure) else None,
        rationale="" if verdict is None else verdict.rationale,
        reply=outcome.text if isinstance(outcome, Reply) else None,
        prompt=str(call.prompt),
    )


def _scores(result: ConditionResult) -> Iterator[NamedScore]:
    of_turns = ((turn.turn, turn.judgements) for turn in result.turns)
    groups: dict[tuple[GradingName, int], list[JudgedTurn]] = {}
    for number, judgements in [*of_turns, (OVERALL, result.overall)]:
        for judgement in judgements:
            groups.setdefault((judgement.grading, number), []).append(judgement)
    for (grading, turn), judged in groups.items():
        why = next((judgement.why for judgement in judged if judgement.score is None), None)
        yield NamedScore(
            name=score_name(turn, result.given),
            grading=grading,
            condition=result.condition,
            turn=turn,
            value=fmean(judgement.score or 0.0 for judgement in judged) if why is None else None,
            why=why,
        )


def _deltas(conditions: Sequence[ConditionResult], scores: Sequence[NamedScore]) -> Iterator[Delta]:
    """Of each condition to the one before it, then to the first, for every turn scored in both."""
    names = [condition.condition for condition in conditions]
    known = {(score.condition, score.grading, score.turn): score for score in scores}
    for start, goal in [*pairwise(names), *((names[0], name) for name in names[2:])]:
        for after in (score for score in scores if score.condition == goal):
            before = known[start, after.grading, after.turn]
            sides = (before, after)
            reasons = (f"{side.condition}: {side.why}" for side in sides if side.value is None)
            why = next(reasons, None)
            yield Delta(
                name=f"{after.name} - {before.name}",
                grading=after.grading,
                turn=after.turn,
                start=start,
                goal=goal,
                value=(after.value or 0.0) - (before.value or 0.0) if why is None else None,
                why=why,
            )


def _usage(finished: Iterable[Finished]) -> CallUsage:
    """The calls and their tokens; a cached reply has cost nothing."""
    requested = cached = read = written = 0
    for result in finished:
        for call_id, outcome in result.outcomes.items():
            if not isinstance(outcome, Reply):
                continue
            if result.resolved[call_id].cached:
                cached += 1
                continue
            requested += 1
            read += outcome.input_tokens or 0
            written += outcome.output_tokens or 0
    return CallUsage(requested=requested, cached=cached, input_tokens=read, output_tokens=written)
