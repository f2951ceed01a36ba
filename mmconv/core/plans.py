"""Plans of calls, finished plans, and the names of repeated samples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from mmconv.core.types import Call, Message, Outcome, Ref, Reply, Sampling

Origin: TypeAlias = Literal["given", "own", "reference", "prompt_file", "model_file"]
"""The origin of a message that was sent.

An assistant's turn is a model's reply (`own`), written by people (`reference`), or invented in a
`prompt_file`. `model_file` is the system prompt of a model's file, `given` any other message.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All calls for one sample under one condition; `replies` are known already, by call id."""

    order: int
    sample: str
    condition: str
    calls: tuple[Call, ...]
    replies: Mapping[str, Reply] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedCall:
    """One call as it is sent: resolved messages, effective sampling, content key.

    `cached`: it was not requested itself; its reply was cached, or came with an equal call.
    """

    call: Call
    key: str
    messages: tuple[Message, ...]
    sampling: Sampling
    cached: bool = False

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The origin of each of `messages`, read off the planned ones."""
        put_first: tuple[Origin, ...] = ("model_file",)
        put_first *= len(self.messages) - len(self.call.messages)
        filled = self.call.prompt is not None
        planned = (_origin(message, filled=filled) for message in self.call.messages)
        return (*put_first, *planned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A call and what came of it; `resolved` is None for one that was skipped."""

    call: Call
    outcome: Outcome
    resolved: ResolvedCall | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A plan whose calls all have outcomes; `resolved` has the calls that were resolved."""

    plan: Plan
    outcomes: Mapping[str, Outcome]
    resolved: Mapping[str, ResolvedCall]

    def exchanges(self) -> Iterator[Exchange]:
        """All calls with outcomes in the plan's order, fallbacks after their call."""
        for call in self.plan.calls:
            for each in call.attempts:
                if (outcome := self.outcomes.get(each.id)) is not None:
                    yield Exchange(call=each, outcome=outcome, resolved=self.resolved.get(each.id))


_TRIAL = re.compile(r"(.*)#([1-9][0-9]{0,8})", re.DOTALL)


class Trial(NamedTuple):
    """A sample's key, as its benchmark has it, and the number of the trial, from 1."""

    key: str
    number: int


def name_trial(key: str, number: int = 1) -> str:
    """The name of a sample in one of its trials: `14` in the first, `14#2` in the second.

    A key that ends like a trial itself always gets a number (`issue#7` becomes `issue#7#1`), so no
    two trials of a run share a name.
    """
    plain = number == 1 and not _TRIAL.fullmatch(key)
    return key if plain else f"{key}#{number}"


def read_trial(name: str) -> Trial:
    """The key and trial that a name stands for; the inverse of `name_trial`."""
    match = _TRIAL.fullmatch(name) if "#" in name else None
    return Trial(match[1], int(match[2])) if match else Trial(name, 1)


def _origin(planned: Message, *, filled: bool) -> Origin:
    if planned.role != "assistant":
        return "given"
    if any(isinstance(part, Ref) for part in planned.parts):
        return "own"
    return "prompt_file" if filled else "reference"
