"""How the answers are judged: direct and pairwise, each judged turn and the whole conversation.

Every judgement reads the caption, all instructions and both whole conversations; the creation
turn's also the focus points, and the overall one the judgements of the turns (paper, sections 4.1
to 4.3). Prompts come from `judges`; what became of the judgements is read in `scoring`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from judges import Judge, PromptSet
from mmconv.benchmarks.convbench.chains import answer, own_turns, reference
from mmconv.benchmarks.convbench.data import Row
from mmconv.benchmarks.convbench.options import ALONE, ConvBenchOptions
from mmconv.errors import PlanError
from mmconv.values import Call, Ref, Text

Side: TypeAlias = Literal["A", "B"]
Slots: TypeAlias = dict[str, str | Ref]

OVERALL = 0
"""The turn number that stands for the whole conversation."""

NOT_JUDGED = "(not judged: in this setting the turn is the human reference)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One judgement in a plan: what is judged, in which grading, and by which call.

    `side` is where the candidate's conversation stands in pairwise grading, None in direct.
    """

    grading: Literal["direct", "pairwise"]
    turn: int
    side: Side | None
    call: Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """Plans the judgements that a run's options ask for; `judges` maps a grading to its judge."""

    options: ConvBenchOptions
    prompts: PromptSet
    judges: Mapping[str, Judge]
    seed: int

    def judgements(self, row: Row, condition: str) -> Iterator[Judgement]:
        """All judgements of one conversation; 4, 3, 2 in the paper's settings, per grading."""
        if "direct" in self.options.grading:
            yield from self._direct(row, condition)
        if "pairwise" in self.options.grading:
            for side in self.sides(row):
                yield from self._pairwise(row, condition, side)

    def sides(self, row: Row) -> tuple[Side, ...]:
        """The sides on which the candidate's conversation is shown."""
        if self.options.order == "both":
            return ("A", "B")
        if self.options.order == "random":
            digest = hashlib.sha256(f"{self.seed}/{row.id}".encode()).digest()
            return ("A",) if digest[0] % 2 == 0 else ("B",)
        if row.position is None:
            raise PlanError(f"row {row.id} has no position in the authors' file")
        return (row.position,)

    def _direct(self, row: Row, condition: str) -> Iterator[Judgement]:
        common: Slots = _common(row)
        for number in (1, 2, 3):
            common[f"answer_{number}"] = answer(row, condition, number)
            common[f"reference_{number}"] = reference(row, number)
        for turn in judged_turns(condition):
            call = self._call(row, condition, "direct", turn, dict(common))
            yield Judgement(grading="direct", turn=turn, side=None, call=call)

    def _pairwise(self, row: Row, condition: str, side: Side) -> Iterator[Judgement]:
        model, human = ("a", "b") if side == "A" else ("b", "a")
        common: Slots = _common(row)
        for number in (1, 2, 3):
            common[f"{model}_{number}"] = answer(row, condition, number)
            common[f"{human}_{number}"] = reference(row, number)
        for turn in judged_turns(condition):
            call = self._call(row, condition, f"pairwise_{side}", turn, dict(common))
            yield Judgement(grading="pairwise", turn=turn, side=side, call=call)

    def _call(self, row: Row, condition: str, prefix: str, turn: int, slots: Slots) -> Call:
        grading, _, side = prefix.partition("_")
        name = f"{grading}_overall" if turn == OVERALL else f"{grading}_turn_{turn}"
        if turn == OVERALL and not self.options.turn_judgements:
            name += "_without_judgements"
        elif turn == OVERALL:
            slots |= self._turn_judgements(condition, prefix, human="B" if side == "A" else "A")
        elif turn == 3 and self.options.focus_points and row.focus_points:
            slots["focus_points"] = row.focus_points
        elif turn == 3:
            name += "_without_focus_points"
        return self.judges[grading].call(
            judgement_id(prefix, turn), self.prompts[name], slots, picture=row.image
        )

    def _turn_judgements(self, condition: str, prefix: str, human: Side) -> Slots:
        """What the overall judge reads of the turns: verdicts, or what stands for skipped ones."""
        skipped: str = NOT_JUDGED
        if self.options.skipped_turns == "canned" and prefix != "direct":
            [message] = self.prompts["pairwise_skipped_turn"].fill({"human": human})
            skipped = "".join(part.text for part in message.parts if isinstance(part, Text))
        own = own_turns(condition)
        return {
            f"judgement_{turn}": Ref(call=judgement_id(prefix, turn)) if turn in own else skipped
            for turn in (1, 2, 3)
        }


def judged_turns(condition: str) -> tuple[int, ...]:
    """The turns that are the candidate's own and, unless it held only one, the conversation."""
    own = own_turns(condition)
    return own if condition in ALONE else (*own, OVERALL)


def judgement_id(prefix: str, turn: int) -> str:
    """The id of a judgement's call: `direct/turn_2`, `pairwise_A/overall`."""
    return f"{prefix}/overall" if turn == OVERALL else f"{prefix}/turn_{turn}"


def _common(row: Row) -> Slots:
    if row.caption is None:
        raise PlanError(f"row {row.id} has no caption, and judges read nothing else of the image")
    slots: Slots = {"caption": row.caption}
    for number, instruction in enumerate(row.instructions, start=1):
        slots[f"instruction_{number}"] = instruction
    return slots
