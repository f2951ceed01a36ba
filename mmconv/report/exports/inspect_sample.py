"""A sample under a condition as Inspect AI logs it: conversation, calls, scores.

Inspect has one conversation per sample: here the candidate's longest one, in which the source of
each message separates given turns from the model's own. Every call, also a judge's, is an event of
the transcript. `mmconv.report.exports.inspect_log` writes the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
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
from mmconv.report.exports.records import score_names
from mmconv.run_folder.transcripts import message_record

DataUri = Callable[[Image], str]
"""Returns an image as a data URI."""

_STOPS: dict[str, Literal["stop", "max_tokens", "content_filter", "unknown"]] = {
    "stop": "stop",
    "length": "max_tokens",
    "filter": "content_filter",
    "unknown": "unknown",
}
_REFERENCES = ("references", "reference")
_LEFT_OUT = "left out to find the scores that need it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the samples of a run share; `labels` has the model of each role."""

    benchmark: Benchmark[Any, Any]
    labels: Mapping[str, str]
    data_uri: DataUri
    written: datetime


def eval_sample(context: Context, finished: Finished, sample: Any) -> EvalSample:
    """A finished plan as a sample of a log; its epoch is the trial, from 1.

    Its id is the sample's, followed by the condition if the benchmark has several.
    """
    plan = finished.plan
    key = sample.id
    name = key if len(context.benchmark.conditions) == 1 else f"{key} {plan.condition}"
    messages, output = _conversation(context, finished)
    scores = _logged_scores(context, finished, sample)
    record = sample.model_dump(mode="json")
    replies = [reply for reply in finished.outcomes.values() if isinstance(reply, Reply)]
    return EvalSample(
        id=name,
        epoch=read_trial(plan.sample).number,
        input=_prompt(messages),
        target=_references(record),
        messages=messages,
        output=output,
        scores=dict(_scores(context, finished, sample, scores)),
        metadata={"sample": key, "condition": plan.condition, **_tags(scores), "record": record},
        events=list(_events(context, finished)),
        model_usage=usage_by(context.labels, finished),
        role_usage=usage_by({role: role for role in context.labels}, finished),
        total_time=fsum(reply.seconds for reply in replies),
        error=_error(finished),
    )


def usage_by(names: Mapping[str, str], finished: Finished) -> dict[str, ModelUsage]:
    """The tokens of each role, cached replies included; `names` has the name of each role."""
    total: dict[str, ModelUsage] = {}
    for exchange in finished.exchanges():
        usage = _usage(exchange.outcome)
        if usage is not None:
            name = names[exchange.call.model]
            total[name] = total.get(name, ModelUsage()) + usage
    return total


def _conversation(context: Context, finished: Finished) -> tuple[list[ChatMessage], ModelOutput]:
    """The candidate's longest conversation with its last reply; empty without any request."""
    requests = [
        finished.resolved[call.id]
        for call in finished.plan.calls
        if call.model == CANDIDATE and call.id in finished.resolved
    ]
    if not requests:
        return [], ModelOutput(model=context.labels[CANDIDATE])
    longest = max(requests, key=lambda request: len(request.messages))
    output = _output(context, longest.call, finished.outcomes[longest.call.id])
    messages = _messages(context, longest)
    return [*messages, *(choice.message for choice in output.choices)], output


def _prompt(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The messages before the candidate's first reply."""
    return [*takewhile(lambda message: message.source != "generate", messages)]


def _messages(context: Context, request: ResolvedCall) -> list[ChatMessage]:
    """The messages of a call as they were sent; assistant turns have their origin."""
    return [
        _message(context, request.call.model, place, message, origin)
        for place, (message, origin) in enumerate(
            zip(request.messages, request.origins, strict=True)
        )
    ]


def _message(
    context: Context, role: str, place: int, message: Message, origin: Origin
) -> ChatMessage:
    content = [_content(context, part) for part in message.parts]
    # a log holds messages with the same id once
    name = hash_json([place, message_record(message)])[:22]
    if message.role == "system":
        return ChatMessageSystem(id=name, content=content, source="input")
    if message.role == "user":
        return ChatMessageUser(id=name, content=content, source="input")
    if origin == "own":
        label = context.labels[role]
        return ChatMessageAssistant(id=name, content=content, source="generate", model=label)
    metadata = {"turn": "reference"} if origin == "reference" else None
    return ChatMessageAssistant(id=name, content=content, source="input", metadata=metadata)


def _content(context: Context, part: Text | Image | Ref) -> Content:
    if isinstance(part, Image):
        return ContentImage(image=context.data_uri(part))
    assert isinstance(part, Text), "references are resolved in messages that were sent"
    return ContentText(text=part.text)


def _events(context: Context, finished: Finished) -> Iterator[ModelEvent]:
    for exchange in finished.exchanges():
        call, outcome, request = exchange.call, exchange.outcome, exchange.resolved
        if request is None:
            continue
        sampling = request.sampling
        yield ModelEvent(
            uuid=f"{finished.plan.order}-{call.id}",
            timestamp=context.written,
            working_start=0.0,
            model=context.labels[call.model],
            role=None if call.model == CANDIDATE else call.model,
            input=_messages(context, request),
            tools=[],
            tool_choice="none",
            config=GenerateConfig(
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_tokens=sampling.max_tokens,
                seed=sampling.seed,
                stop_seqs=list(sampling.stop) or None,
            ),
            output=_output(context, call, outcome),
            error=_problem(outcome),
            working_time=outcome.seconds if isinstance(outcome, Reply) else None,
            metadata={"call": call.id, "prompt": call.prompt, "key": request.key},
        )


def _output(context: Context, call: Call, outcome: Outcome) -> ModelOutput:
    label = context.labels[call.model]
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
    input_tokens = outcome.input_tokens or 0
    return ModelUsage(
        input_tokens=input_tokens,
        output_tokens=outcome.output_tokens,
        total_tokens=input_tokens + outcome.output_tokens,
    )


def _scores(
    context: Context, finished: Finished, sample: Any, scores: Sequence[Score]
) -> Iterator[tuple[str, InspectScore]]:
    """The benchmark's scores, each with the rationales of the judgements that it needs."""
    judgements = _judgements_of(context, finished, sample, scores)
    for score, name, calls in zip(scores, score_names(scores), judgements, strict=True):
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


def _judgements_of(
    context: Context, finished: Finished, sample: Any, scores: Sequence[Score]
) -> list[list[Call]]:
    """The judgements of each score: those without which it would be another one.

    A benchmark does not declare them, so each one is left out in turn; scoring sends no request.
    """
    judgements: list[list[Call]] = [[] for _ in scores]
    for call in finished.plan.calls:
        if call.parser is None or not isinstance(finished.outcomes.get(call.id), Reply):
            continue
        fallbacks = {fallback.id for fallback in call.fallbacks}
        rest = {key: value for key, value in finished.outcomes.items() if key not in fallbacks}
        rest[call.id] = Skipped(because=_LEFT_OUT)
        changed = _logged_scores(context, replace(finished, outcomes=rest), sample)
        if len(changed) == len(scores):
            for place, (before, after) in enumerate(zip(scores, changed, strict=True)):
                if (before.value, before.why) != (after.value, after.why):
                    judgements[place].append(call)
    return judgements


def _logged_scores(context: Context, finished: Finished, sample: Any) -> list[Score]:
    """The scores of a log: those of how answers ended are left out, since it has the answers."""
    scores = context.benchmark.score_finished(sample, finished)
    return [score for score in scores if score.metric not in METRICS]


def _rationales(finished: Finished, calls: Sequence[Call]) -> str | None:
    """The rationales of the judgements; the whole reply if it has none, or could not be parsed."""
    texts = []
    for call in calls:
        reading = read_verdict(call, finished.outcomes)
        outcome = finished.outcomes[reading.call]
        rationale = reading.verdict.rationale if reading.verdict else ""
        text = rationale or (outcome.text if isinstance(outcome, Reply) else "")
        texts.append(text if len(calls) == 1 else f"{call.id}: {text}")
    return "\n\n".join(texts) or None


def _error(finished: Finished) -> EvalError | None:
    """The first request of the candidate that failed."""
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
    """The reference answers, if the benchmark's samples have any."""
    for name in _REFERENCES:
        value = record.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return [text for text in value if isinstance(text, str)]
    return ""


def _tags(scores: Iterable[Score]) -> dict[str, str]:
    """The distinct values of each tag, joined."""
    values: dict[str, dict[str, None]] = {}
    for score in scores:
        for tag, value in score.tags.items():
            values.setdefault(tag, {})[value] = None
    return {tag: ", ".join(distinct) for tag, distinct in values.items()}
