"""Judgements of finished dialogues: what the benchmarks' requests for one have in common.

A request names one of a benchmark's prompts and holds what that judge reads. Its call is the one
that a run of the benchmark makes, with the answers that are there in the place of `Ref`s, so that
the same judgement has the same key in the store. Nothing is asked here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from judges import PromptSet, read_verdict
from mmconv.benchmarks.shared.scoring import Outcomes
from mmconv.core.types import Call, Finish, Image, Message, Part, Ref, Reply, Score, Text

Words = Annotated[str, Field(min_length=1)]
"""A text that may not be empty; an answer may, since models give such."""

Fault: TypeAlias = tuple[str, str]
"""A field of a request, written `turns[0].act`, and what is wrong with it."""

ByField: TypeAlias = Mapping[str, Collection[str]]
"""Fields of a request, with prompts of its benchmark."""

SAMPLE = "request"
"""The sample that the scores of a judgement belong to: it is of no data set."""


class FinishedTurn(BaseModel):
    """One turn of a finished dialogue."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user: Words
    assistant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplies:
    """What a call is made with beside its request: prompt files, and the picture if one is shown.

    `offline` says that the judge is the overlap measure, which has prompt files of its own.
    """

    prompts: PromptSet
    picture: Image | None = None
    offline: bool = False


class JudgementRequest(BaseModel, ABC):
    """A finished dialogue, or a pair, to be judged by one prompt of one benchmark.

    An unreadable judgement is asked again `retries` times, each with the next `trial`. `needing`
    maps fields to the prompts that need them, and `reading` to those that may have them; all other
    prompts refuse such a field.
    """

    needing: ClassVar[ByField] = {}
    reading: ClassVar[ByField] = {}

    model_config = ConfigDict(frozen=True, extra="forbid")

    benchmark: str
    prompt: str
    judge: Words
    retries: StrictInt = Field(default=1, ge=0, le=5)
    max_tokens: StrictInt = Field(default=1024, gt=0)

    def faults(self) -> Iterator[Fault]:
        """What is wrong with the request beyond what types tell."""
        fields = type(self).model_fields
        for name, prompts in (*self.needing.items(), *self.reading.items()):
            given = getattr(self, name) != fields[name].default
            if given and self.prompt not in prompts:
                yield name, f"not read by {self.prompt}"
            if not given and self.prompt in self.needing.get(name, ()):
                yield name, f"needed by {self.prompt}"

    @abstractmethod
    def call(self, supplies: Supplies) -> Call:
        """The judge's call; the request has no faults."""

    @abstractmethod
    def scores(self, call: Call, outcomes: Outcomes) -> Iterator[Score]:
        """What the benchmark makes of the judge's reply, its main metric first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """One of the numbers that a benchmark reads from a judgement, or None and why."""

    metric: str
    value: float | None = None
    why: str | None = None
    turn: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """What a judge said when it was asked, or asked again; `call` names which."""

    call: str
    text: str
    finish: Finish
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What came of a request: a score or a choice, or None and why.

    `prompt` is the prompt file's name with half of its hash. `state` tells whether any of the
    `replies` could be read. `choice` is the judge's own word, `score` the benchmark's main metric,
    `scores` all that it reads.
    """

    benchmark: str
    prompt: str
    judge: str
    state: Literal["parsed", "unparsed"]
    metric: str
    score: float | None
    choice: str | None
    why: str | None
    rationale: str
    scores: tuple[Rated, ...]
    replies: tuple[JudgeReply, ...]


def read_judgement(request: JudgementRequest, call: Call, outcomes: Outcomes) -> Judgement:
    """Read the replies to the request's call and its rescues, as the benchmark reads them."""
    reading = read_verdict(call, outcomes)
    scores = tuple(_rated(score) for score in request.scores(call, outcomes))
    main = scores[0]
    verdict = reading.verdict
    return Judgement(
        benchmark=request.benchmark,
        prompt=str(call.prompt),
        judge=request.judge,
        state="unparsed" if verdict is None else "parsed",
        metric=main.metric,
        score=main.value,
        choice=None if verdict is None else verdict.label,
        why=main.why,
        rationale="" if verdict is None else verdict.rationale,
        scores=scores,
        replies=tuple(_replies((call, *call.fallbacks), outcomes)),
    )


def with_answers(call: Call, answers: Mapping[str, str]) -> Call:
    """The call with these texts in the place of the `Ref`s to the calls that they are named by.

    Other `Ref`s stay, such as a rescue's to the call that it rescues.
    """
    return replace(
        call,
        messages=tuple(_with_answers(message, answers) for message in call.messages),
        fallbacks=tuple(with_answers(fallback, answers) for fallback in call.fallbacks),
    )


def _with_answers(message: Message, answers: Mapping[str, str]) -> Message:
    if not any(isinstance(part, Ref) for part in message.parts):
        return message
    parts: tuple[Part, ...] = tuple(
        Text(text=part.write(answers[part.call]))
        if isinstance(part, Ref) and part.call in answers
        else part
        for part in message.parts
    )
    return replace(message, parts=parts)


def _rated(score: Score) -> Rated:
    return Rated(
        metric=score.metric, value=score.value, why=score.why, turn=score.turn, tags=score.tags
    )


def _replies(calls: Iterable[Call], outcomes: Outcomes) -> Iterator[JudgeReply]:
    for call in calls:
        outcome = outcomes.get(call.id)
        if isinstance(outcome, Reply):
            yield JudgeReply(
                call=call.id,
                text=outcome.text,
                finish=outcome.finish,
                input_tokens=outcome.input_tokens,
                output_tokens=outcome.output_tokens,
            )
