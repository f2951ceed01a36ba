"""How the answers are judged: direct and pairwise, each judged turn and the whole conversation.

Every judgement reads the caption, all instructions and both whole conversations; the creation
turn's also the focus points, and the overall one the judgements of the turns (paper, sections 4.1
to 4.3). Prompts come from `judges`; what became of the judgements is read in `scoring`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from judges import Extraction, Judge, PromptSet, parsers
from mmconv.benchmarks.convbench.chains import answer, own_turns, reference
from mmconv.benchmarks.convbench.data import Row
from mmconv.benchmarks.convbench.options import ALONE, GradingName, GradingOptions
from mmconv.benchmarks.convbench.sides import Side
from mmconv.core.errors import PlanError
from mmconv.core.types import Call, Ref, Sampling

Slots: TypeAlias = dict[str, str | Ref]

OVERALL = 0
"""The turn number that stands for the whole conversation."""

NOT_JUDGED = "(not judged: in this setting the turn is the human reference)"

CUT_OFF_HERE = "\n(here the judgement was cut off)"
"""What the judge of the whole conversation reads behind a turn's judgement that is not whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJudgement:
    """One judgement to be made: in which grading, of which turn (0: the conversation).

    `side` is where the candidate's conversation stands in pairwise grading, None in direct.
    """

    grading: GradingName
    turn: int
    side: Side | None = None

    @property
    def call(self) -> str:
        """The id of the call that makes it: `direct/turn_2`, `pairwise_A/overall`."""
        prefix = self.grading if self.side is None else f"{self.grading}_{self.side}"
        return f"{prefix}/overall" if self.turn == OVERALL else f"{prefix}/turn_{self.turn}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """Plans the judgements that the options ask for; `judges` maps a grading to its judge."""

    options: GradingOptions
    prompts: PromptSet
    judges: Mapping[str, Judge]

    def judgements(self, row: Row, condition: str) -> Iterator[PlannedJudgement]:
        """What is judged of one conversation; 4, 3, 2 in the paper's settings, per grading."""
        turns = judged_turns(condition)
        if "direct" in self.options.grading:
            yield from (PlannedJudgement(grading="direct", turn=turn) for turn in turns)
        if "pairwise" in self.options.grading:
            for side in self.sides(row):
                for turn in turns:
                    yield PlannedJudgement(grading="pairwise", turn=turn, side=side)

    def calls(self, row: Row, condition: str) -> Iterator[Call]:
        """The calls that make these judgements."""
        for judgement in self.judgements(row, condition):
            name, slots = self._filling(row, condition, judgement)
            yield self.judges[judgement.grading].call(
                judgement.call, self.prompts[name], slots, picture=row.image
            )

    def sides(self, row: Row) -> tuple[Side, ...]:
        """The sides on which the candidate's conversation is shown."""
        if self.options.order == "both":
            return ("A", "B")
        if self.options.order == "random":
            digest = hashlib.sha256(f"{self.options.side_seed}/{row.id}".encode()).digest()
            return ("A",) if digest[0] % 2 == 0 else ("B",)
        if row.position is None:
            raise PlanError(f"row {row.id} has no position in the authors' file")
        return (row.position,)

    def _filling(self, row: Row, condition: str, judgement: PlannedJudgement) -> tuple[str, Slots]:
        """The name of the prompt file for a judgement, and what fills its slots."""
        slots = _conversations(row, condition, judgement)
        name = f"{judgement.grading}_turn_{judgement.turn}"
        if judgement.turn == OVERALL:
            name = f"{judgement.grading}_overall"
            if not self.options.turn_judgements:
                return f"{name}_without_judgements", slots
            return name, slots | self._turn_judgements(condition, judgement)
        if judgement.turn < 3:
            return name, slots
        if not (self.options.focus_points and row.focus_points):
            return f"{name}_without_focus_points", slots
        return name, {**slots, "focus_points": row.focus_points}

    def _turn_judgements(self, condition: str, overall: PlannedJudgement) -> Slots:
        """What the overall judge reads of the turns, or what stands for skipped ones.

        It is what the judge first said, as in the authors' code, also where that could not be read
        as a verdict and a later reply was; only where it was cut off the prompt says so.
        """
        own = own_turns(condition)
        return {
            f"judgement_{turn}": Ref(call=replace(overall, turn=turn).call, cut_off=CUT_OFF_HERE)
            if turn in own
            else self._skipped(overall)
            for turn in (1, 2, 3)
        }

    def _skipped(self, overall: PlannedJudgement) -> str:
        if self.options.skipped_turns == "none" or overall.side is None:
            return NOT_JUDGED
        human = "B" if overall.side == "A" else "A"
        [message] = self.prompts["pairwise_skipped_turn"].fill({"human": human})
        return message.text


def build_judges(
    options: GradingOptions, prompts: PromptSet, *, offline: bool = False
) -> dict[str, Judge]:
    """The judge of each grading; an `offline` one always gives a verdict, so it is asked once."""
    sampling = Sampling(max_tokens=options.judge_max_tokens)
    ways = {
        "direct": (parsers.rating, parsers.extracted_rating),
        "pairwise": (parsers.choice, parsers.extracted_choice),
    }
    judges = {}
    for grading, (parser, extracted) in ways.items():
        extraction = None
        if options.extraction and not offline:
            prompt = prompts[f"{grading}_extract"]
            extraction = Extraction(prompt=prompt, parser=extracted)
        judges[grading] = Judge(
            parser=parser,
            sampling=sampling,
            retries=0 if offline else options.judge_retries,
            extraction=extraction,
            image=options.judge_sees_image,
        )
    return judges


def judged_turns(condition: str) -> tuple[int, ...]:
    """The turns that are the candidate's own and, unless it held only one, the conversation."""
    own = own_turns(condition)
    return own if condition in ALONE else (*own, OVERALL)


def _conversations(row: Row, condition: str, judgement: PlannedJudgement) -> Slots:
    """The slots that every judgement fills: description, instructions, both conversations."""
    if row.caption is None:
        raise PlanError(f"row {row.id} has no caption, and judges read nothing else of the image")
    slots: Slots = {"caption": row.caption}
    model, human = {None: ("answer", "reference"), "A": ("a", "b"), "B": ("b", "a")}[judgement.side]
    for number, instruction in enumerate(row.instructions, start=1):
        slots[f"instruction_{number}"] = instruction
        slots[f"{model}_{number}"] = answer(row, condition, number)
        slots[f"{human}_{number}"] = reference(row, number)
    return slots
