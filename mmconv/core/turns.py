"""Chains of turns: how a multi-turn conversation becomes calls.

The three settings of ConvBench, golden histories and self-made histories are one thing seen with
different numbers of given turns: where an answer is given, its text stands in the history; where
it is not, a `Ref` to the call that makes it does. Long histories are shortened here, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mmconv.core.types import Call, Message, Part, Ref, Sampling, Text

_CALL = re.compile(r"turn_(\d+)")

_APART = "\n\n"
"""What stands between a prompt and what the user says in the same message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the user sends at one turn, and the answer that stands in the history if one is given.

    `generate` False leaves the turn out of the calls (it is history only) and needs an `answer`.
    """

    user: tuple[Part, ...]
    answer: str | None = None
    generate: bool = True

    def __post_init__(self) -> None:
        if self.answer is None and not self.generate:
            raise ValueError("a turn that is not generated needs the answer that stands for it")


def chain(
    turns: Sequence[Turn],
    *,
    model: str,
    sampling: Sampling,
    system: str | None = None,
    first: int = 1,
) -> tuple[Call, ...]:
    """One call per generated turn, named `turn_1`, `turn_2`, ... counting from `first`.

    A later turn sees a turn's given `answer` where there is one (teacher forcing, golden history)
    and the model's own reply otherwise.
    """
    history: list[Message] = []
    if system is not None:
        history.append(Message(role="system", parts=(Text(text=system),)))
    calls = []
    for number, turn in enumerate(turns, start=first):
        history.append(Message(role="user", parts=turn.user))
        call_id = f"turn_{number}"
        if turn.generate:
            calls.append(Call(id=call_id, model=model, messages=tuple(history), sampling=sampling))
        own: Part = Ref(call=call_id) if turn.answer is None else Text(text=turn.answer)
        history.append(Message(role="assistant", parts=(own,)))
    return tuple(calls)


def turn_of(call_id: str) -> int | None:
    """The turn that a call of `chain` answers; None for other calls."""
    match = _CALL.fullmatch(call_id)
    return int(match[1]) if match else None


def begin_with(prompt: str, said: Sequence[Message]) -> tuple[Message, ...]:
    """A prompt in the user's name before what is said, joined with what the user says first.

    Two user's messages in a row are what some chat templates cannot write.
    """
    if said[0].role != "user":
        return (Message(role="user", parts=(Text(text=prompt),)), *said)
    first, *parts = said[0].parts
    opening = prompt + _APART
    if isinstance(first, Text):
        joined = (Text(text=opening + first.text), *parts)
        return (Message(role="user", parts=joined), *said[1:])
    return (Message(role="user", parts=(Text(text=opening), first, *parts)), *said[1:])


def without_oldest(messages: Sequence[Message], pinned: str = "") -> tuple[Message, ...] | None:
    """Messages without the oldest that is not a system prompt; None if only the last is left.

    `pinned` is a prompt that `begin_with` put before them: it stays, before what is then first.
    """
    first = 1 if messages[0].role == "system" else 0
    said = _behind(pinned, messages[first:]) if pinned else messages[first:]
    if len(said) < 2:
        return None
    return (*messages[:first], *(begin_with(pinned, said[1:]) if pinned else said[1:]))


def _behind(prompt: str, messages: Sequence[Message]) -> Sequence[Message]:
    """What is said behind a prompt; raises `ValueError` for messages that do not begin with it."""
    first, *parts = messages[0].parts
    if first == Text(text=prompt):
        return messages[1:]
    if not (isinstance(first, Text) and first.text.startswith(prompt + _APART)):
        raise ValueError("the messages do not begin with what is pinned")
    said = (Text(text=first.text.removeprefix(prompt + _APART)), *parts)
    return (replace(messages[0], parts=said), *messages[1:])
