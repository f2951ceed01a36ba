"""From outcomes to a result: texts, verdicts, and the deltas between conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from statistics import fmean
from typing import Literal, TypeAlias

from judges import read_verdict
from mmconv.benchmarks.convbench.grading import OVERALL, PlannedJudgement
from mmconv.benchmarks.convbench.scoring import worth
from mmconv.core.plans import Finished
from mmconv.core.types import Call, Failure, Outcome, Reply, SeenImage, Skipped
from mmconv.dialogues.plans import Dialogue
from mmconv.dialogues.results import (
    CallUsage,
    ConditionResult,
    Delta,
    DialogueResult,
    JudgedTurn,
    TurnResult,
    VerdictState,
)

_Grading: TypeAlias = Literal["direct", "pairwise"]
_Scores: TypeAlias = dict[tuple[_Grading, int], list[JudgedTurn]]


def read_dialogue(dialogue: Dialogue, finished: Iterable[Finished]) -> DialogueResult:
    """The result of a dialogue whose plans are all finished, in whatever order they ended."""
    ended = sorted(finished, key=lambda each: each.plan.order)
    conditions = tuple(
        _condition(dialogue, given, each)
        for given, each in zip(dialogue.request.given, ended, strict=True)
    )
    return DialogueResult(
        model=dialogue.request.model,
        judge=dialogue.request.judge,
        lost=sum(_is_lost(found) for each in ended for found in each.outcomes.values()),
        conditions=conditions,
        deltas=tuple(_deltas(conditions)),
        usage=_usage(ended),
    )


def _is_lost(outcome: Outcome) -> bool:
    """Whether a call failed, or was skipped because of one that did."""
    if isinstance(outcome, Skipped):
        return outcome.reason == "loss"
    return isinstance(outcome, Failure)


def _condition(dialogue: Dialogue, given: int, finished: Finished) -> ConditionResult:
    calls = {call.id: call for call in finished.plan.calls}
    judged: dict[int, list[JudgedTurn]] = {}
    for judgement in () if dialogue.grader is None else dialogue.grader.judgements(given):
        read = _judged(judgement, calls[judgement.call], finished.outcomes)
        judged.setdefault(judgement.turn, []).append(read)
    turns = []
    for number, turn in enumerate(dialogue.request.turns, start=1):
        if number <= given:
            turns.append(
                TurnResult(
                    turn=number, instruction=turn.instruction, given=True, text=turn.reference
                )
            )
            continue
        outcome = finished.outcomes[f"turn_{number}"]
        judgements = tuple(judged.get(number, ()))
        answered = _answered(number, turn.instruction, outcome, judgements)
        seen = tuple(_with_type(each, dialogue) for each in answered.seen)
        turns.append(replace(answered, seen=seen))
    return ConditionResult(
        condition=finished.plan.condition,
        given=given,
        turns=tuple(turns),
        overall=tuple(judged.get(OVERALL, ())),
    )


def _with_type(seen: SeenImage, dialogue: Dialogue) -> SeenImage:
    """The image with the media type of its own file, if the model was sent that."""
    if seen.media_type:
        return seen
    own = next(each for each in chain(*dialogue.pictures) if each.sha256 == seen.sha256)
    return replace(seen, media_type=own.media_type)


def _answered(
    number: int, instruction: str, outcome: Outcome, judgements: tuple[JudgedTurn, ...]
) -> TurnResult:
    if not isinstance(outcome, Reply):
        return TurnResult(
            turn=number,
            instruction=instruction,
            given=False,
            failed=outcome.kind if isinstance(outcome, Failure) else None,
            problem=outcome.message if isinstance(outcome, Failure) else None,
            skipped=outcome.because if isinstance(outcome, Skipped) else None,
            judgements=judgements,
        )
    return TurnResult(
        turn=number,
        instruction=instruction,
        given=False,
        text=outcome.text,
        reasoning=outcome.reasoning,
        finish=outcome.finish,
        input_tokens=outcome.input_tokens,
        output_tokens=outcome.output_tokens,
        seen=outcome.seen,
        judgements=judgements,
    )


def _judged(judgement: PlannedJudgement, call: Call, outcomes: Mapping[str, Outcome]) -> JudgedTurn:
    reading = read_verdict(call, outcomes)
    verdict = reading.verdict
    outcome = outcomes[reading.call]
    return JudgedTurn(
        grading=judgement.grading,
        side=judgement.side,
        state="parsed" if verdict is not None else _state(outcome),
        score=None if verdict is None else worth(judgement, verdict),
        choice=None if verdict is None else verdict.label,
        why=reading.why,
        problem=outcome.message if isinstance(outcome, Failure) else None,
        rationale="" if verdict is None else verdict.rationale,
        reply=outcome.text if isinstance(outcome, Reply) else None,
        prompt=str(call.prompt),
    )


def _state(outcome: Outcome) -> VerdictState:
    match outcome:
        case Failure():
            return "failed"
        case Skipped():
            return "skipped"
    return "unparsed"


def _deltas(conditions: Sequence[ConditionResult]) -> Iterator[Delta]:
    """Each condition less the one before it, for every turn that both leave to the model."""
    for start, goal in pairwise(conditions):
        before, after = _scores(start), _scores(goal)
        for grading, turn in after:
            value, why = _less(before[grading, turn], after[grading, turn], start, goal)
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


def _less(
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
    """What the calls used; an answer that was there already has cost nothing."""
    asked = stored = given = made = 0
    for each in finished:
        for call_id, outcome in each.outcomes.items():
            if not isinstance(outcome, Reply):
                continue
            if each.asked[call_id].cached:
                stored += 1
                continue
            asked += 1
            given += outcome.input_tokens or 0
            made += outcome.output_tokens or 0
    return CallUsage(asked=asked, stored=stored, input_tokens=given, output_tokens=made)
