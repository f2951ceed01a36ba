"""One sample under one condition as Inspect AI logs it: conversation, calls, scores.

Inspect knows one conversation per sample. Here that is the candidate's longest, with what was given
and what it said itself kept apart; every call, the judges' too, is an event of the transcript. What
a whole log says is in `mmconv.report.inspect_export.log`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, count
from math import fsum
from typing import Any, Literal

from inspect_ai.event import ModelEvent
from inspect_ai.log import EvalError, EvalSample
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    Content,
    ContentImage,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score as InspectScore

from judges import read_verdict
from mmconv.benchmarks.base import Benchmark
from mmconv.benchmarks.base.endings import METRICS
from mmconv.core.config import CANDIDATE
from mmconv.core.keys import hash_json
from mmconv.core.plans import Finished, Origin, ResolvedCall, read_trial
from mmconv.core.types import (
    Call,
    Failure,
    Image,
    Message,
    Outcome,
    Ref,
    Reply,
    Score,
    Skipped,
    Text,
)
from mmconv.run_folder.transcripts import message_record

Pictures = Callable[[Image], str]
"""Gives an image as a data URI."""

_STOPS: dict[str, Literal["stop", "max_tokens", "content_filter", "unknown"]] = {
    "stop": "stop",
    "length": "max_tokens",
    "filter": "content_filter",
    "unknown": "unknown",
}
_REFERENCES = ("references", "reference")
_LEFT_OUT = "left out to see which scores need it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the samples of a run have in common; `labels` names the model of each role."""

    benchmark: Benchmark[Any, Any]
    labels: Mapping[str, str]
    pictures: Pictures
    written: datetime


def eval_sample(setting: Setting, finished: Finished, sample: Any) -> EvalSample:
    """A finished plan as a sample of a log; its epoch is the trial, counted from 1.

    Its ID is the sample's, with the condition behind it where the benchmark has several.
    """
    plan = finished.plan
    key = setting.benchmark.key(sample)
    name = key if len(setting.benchmark.conditions) == 1 else f"{key} {plan.condition}"
    messages, output = _conversation(setting, finished)
    scores = _told(setting, finished, sample)
    record = sample.model_dump(mode="json")
    replies = [each for each in finished.outcomes.values() if isinstance(each, Reply)]
    return EvalSample(
        id=name,
        epoch=read_trial(plan.sample).number,
        input=_given(messages),
        target=_references(record),
        messages=messages,
        output=output,
        scores=dict(_scores(setting, finished, sample, scores)),
        metadata={"sample": key, "condition": plan.condition, **_tags(scores), "record": record},
        events=list(_events(setting, finished)),
        model_usage=usage_by(setting.labels, finished),
        role_usage=usage_by({role: role for role in setting.labels}, finished),
        total_time=fsum(outcome.seconds for outcome in replies),
        error=_error(finished),
    )


def usage_by(names: Mapping[str, str], finished: Finished) -> dict[str, ModelUsage]:
    """Tokens by the name of the role that they were spent on, replies from the store included."""
    spent: dict[str, ModelUsage] = {}
    for each in finished.exchanges():
        usage = _usage(each.outcome)
        if usage is not None:
            name = names[each.call.model]
            spent[name] = spent.get(name, ModelUsage()) + usage
    return spent


def score_names(scores: Sequence[Score]) -> list[str]:
    """A name for each score of a sample, such as `rating_1`, `win_overall`, `fit`.

    Scores of one metric and turn are distinguished by those of their tags in which they differ, and
    by numbers where names would still be equal, since letters and digits alone enter them.
    """
    plain = [_plain_name(score) for score in scores]
    names: list[str] = []
    for score, name in zip(scores, plain, strict=True):
        alike = [each.tags for each, other in zip(scores, plain, strict=True) if other == name]
        parts = [
            value for tag, value in score.tags.items() if len({each.get(tag) for each in alike}) > 1
        ]
        base = re.sub(r"\W+", "_", "_".join([name, *parts]))
        numbered = (f"{base}_{number}" for number in count(2))
        names.append(next(each for each in chain([base], numbered) if each not in names))
    return names


def _plain_name(score: Score) -> str:
    if score.turn is None:
        return score.metric
    return f"{score.metric}_{score.turn or 'overall'}"


def _conversation(setting: Setting, finished: Finished) -> tuple[list[ChatMessage], ModelOutput]:
    """The candidate's longest conversation with its last reply; empty if nothing was asked."""
    asked = [
        finished.asked[call.id]
        for call in finished.plan.calls
        if call.model == CANDIDATE and call.id in finished.asked
    ]
    if not asked:
        return [], ModelOutput(model=setting.labels[CANDIDATE])
    longest = max(asked, key=lambda each: len(each.messages))
    output = _output(setting, longest.call, finished.outcomes[longest.call.id])
    messages = _messages(setting, longest)
    return [*messages, *(choice.message for choice in output.choices)], output


def _given(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """What stood there before the candidate first spoke."""
    own = [place for place, each in enumerate(messages) if each.source == "generate"]
    return list(messages[: own[0]] if own else messages)


def _messages(setting: Setting, asked: ResolvedCall) -> list[ChatMessage]:
    """The messages of a call as they were sent, each assistant's turn marked with its origin."""
    return [
        _message(setting, asked.call.model, place, message, origin)
        for place, (message, origin) in enumerate(zip(asked.messages, asked.origins, strict=True))
    ]


def _message(
    setting: Setting, role: str, place: int, message: Message, origin: Origin
) -> ChatMessage:
    content = [_content(setting, part) for part in message.parts]
    # equal messages of several calls are kept once in a log if they have one ID
    name = hash_json([place, message_record(message)])[:22]
    if message.role == "system":
        return ChatMessageSystem(id=name, content=content, source="input")
    if message.role == "user":
        return ChatMessageUser(id=name, content=content, source="input")
    if origin == "own":
        label = setting.labels[role]
        return ChatMessageAssistant(id=name, content=content, source="generate", model=label)
    metadata = {"turn": "reference"} if origin == "reference" else None
    return ChatMessageAssistant(id=name, content=content, source="input", metadata=metadata)


def _content(setting: Setting, part: Text | Image | Ref) -> Content:
    if isinstance(part, Image):
        return ContentImage(image=setting.pictures(part))
    assert isinstance(part, Text), "messages that were sent hold no reference"
    return ContentText(text=part.text)


def _events(setting: Setting, finished: Finished) -> Iterator[ModelEvent]:
    for each in finished.exchanges():
        call, outcome, asked = each.call, each.outcome, each.asked
        if asked is None:
            continue
        sampling = asked.sampling
        yield ModelEvent(
            uuid=f"{finished.plan.order}-{call.id}",
            timestamp=setting.written,
            working_start=0.0,
            model=setting.labels[call.model],
            role=None if call.model == CANDIDATE else call.model,
            input=_messages(setting, asked),
            tools=[],
            tool_choice="none",
            config=GenerateConfig(
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_tokens=sampling.max_tokens,
                seed=sampling.seed,
                stop_seqs=list(sampling.stop) or None,
            ),
            output=_output(setting, call, outcome),
            error=_problem(outcome),
            working_time=outcome.seconds if isinstance(outcome, Reply) else None,
            metadata={"call": call.id, "prompt": call.prompt, "key": asked.key},
        )


def _output(setting: Setting, call: Call, outcome: Outcome) -> ModelOutput:
    label = setting.labels[call.model]
    if not isinstance(outcome, Reply):
        return ModelOutput(model=label, error=_problem(outcome))
    content: list[Content] = [ContentText(text=outcome.text)]
    if outcome.reasoning is not None:
        content.insert(0, ContentReasoning(reasoning=outcome.reasoning))
    message = ChatMessageAssistant(
        id=hash_json([call.id, call.model, outcome.text])[:22],
        content=content,
        source="generate",
        model=label,
    )
    return ModelOutput(
        model=label,
        choices=[ChatCompletionChoice(message=message, stop_reason=_STOPS[outcome.finish])],
        usage=_usage(outcome),
        time=outcome.seconds,
    )


def _usage(outcome: Outcome) -> ModelUsage | None:
    if not isinstance(outcome, Reply) or outcome.output_tokens is None:
        return None
    asked = outcome.input_tokens or 0
    return ModelUsage(
        input_tokens=asked,
        output_tokens=outcome.output_tokens,
        total_tokens=asked + outcome.output_tokens,
    )


def _scores(
    setting: Setting, finished: Finished, sample: Any, scores: Sequence[Score]
) -> Iterator[tuple[str, InspectScore]]:
    """The benchmark's scores, each with the rationales of the judgements that it needs."""
    grounds = _grounds(setting, finished, sample, scores)
    for score, name, calls in zip(scores, score_names(scores), grounds, strict=True):
        explanation = _rationales(finished, calls)
        metadata = {"tags": dict(score.tags), "judgements": [call.id for call in calls]}
        if score.value is None:
            yield (
                name,
                InspectScore.unscored(
                    reason=score.why, explanation=explanation or score.why, metadata=metadata
                ),
            )
        else:
            yield name, InspectScore(value=score.value, explanation=explanation, metadata=metadata)


def _grounds(
    setting: Setting, finished: Finished, sample: Any, scores: Sequence[Score]
) -> list[list[Call]]:
    """For each score the judgements without which it would be another, found by leaving each out.

    A benchmark does not declare the calls of a score, and scoring sends no request.
    """
    grounds: list[list[Call]] = [[] for _ in scores]
    for call in finished.plan.calls:
        if call.parser is None or not isinstance(finished.outcomes.get(call.id), Reply):
            continue
        fallbacks = {fallback.id for fallback in call.fallbacks}
        rest = {name: each for name, each in finished.outcomes.items() if name not in fallbacks}
        rest[call.id] = Skipped(because=_LEFT_OUT)
        changed = _told(setting, replace(finished, outcomes=rest), sample)
        if len(changed) == len(scores):
            for place, (before, after) in enumerate(zip(scores, changed, strict=True)):
                if (before.value, before.why) != (after.value, after.why):
                    grounds[place].append(call)
    return grounds


def _told(setting: Setting, finished: Finished, sample: Any) -> list[Score]:
    """The scores in a log: what counts of every answer stands in it by itself."""
    scores = setting.benchmark.score_finished(sample, finished)
    return [score for score in scores if score.metric not in METRICS]


def _rationales(finished: Finished, calls: Sequence[Call]) -> str | None:
    """What the judges said: their reasons where the reply could be read, else all of it."""
    texts = []
    for call in calls:
        reading = read_verdict(call, finished.outcomes)
        outcome = finished.outcomes[reading.call]
        rationale = reading.verdict.rationale if reading.verdict else ""
        text = rationale or (outcome.text if isinstance(outcome, Reply) else "")
        texts.append(text if len(calls) == 1 else f"{call.id}: {text}")
    return "\n\n".join(texts) or None


def _error(finished: Finished) -> EvalError | None:
    """The first call of the candidate that was asked and not answered."""
    for call in finished.plan.calls:
        outcome = finished.outcomes.get(call.id)
        if call.model == CANDIDATE and isinstance(outcome, Failure):
            message = f"{call.id}: {_problem(outcome)}"
            return EvalError(message=message, traceback="", traceback_ansi="")
    return None


def _problem(outcome: Outcome) -> str | None:
    if isinstance(outcome, Failure):
        return outcome.description
    return f"skipped: {outcome.because}" if isinstance(outcome, Skipped) else None


def _references(record: Mapping[str, Any]) -> str | list[str]:
    """The texts that people wrote as answers, where the benchmark's samples have any."""
    for name in _REFERENCES:
        found = record.get(name)
        if isinstance(found, str):
            return found
        if isinstance(found, list):
            return [text for text in found if isinstance(text, str)]
    return ""


def _tags(scores: Iterable[Score]) -> dict[str, str]:
    """What scores are grouped by: tags that are the same in all scores, and those of each turn."""
    found: dict[str, dict[str, None]] = {}
    for score in scores:
        for tag, value in score.tags.items():
            found.setdefault(tag, {})[value] = None
    return {tag: ", ".join(values) for tag, values in found.items()}
