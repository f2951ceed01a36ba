"""What a client may ask of a dialogue: a model, turns, conditions, and how it is judged.

A condition is a number: how many leading turns are answered by the reference. Nothing is planned
here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from mmconv.benchmarks.convbench.options import GIVEN, GradingName
from mmconv.benchmarks.shared.judgements import Fault, Words
from mmconv.core.config import SamplingSpec
from mmconv.core.types import Sampling

Condition: TypeAlias = (
    Literal["free", "perception", "reasoning"] | Annotated[StrictInt, Field(ge=0)]
)
"""One of ConvBench's settings by name, or the number of leading turns that are the reference."""

_NAMES = {number: name for name, number in GIVEN.items()}

_JUDGED = ("gradings", "order", "prompts", "caption", "judge_sees_images", "retries")
"""The fields that only a judge reads."""

_CONVBENCH_TURNS = 3


class DialogueTurn(BaseModel):
    """What the user says; the answer that counts as right; what a good answer should satisfy.

    `images` (`image:<id>` or data URIs) are shown with this turn.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    instruction: Words
    reference: Words | None = None
    focus_points: Words | None = None
    images: tuple[Words, ...] = ()


class DialogueRequest(BaseModel):
    """A dialogue to be held with `model`, once under each condition, and judged by `judge`.

    `images` (`image:<id>` or data URIs) are shown with the first turn, before its own. `caption`
    tells a judge that sees no pictures what they show. `gradings` are `direct` (1-10) and
    `pairwise` (against the references; `order` is the model's side, or both in turn). `prompts`
    "convbench" judges by ConvBench's own prompts, which know three turns, one image with turn 1, a
    caption and all references.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Words
    turns: tuple[DialogueTurn, ...] = Field(min_length=1)
    images: tuple[Words, ...] = ()
    system: Words | None = None
    conditions: tuple[Condition, ...] = Field(default=("free",), min_length=1, max_length=16)
    sampling: SamplingSpec = SamplingSpec()
    judge: Words | None = None
    gradings: tuple[GradingName, ...] = Field(default=("direct",), min_length=1)
    order: Literal["A", "B", "both"] = "both"
    prompts: Literal["dialogue", "convbench"] = "dialogue"
    caption: Words | None = None
    judge_sees_images: StrictBool = False
    judge_max_tokens: StrictInt = Field(default=1024, gt=0)
    retries: StrictInt = Field(default=1, ge=0, le=5)

    @property
    def given(self) -> tuple[int, ...]:
        """The conditions as numbers of given turns, least first."""
        return tuple(sorted({condition_number(each) for each in self.conditions}))

    @property
    def drawn(self) -> Sampling:
        """How the model's answers are drawn."""
        return Sampling(**self.sampling.model_dump())

    @property
    def has_images(self) -> bool:
        """Whether there are images at any turn."""
        return bool(self.images) or any(turn.images for turn in self.turns)

    def faults(self) -> Iterator[Fault]:
        """What is wrong with the request beyond what types tell."""
        yield from self._condition_faults()
        if self.judge is None:
            given = [name for name in _JUDGED if name in self.model_fields_set]
            yield from (("judge", f"needed, since {name} is given") for name in given)
            return
        if self.has_images and self.caption is None and not self.judge_sees_images:
            yield "caption", "the judge needs it, or judge_sees_images, to know the images"
        if self.judge_sees_images and not self.has_images:
            yield "judge_sees_images", "there are no images"
        if "pairwise" in self.gradings:
            yield from self._lacking(len(self.turns), "pairwise grading compares with it")
        if self.prompts == "convbench":
            yield from self._convbench_faults()

    def _condition_faults(self) -> Iterator[Fault]:
        numbers = [condition_number(each) for each in self.conditions]
        if len(set(numbers)) < len(numbers):
            yield "conditions", "one of them stands there twice"
        for place, number in enumerate(numbers):
            if number >= len(self.turns):
                yield f"conditions[{place}]", f"leaves none of {len(self.turns)} turns to the model"
                return
        yield from self._lacking(max(numbers), "a condition puts it in the model's place")

    def _lacking(self, turns: int, why: str) -> Iterator[Fault]:
        """The first turns that have no reference."""
        for place, turn in enumerate(self.turns[:turns]):
            if turn.reference is None:
                yield f"turns[{place}].reference", f"needed: {why}"

    def _convbench_faults(self) -> Iterator[Fault]:
        if len(self.turns) != _CONVBENCH_TURNS:
            yield "turns", f"ConvBench's prompts judge {_CONVBENCH_TURNS} turns"
        if len(self.images) + len(self.turns[0].images) != 1:
            yield "images", "ConvBench's prompts judge a dialogue about one image"
        for place, turn in enumerate(self.turns[1:], start=1):
            if turn.images:
                yield f"turns[{place}].images", "ConvBench's prompts know the image of turn 1 only"
        if self.caption is None:
            yield "caption", "ConvBench's prompts hold it"
        yield from self._lacking(len(self.turns), "ConvBench's prompts hold it")
        for place, turn in enumerate(self.turns[: _CONVBENCH_TURNS - 1]):
            if turn.focus_points is not None:
                yield f"turns[{place}].focus_points", "ConvBench's prompts read those of turn 3"


def condition_number(condition: Condition) -> int:
    """How many leading turns are the reference's."""
    return GIVEN[condition] if isinstance(condition, str) else condition


def condition_name(given: int) -> str:
    """ConvBench's name for the condition, or `given_<number>`."""
    return _NAMES.get(given, f"given_{given}")
