"""Chains of turns: how a multi-turn conversation becomes calls.

The three settings of ConvBench, golden histories and self-made histories are one thing seen with
different numbers of given turns: where an answer is given, its text stands in the history; where
it is not, a `Ref` to the call that makes it does. No model and no benchmark is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmconv.values import Call, Message, Part, Ref, Sampling, Text


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
    seat: str,
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
            calls.append(Call(id=call_id, seat=seat, messages=tuple(history), sampling=sampling))
        own: Part = Ref(call=call_id) if turn.answer is None else Text(text=turn.answer)
        history.append(Message(role="assistant", parts=(own,)))
    return tuple(calls)
