"""How a dialogue is judged: by prompts for any number of turns, or by ConvBench's own.

What a judge of any dialogue reads is put together from pieces (`judges/prompts/dialogue`): the
description of the images, the conversation up to the answer, the reference and the focus points,
as far as there are any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from judges import Judge, PromptSet
from judges.template import Slot
from mmconv.benchmarks.convbench.data import Row
from mmconv.benchmarks.convbench.grading import OVERALL, PlannedJudgement
from mmconv.benchmarks.convbench.grading import Grader as ConvBenchGrader
from mmconv.benchmarks.convbench.sides import Side
from mmconv.core.errors import PlanError
from mmconv.core.types import Call, Image, Part, Ref
from mmconv.dialogues.request import DialogueRequest, DialogueTurn, condition_name

Block = tuple[Part, ...]
"""A piece of what a judge reads; each begins where the one before it ends."""

Pictures = tuple[tuple[Image, ...], ...]
"""The images of each turn."""


class Grader(Protocol):
    """Plans the judgements of a dialogue in which so many leading turns are given."""

    def judgements(self, given: int) -> Iterator[PlannedJudgement]:
        """What is judged."""
        ...

    def calls(self, given: int) -> Iterator[Call]:
        """The calls that make these judgements, in their order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AsConvBench:
    """ConvBench's own judgements, to the byte, of a dialogue laid out as one of its rows."""

    grader: ConvBenchGrader
    row: Row

    def judgements(self, given: int) -> Iterator[PlannedJudgement]:
        """Each of the model's turns and the conversation, in each grading."""
        return self.grader.judgements(self.row, condition_name(given))

    def calls(self, given: int) -> Iterator[Call]:
        """The calls that make these judgements."""
        return self.grader.calls(self.row, condition_name(given))


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnGrader:
    """Judgements of a dialogue of any length; one turn alone has no judgement of the whole.

    A judge of turn n reads the conversation up to n. `shown` are the pictures that it sees: those
    of turn 1 before all it reads, those of later turns where the turns stand.
    """

    request: DialogueRequest
    prompts: PromptSet
    judges: Mapping[str, Judge]
    shown: Pictures

    def judgements(self, given: int) -> Iterator[PlannedJudgement]:
        """Each of the model's turns and the conversation, in each grading."""
        count = len(self.request.turns)
        turns = [*range(given + 1, count + 1), *([OVERALL] if count > 1 else [])]
        if "direct" in self.request.gradings:
            yield from (PlannedJudgement(grading="direct", turn=turn) for turn in turns)
        if "pairwise" in self.request.gradings:
            for side in self._sides():
                for turn in turns:
                    yield PlannedJudgement(grading="pairwise", turn=turn, side=side)

    def calls(self, given: int) -> Iterator[Call]:
        """The calls that make these judgements."""
        for judged in self.judgements(given):
            if judged.side is None:
                name, material = self._rated(given, judged.turn)
            else:
                name, material = self._compared(given, judged.turn, judged.side)
            slots: dict[str, Slot] = {"material": material}
            if judged.turn != OVERALL:
                slots["number"] = str(judged.turn)
            yield self.judges[judged.grading].call(judged.call, self.prompts[name], slots)

    def _sides(self) -> tuple[Side, ...]:
        return ("A", "B") if self.request.order == "both" else (self.request.order,)

    def _rated(self, given: int, turn: int) -> tuple[str, Block]:
        """The prompt that rates a turn or the conversation, and what its judge reads."""
        turns = self.request.turns
        block = self._conversation(self._description(), answers(turns, given), turn)
        if turn == OVERALL:
            if any(each.reference is None for each in turns):
                return "direct_overall_without_references", block
            for number in range(1, len(turns) + 1):
                block = self._reference(block, number)
            return "direct_overall", block
        if turns[turn - 1].reference is None:
            return "direct_turn_without_reference", self._focus_points(block, turn)
        return "direct_turn", self._focus_points(self._reference(block, turn), turn)

    def _compared(self, given: int, turn: int, side: Side) -> tuple[str, Block]:
        """The prompt that compares with the references, and what its judge reads."""
        turns = self.request.turns
        block = self._description()
        for each in ("A", "B"):
            shown = answers(turns, given if each == side else len(turns))
            said = self._conversation((), shown, turn)
            block = self._piece("side", {"before": block, "side": each, "turns": said})
        if turn == OVERALL:
            return "pairwise_overall", block
        return "pairwise_turn", self._focus_points(block, turn)

    def _description(self) -> Block:
        """The pictures that the judge sees, and what is said of them."""
        first = self.shown[0]
        if self.request.caption is None:
            return first
        return self._piece("description", {"before": first, "caption": self.request.caption})

    def _conversation(self, block: Block, said: Sequence[str | Ref], turn: int) -> Block:
        """The conversation up to the turn; all of it for the judge of the whole."""
        last = len(said) if turn == OVERALL else turn
        pairs = zip(self.request.turns[:last], said[:last], strict=True)
        for number, (each, answer) in enumerate(pairs, start=1):
            pictures = self.shown[number - 1] if number > 1 else ()
            slots: dict[str, Slot] = {
                "instruction": (*pictures, each.instruction),
                "answer": answer,
            }
            block = self._piece("turn", {"before": block, "number": str(number), **slots})
        return block

    def _reference(self, block: Block, number: int) -> Block:
        text = reference(self.request.turns, number)
        slots: dict[str, Slot] = {"before": block, "number": str(number), "reference": text}
        return self._piece("reference", slots)

    def _focus_points(self, block: Block, number: int) -> Block:
        points = self.request.turns[number - 1].focus_points
        if points is None:
            return block
        slots: dict[str, Slot] = {"before": block, "number": str(number), "focus_points": points}
        return self._piece("focus_points", slots)

    def _piece(self, name: str, slots: Mapping[str, Slot]) -> Block:
        [message] = self.prompts[name].fill(slots)
        return message.parts


def answers(turns: Sequence[DialogueTurn], given: int) -> list[str | Ref]:
    """Every turn's answer: the reference of the given ones, else a `Ref` to the call for it."""
    return [
        reference(turns, number) if number <= given else Ref(call=f"turn_{number}")
        for number in range(1, len(turns) + 1)
    ]


def reference(turns: Sequence[DialogueTurn], number: int) -> str:
    """The reference of turn `number`, counted from 1; it is there if the request has no faults."""
    text = turns[number - 1].reference
    if text is None:
        raise PlanError(f"turn {number} has no reference")
    return text
