"""Plans: what a run is made of, and what it leaves behind, call by call.

The runner takes plans in and hands finished ones out; the report writes them down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from mmconv.core.protocols import Benchmark, Sample
from mmconv.core.types import Call, Message, Outcome, Ref, Sampling, Score

Origin: TypeAlias = Literal["given", "own", "reference", "prompt_file", "model_file"]
"""Where a message that was sent comes from.

Of the assistant's turns `own` is one that a model said, `reference` one that people wrote,
`prompt_file` one that nobody said; `model_file` is the system prompt that a model's file puts
first, `given` any other message.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All calls for one sample under one condition; `order` numbers the plans of a run."""

    order: int
    sample: str
    condition: str
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedCall:
    """One call as it is sent: resolved messages, effective sampling, content key.

    A `cached` one was not asked for itself: its reply was there, or an equal call brought it.
    """

    call: Call
    key: str
    messages: tuple[Message, ...]
    sampling: Sampling
    cached: bool = False

    def as_cached(self) -> ResolvedCall:
        """The same, whose reply was there."""
        return ResolvedCall(
            call=self.call,
            key=self.key,
            messages=self.messages,
            sampling=self.sampling,
            cached=True,
        )

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Those of `messages`: planned messages tell, resolved ones do not."""
        put_first: tuple[Origin, ...] = ("model_file",)
        put_first *= len(self.messages) - len(self.call.messages)
        filled = self.call.prompt is not None
        planned = (_origin(message, filled=filled) for message in self.call.messages)
        return (*put_first, *planned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A call and what came of it; `asked` is None for one that was skipped."""

    call: Call
    outcome: Outcome
    asked: ResolvedCall | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A plan whose calls all have outcomes, and how those that were resolved were asked."""

    plan: Plan
    outcomes: Mapping[str, Outcome]
    asked: Mapping[str, ResolvedCall]

    def exchanges(self) -> Iterator[Exchange]:
        """All calls with outcomes in the plan's order, rescues after what they rescue."""
        for call in self.plan.calls:
            for each in (call, *call.fallbacks):
                if (outcome := self.outcomes.get(each.id)) is not None:
                    yield Exchange(call=each, outcome=outcome, asked=self.asked.get(each.id))


def score_finished(
    benchmark: Benchmark[Sample], sample: Sample, finished: Finished
) -> Iterator[Score]:
    """What the benchmark reads off a finished plan of the sample, under the name of its trial."""
    plan = finished.plan
    calls = {call.id: call for call in plan.calls}
    is_named = plan.sample == benchmark.key(sample)
    read: Any = getattr(benchmark, "scores", None) or getattr(benchmark, "score")  # noqa: B009
    for score in read(sample, plan.condition, calls, finished.outcomes):
        yield score if is_named else replace(score, sample=plan.sample)


def _origin(planned: Message, *, filled: bool) -> Origin:
    """That of a planned message; a `filled` prompt file has turns that nobody said."""
    if planned.role != "assistant":
        return "given"
    if any(isinstance(part, Ref) for part in planned.parts):
        return "own"
    return "prompt_file" if filled else "reference"
