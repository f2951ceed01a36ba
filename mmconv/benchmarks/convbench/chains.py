"""The conversations that the candidate holds: one image, three instructions, five conditions.

The three settings of the paper (section 4.1) differ in one number: how many leading turns are the
human's. Its Appendix C.1 asks one instruction alone. Nothing is judged here.
"""

from __future__ import annotations

from mmconv.benchmarks.convbench.data import Row
from mmconv.benchmarks.convbench.options import ALONE, GIVEN
from mmconv.core.errors import PlanError
from mmconv.core.turns import Turn, chain
from mmconv.core.types import Call, Ref, Sampling, Text

NOT_ASKED = "(not asked: the instruction of another turn was given on its own)"
"""Stands in a judge's prompt for the turns that a single-turn condition leaves out."""


def candidate_calls(
    row: Row, condition: str, sampling: Sampling, system: str | None = None
) -> tuple[Call, ...]:
    """The calls `turn_1` to `turn_3` that the condition leaves to the candidate."""
    if condition in ALONE:
        number = ALONE[condition]
        asked = Turn(user=(row.image, Text(text=row.instructions[number - 1])))
        return chain([asked], seat="candidate", sampling=sampling, system=system, first=number)
    given = GIVEN[condition]
    turns = []
    for number, instruction in enumerate(row.instructions, start=1):
        text = Text(text=instruction)
        turns.append(
            Turn(
                user=(row.image, text) if number == 1 else (text,),
                answer=reference(row, number) if number <= given else None,
                generate=number > given,
            )
        )
    return chain(turns, seat="candidate", sampling=sampling, system=system)


def answer(row: Row, condition: str, number: int) -> str | Ref:
    """The candidate's side of turn `number` (1-3): its own answer, or what stands for it."""
    if number in own_turns(condition):
        return Ref(call=f"turn_{number}")
    return NOT_ASKED if condition in ALONE else reference(row, number)


def own_turns(condition: str) -> tuple[int, ...]:
    """The turns that the candidate answers itself."""
    if condition in ALONE:
        return (ALONE[condition],)
    return tuple(range(GIVEN[condition] + 1, 4))


def reference(row: Row, number: int) -> str:
    """The human's answer to turn `number` (1-3); the survey has made sure that there is one."""
    text = row.references[number - 1]
    if text is None:
        raise PlanError(f"row {row.id} has no reference for turn {number}")
    return text
