"""A run as a log of Inspect AI (`.eval`), written by Inspect's own classes, for its viewer.

Inspect has one conversation per sample: here the candidate's longest one, in which the source of
each message separates given turns from the model's own. Every call, also a judge's, is an event of
the transcript. Inspect writes a log from memory, which holds each image once.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import takewhile
from math import fsum, isnan
from pathlib import Path
from typing import Any, Literal

from inspect_ai.event import ModelEvent
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
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
    ModelConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score as InspectScore

from judges import read_verdict
from mmconv.benchmarks.base import Benchmark
from mmconv.benchmarks.base.endings import METRICS
from mmconv.core.atomic_writes import atomic_write
from mmconv.core.config import CANDIDATE
from mmconv.core.keys import hash_json
from mmconv.core.plans import Finished, Origin, ResolvedCall, read_trial
from mmconv.core.protocols import ImageSource
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
from mmconv.report.exports.names import finished_at, score_names
from mmconv.run_folder.saved_run import FinishedRun
from mmconv.run_folder.transcripts import message_record, problem_of

_STOPS: dict[str, Literal["stop", "max_tokens", "content_filter", "unknown"]] = {
    "stop": "stop",
    "length": "max_tokens",
    "filter": "content_filter",
    "unknown": "unknown",
}
_LEFT_OUT = "left out to find the scores that need it"


class Log:
    """The log of a run: add its finished plans in any order, then write it."""

    def __init__(
        self, run: FinishedRun, benchmark: Benchmark[Any, Any], images: ImageSource
    ) -> None:
        self.written = finished_at(run)
        self._run = run
        self._benchmark = benchmark
        self._images = images
        self._uris: dict[str, str] = {}
        self._labels = {role: model.label for role, model in run.spec.models.items()}
        self._samples: dict[int, EvalSample] = {}

    @property
    def samples(self) -> list[EvalSample]:
        """The samples in the run's order."""
        return [self._samples[order] for order in sorted(self._samples)]

    def add(self, finished: Finished, sample: Any) -> None:
        """Add a finished plan as a sample; its epoch is the trial, from 1."""
        condition = finished.plan.condition
        messages, output = self._conversation(finished)
        scores = self._score(finished, sample)
        record = sample.model_dump(mode="json")
        replies = [reply for reply in finished.outcomes.values() if isinstance(reply, Reply)]
        several = len(self._benchmark.conditions) > 1
        self._samples[finished.plan.order] = EvalSample(
            id=f"{sample.id} {condition}" if several else sample.id,
            epoch=read_trial(finished.plan.sample).number,
            # the messages before the candidate's first reply
            input=[*takewhile(lambda message: message.source != "generate", messages)],
            target=_references(record),
            messages=messages,
            output=output,
            scores=dict(self._explained(finished, sample, scores)),
            metadata={
                "sample": sample.id,
                "condition": condition,
                **_tags(scores),
                "record": record,
            },
            events=list(self._events(finished)),
            model_usage=_total(_usages(finished, self._labels)),
            role_usage=_total(_usages(finished, {role: role for role in self._labels})),
            total_time=fsum(reply.seconds for reply in replies),
            error=_error(finished),
        )

    def write(self, path: Path) -> None:
        """Write the log, whole or not at all."""
        samples, summary = self.samples, self._run.summary
        # a run that was only scored has no session, and so no duration
        seconds = 0.0 if summary is None else summary.seconds
        log = EvalLog(
            status="success",
            eval=self._spec(samples),
            results=_results(samples),
            stats=EvalStats(
                started_at=(self.written - timedelta(seconds=seconds)).isoformat(),
                completed_at=self.written.isoformat(),
                model_usage=_total(sample.model_usage for sample in samples),
                role_usage=_total(sample.role_usage for sample in samples),
            ),
            samples=samples,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as part:
            write_eval_log(log, part, format="eval")

    def _spec(self, samples: Sequence[EvalSample]) -> EvalSpec:
        spec, manifest, name = self._run.spec, self._run.manifest, self._run.folder.name
        ids = list(dict.fromkeys(str(sample.id) for sample in samples))
        return EvalSpec(
            run_id=name,
            eval_id=hash_json(name)[:22],
            task_id=hash_json(spec.benchmark)[:22],
            created=self.written.isoformat(),
            task=f"mmconv/{spec.benchmark}",
            task_args=dict(spec.options),
            dataset=EvalDataset(name=spec.benchmark, samples=len(ids), sample_ids=ids),
            model=self._labels[CANDIDATE],
            model_roles={
                role: ModelConfig(model=label)
                for role, label in self._labels.items()
                if role != CANDIDATE
            },
            config=EvalConfig(epochs=spec.trials, limit=spec.limit),
            packages={"mmconv": manifest.mmconv},
            metadata={
                "conditions": list(manifest.conditions),
                "notes": list(manifest.notes),
                "provenance": dict(manifest.provenance),
                "fingerprints": dict(manifest.models),
            },
        )

    def _conversation(self, finished: Finished) -> tuple[list[ChatMessage], ModelOutput]:
        """The candidate's longest conversation with its last reply; empty without any request."""
        requests = [
            finished.resolved[call.id]
            for call in finished.plan.calls
            if call.model == CANDIDATE and call.id in finished.resolved
        ]
        if not requests:
            return [], ModelOutput(model=self._labels[CANDIDATE])
        longest = max(requests, key=lambda request: len(request.messages))
        output = self._output(longest.call, finished.outcomes[longest.call.id])
        replies = (choice.message for choice in output.choices)
        return [*self._messages(longest), *replies], output

    def _messages(self, request: ResolvedCall) -> list[ChatMessage]:
        pairs = zip(request.messages, request.origins, strict=True)
        return [
            self._message(self._labels[request.call.model], place, message, origin)
            for place, (message, origin) in enumerate(pairs)
        ]

    def _message(self, label: str, place: int, message: Message, origin: Origin) -> ChatMessage:
        content = [self._content(part) for part in message.parts]
        # a log holds messages with the same id once
        name = hash_json([place, message_record(message)])[:22]
        if message.role == "system":
            return ChatMessageSystem(id=name, content=content, source="input")
        if message.role == "user":
            return ChatMessageUser(id=name, content=content, source="input")
        if origin == "own":
            return ChatMessageAssistant(id=name, content=content, source="generate", model=label)
        metadata = {"turn": "reference"} if origin == "reference" else None
        return ChatMessageAssistant(id=name, content=content, source="input", metadata=metadata)

    def _content(self, part: Text | Image | Ref) -> Content:
        if isinstance(part, Image):
            if part.sha256 not in self._uris:
                data = b64encode(self._images.read(part.sha256)).decode("ascii")
                self._uris[part.sha256] = f"data:{part.media_type};base64,{data}"
            return ContentImage(image=self._uris[part.sha256])
        assert isinstance(part, Text), "references are resolved in messages that were sent"
        return ContentText(text=part.text)

    def _events(self, finished: Finished) -> Iterator[ModelEvent]:
        for exchange in finished.exchanges():
            call, outcome, request = exchange.call, exchange.outcome, exchange.resolved
            if request is None:
                continue
            sampling = request.sampling
            yield ModelEvent(
                uuid=f"{finished.plan.order}-{call.id}",
                timestamp=self.written,
                working_start=0.0,
                model=self._labels[call.model],
                role=None if call.model == CANDIDATE else call.model,
                input=self._messages(request),
                tools=[],
                tool_choice="none",
                config=GenerateConfig(
                    temperature=sampling.temperature,
                    top_p=sampling.top_p,
                    max_tokens=sampling.max_tokens,
                    seed=sampling.seed,
                    stop_seqs=list(sampling.stop) or None,
                ),
                output=self._output(call, outcome),
                error=_problem(outcome),
                working_time=outcome.seconds if isinstance(outcome, Reply) else None,
                metadata={"call": call.id, "prompt": call.prompt, "key": request.key},
            )

    def _output(self, call: Call, outcome: Outcome) -> ModelOutput:
        label = self._labels[call.model]
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

    def _explained(
        self, finished: Finished, sample: Any, scores: Sequence[Score]
    ) -> Iterator[tuple[str, InspectScore]]:
        judgements = self._judgements(finished, sample, scores)
        for score, name, calls in zip(scores, score_names(scores), judgements, strict=True):
            text = _rationales(finished, calls)
            about = {"tags": dict(score.tags), "judgements": [call.id for call in calls]}
            if score.value is not None:
                yield name, InspectScore(value=score.value, explanation=text, metadata=about)
            else:
                why = score.why
                unscored = InspectScore.unscored(
                    reason=why, explanation=text or why, metadata=about
                )
                yield name, unscored

    def _judgements(
        self, finished: Finished, sample: Any, scores: Sequence[Score]
    ) -> list[list[Call]]:
        """The judgements of each score: those without which it would be another one.

        A benchmark does not declare them, so each one is left out in turn; scoring sends no
        request.
        """
        judgements: list[list[Call]] = [[] for _ in scores]
        for call in finished.plan.calls:
            if call.parser is None or not isinstance(finished.outcomes.get(call.id), Reply):
                continue
            fallbacks = {fallback.id for fallback in call.fallbacks}
            rest = {key: value for key, value in finished.outcomes.items() if key not in fallbacks}
            rest[call.id] = Skipped(because=_LEFT_OUT)
            changed = self._score(replace(finished, outcomes=rest), sample)
            if len(changed) == len(scores):
                for calls, before, after in zip(judgements, scores, changed, strict=True):
                    if (before.value, before.why) != (after.value, after.why):
                        calls.append(call)
        return judgements

    def _score(self, finished: Finished, sample: Any) -> list[Score]:
        """The scores of a log: without those of how answers ended, since it has the answers."""
        scores = self._benchmark.score_finished(sample, finished)
        return [score for score in scores if score.metric not in METRICS]


def _usages(finished: Finished, names: Mapping[str, str]) -> Iterator[dict[str, ModelUsage]]:
    for exchange in finished.exchanges():
        if usage := _usage(exchange.outcome):
            yield {names[exchange.call.model]: usage}


def _usage(outcome: Outcome) -> ModelUsage | None:
    if not isinstance(outcome, Reply) or outcome.output_tokens is None:
        return None
    input_tokens = outcome.input_tokens or 0
    return ModelUsage(
        input_tokens=input_tokens,
        output_tokens=outcome.output_tokens,
        total_tokens=input_tokens + outcome.output_tokens,
    )


def _total(usages: Iterable[Mapping[str, ModelUsage]]) -> dict[str, ModelUsage]:
    total: dict[str, ModelUsage] = {}
    for by_name in usages:
        for name, usage in by_name.items():
            total[name] = total.get(name, ModelUsage()) + usage
    return total


def _rationales(finished: Finished, calls: Sequence[Call]) -> str | None:
    texts = []
    for call in calls:
        reading = read_verdict(call, finished.outcomes)
        outcome = finished.outcomes[reading.call]
        rationale = reading.verdict.rationale if reading.verdict else ""
        text = rationale or (outcome.text if isinstance(outcome, Reply) else "")
        texts.append(text if len(calls) == 1 else f"{call.id}: {text}")
    return "\n\n".join(texts) or None


def _error(finished: Finished) -> EvalError | None:
    for call in finished.plan.calls:
        outcome = finished.outcomes.get(call.id)
        if call.model == CANDIDATE and isinstance(outcome, Failure):
            message = f"{call.id}: {outcome.description}"
            return EvalError(message=message, traceback="", traceback_ansi="")
    return None


def _problem(outcome: Outcome) -> str | None:
    problem = problem_of(outcome)
    return f"skipped: {problem}" if isinstance(outcome, Skipped) else problem


def _references(record: Mapping[str, Any]) -> str | list[str]:
    value = record.get("references", record.get("reference"))
    if isinstance(value, list):
        return [text for text in value if isinstance(text, str)]
    return value if isinstance(value, str) else ""


def _tags(scores: Iterable[Score]) -> dict[str, str]:
    values: dict[str, dict[str, None]] = {}
    for score in scores:
        for tag, value in score.tags.items():
            values.setdefault(tag, {})[value] = None
    return {tag: ", ".join(distinct) for tag, distinct in values.items()}


def _results(samples: Sequence[EvalSample]) -> EvalResults:
    values: dict[str, dict[str, list[float]]] = {}
    for sample in samples:
        for name, score in (sample.scores or {}).items():
            by_condition = values.setdefault(name, {})
            by_condition.setdefault(sample.metadata["condition"], []).append(score.as_float())
    return EvalResults(
        total_samples=len(samples),
        completed_samples=sum(sample.error is None for sample in samples),
        scores=[_mean(name, conditions) for name, conditions in values.items()],
    )


def _mean(name: str, conditions: Mapping[str, Sequence[float]]) -> EvalScore:
    # Inspect marks unscored samples with NaN
    scored = {
        condition: [value for value in values if not isnan(value)]
        for condition, values in conditions.items()
    }
    present = sum(map(len, scored.values()))
    return EvalScore(
        name=name,
        scorer=name,
        scored_samples=present,
        unscored_samples=sum(map(len, conditions.values())) - present,
        metrics={
            condition: EvalMetric(name=condition, value=fsum(values) / len(values))
            for condition, values in scored.items()
            if values
        },
    )
