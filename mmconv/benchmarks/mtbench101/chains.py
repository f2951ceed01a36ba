"""The conversations that the candidate holds: golden histories, or its own.

With the golden history every turn is a request of its own; with self-made history each waits for
the one before. Nothing is judged here.
"""

from __future__ import annotations

from mmconv.benchmarks.mtbench101.data import Dialogue
from mmconv.core.turns import Turn, chain
from mmconv.core.types import Call, Ref, Sampling, Text


def candidate_calls(
    dialogue: Dialogue, condition: str, sampling: Sampling, system: str | None = None
) -> tuple[Call, ...]:
    """One call, `turn_<number>`, for each of the candidate's own turns."""
    turns = []
    for number, exchange in enumerate(dialogue.history, start=1):
        own = number in dialogue.own_turns
        given = condition == "golden" or not own
        turns.append(
            Turn(
                user=(Text(text=exchange.user),),
                answer=exchange.bot if given else None,
                generate=own,
            )
        )
    return chain(turns, seat="candidate", sampling=sampling, system=system)


def answer_in_history(dialogue: Dialogue, condition: str, number: int) -> str | Ref:
    """The answer that later turns see at turn `number`."""
    if condition == "golden" or number not in dialogue.own_turns:
        return dialogue.history[number - 1].bot
    return Ref(call=f"turn_{number}")
