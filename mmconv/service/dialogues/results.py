"""A dialogue as a run of one sample: its plans, and the result of their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Literal, TypeAlias

from judges import read_verdict
from mmconv.api import (
    CallUsage,
    ConditionResult,
    Delta,
    DialogueResult,
    JudgedTurn,
    TurnResult,
)
from mmconv.benchmarks.base.sample import images_of
from mmconv.benchmarks.dialogue import OVERALL, Dialogue, DialogueSample, Judgement, condition_name
from mmconv.core.plans import Finished, Plan
from mmconv.core.types import Call, Failure, Outcome, Reply, SeenImage, Skipped
from mmconv.service.dialogues.request import DialogueRequest
from mmconv.service.inline import presentable_outcomes, verdict_state

_Grading: TypeAlias = Literal["direct", "pairwise"]
_Scores: TypeAlias = dict[tuple[_Grading, int], list[JudgedTurn]]


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
        ended = sorted(finished, key=lambda each: each.plan.order)
        conditions = tuple(
            self._condition(given, each)
            for given, each in zip(self.request.given, ended, strict=True)
        )
        return DialogueResult(
            model=self.request.model,
            judge=self.request.judge,
            lost=sum(_is_lost(outcome) for each in ended for outcome in each.outcomes.values()),
            conditions=conditions,
            deltas=tuple(_deltas(conditions)),
            usage=_usage(ended),
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
        return replace(
            turn,
            text=outcome.text,
            reasoning=outcome.reasoning,
            finish=outcome.finish,
            input_tokens=outcome.input_tokens,
            output_tokens=outcome.output_tokens,
            seen=tuple(self._with_type(image) for image in outcome.seen),
        )

    def _with_type(self, seen: SeenImage) -> SeenImage:
        """The image with the media type of its own file, if the model was sent that."""
        if seen.media_type:
            return seen
        own = next(image for image in images_of(self.sample) if image.sha256 == seen.sha256)
        return replace(seen, media_type=own.media_type)


def _is_lost(outcome: Outcome) -> bool:
    """Whether a call failed, or was skipped because of one that did."""
    if isinstance(outcome, Skipped):
        return outcome.reason == "loss"
    return isinstance(outcome, Failure)


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


def _deltas(conditions: Sequence[ConditionResult]) -> Iterator[Delta]:
    """Each condition minus the one before it, for every turn that both leave to the model."""
    for start, goal in pairwise(conditions):
        before, after = _scores(start), _scores(goal)
        for grading, turn in after:
            value, why = _difference(before[grading, turn], after[grading, turn], start, goal)
            yield Delta(
                grading=grading,
                turn=turn,
                start=start.condition,
                goal=goal.condition,
                value=value,
                why=why,
            )


def _scores(result: ConditionResult) -> _Scores:
    scores: _Scores = {}
    for number, judged in [
        *((turn.turn, turn.judgements) for turn in result.turns),
        (OVERALL, result.overall),
    ]:
        for each in judged:
            scores.setdefault((each.grading, number), []).append(each)
    return scores


def _difference(
    before: Sequence[JudgedTurn],
    after: Sequence[JudgedTurn],
    start: ConditionResult,
    goal: ConditionResult,
) -> tuple[float | None, str | None]:
    means = []
    for judged, where in ((before, start), (after, goal)):
        known = [each.score for each in judged if each.score is not None]
        if len(known) < len(judged):
            why = next(each.why for each in judged if each.score is None)
            return None, f"{where.condition}: {why}"
        means.append(fmean(known))
    return means[1] - means[0], None


def _usage(finished: Iterable[Finished]) -> CallUsage:
    """The calls and their tokens; a cached reply has cost nothing."""
    requested = cached = given = made = 0
    for each in finished:
        for call_id, outcome in each.outcomes.items():
            if not isinstance(outcome, Reply):
                continue
            if each.resolved[call_id].cached:
                cached += 1
                continue
            requested += 1
            given += outcome.input_tokens or 0
            made += outcome.output_tokens or 0
    return CallUsage(requested=requested, cached=cached, input_tokens=given, output_tokens=made)
