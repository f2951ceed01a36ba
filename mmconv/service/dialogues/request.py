"""The body of `POST /v1/dialogues`, and the sample and options of the benchmark that it stands for.

A condition is a number: how many leading turns are answered by the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from mmconv.benchmarks.dialogue import CONVBENCH_TURNS, DialogueSample, GradingName, count_given
from mmconv.benchmarks.dialogue import DialogueTurn as SampleTurn
from mmconv.core.config import SamplingSpec
from mmconv.core.keys import hash_bytes
from mmconv.core.types import Image
from mmconv.service.http.requests import Fault, Words

Condition: TypeAlias = (
    Literal["free", "perception", "reasoning"] | Annotated[StrictInt, Field(ge=0)]
)
"""One of ConvBench's settings by name, or the number of leading turns that are the reference."""

_JUDGED = ("gradings", "order", "prompts", "caption", "judge_sees_images", "retries")
"""The fields that only a judge reads."""


class DialogueTurn(BaseModel):
    """What the user says, the correct answer, and criteria that a good answer satisfies.

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
    describes them to a judge that does not see them. `gradings` are `direct` (1-10) and `pairwise`
    (against the references; `order` is the model's side, or both in turn). `prompts` "convbench"
    judges by ConvBench's own prompts, which need three turns, one image with turn 1, a caption and
    all references.
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
        return tuple(sorted({_number(condition) for condition in self.conditions}))

    @property
    def options(self) -> dict[str, Any]:
        """The benchmark's options; sampling goes with the model."""
        return {
            "generate_only": self.judge is None,
            "gradings": self.gradings,
            "order": self.order,
            "prompts": self.prompts,
            "judge_sees_images": self.judge_sees_images,
            "judge_retries": self.retries,
            "judge_max_tokens": self.judge_max_tokens,
            "candidate_system": self.system,
        }

    def sample(self, images: Sequence[tuple[Image, ...]]) -> DialogueSample:
        """The dialogue as the benchmark's sample; `images` are those of each turn."""
        # Not validated: a data file's texts may not be blank, and those of a request may.
        turns = (
            SampleTurn.model_construct(**{**dict(turn), "images": shown})
            for turn, shown in zip(self.turns, images, strict=True)
        )
        return DialogueSample.model_construct(
            id=hash_bytes(self.model_dump_json().encode())[:12],
            turns=tuple(turns),
            caption=self.caption,
        )

    @property
    def length(self) -> int:
        """The characters of all turns."""
        texts = ((turn.instruction, turn.reference, turn.focus_points) for turn in self.turns)
        return sum(len(text or "") for turn in texts for text in turn)

    @property
    def has_images(self) -> bool:
        """Whether there are images at any turn."""
        return bool(self.images) or any(turn.images for turn in self.turns)

    def faults(self) -> Iterator[Fault]:
        """The problems of the request that types cannot express."""
        yield from self._condition_faults()
        if self.judge is None:
            named = [name for name in _JUDGED if name in self.model_fields_set]
            yield from (("judge", f"needed, since {name} is given") for name in named)
            return
        if self.has_images and self.caption is None and not self.judge_sees_images:
            yield "caption", "the judge needs it, or judge_sees_images, to know the images"
        if self.judge_sees_images and not self.has_images:
            yield "judge_sees_images", "the dialogue has no images"
        if "pairwise" in self.gradings:
            yield from self._missing(len(self.turns), "pairwise grading compares with it")
        if self.prompts == "convbench":
            yield from self._convbench_faults()

    def _condition_faults(self) -> Iterator[Fault]:
        numbers = [_number(condition) for condition in self.conditions]
        if len(set(numbers)) < len(numbers):
            yield "conditions", "one of them is repeated"
        for place, number in enumerate(numbers):
            if number >= len(self.turns):
                yield f"conditions[{place}]", f"leaves none of {len(self.turns)} turns to the model"
                return
        yield from self._missing(max(numbers), "a condition puts it in the model's place")

    def _missing(self, turns: int, reason: str) -> Iterator[Fault]:
        """The first turns that have no reference."""
        for place, turn in enumerate(self.turns[:turns]):
            if turn.reference is None:
                yield f"turns[{place}].reference", f"needed: {reason}"

    def _convbench_faults(self) -> Iterator[Fault]:
        if len(self.turns) != CONVBENCH_TURNS:
            yield "turns", f"ConvBench's prompts judge {CONVBENCH_TURNS} turns"
        if len(self.images) + len(self.turns[0].images) != 1:
            yield "images", "ConvBench's prompts judge a dialogue about one image"
        for place, turn in enumerate(self.turns[1:], start=1):
            if turn.images:
                yield f"turns[{place}].images", "ConvBench's prompts use the image of turn 1 only"
        if self.caption is None:
            yield "caption", "ConvBench's prompts contain it"
        yield from self._missing(len(self.turns), "ConvBench's prompts contain it")
        for place, turn in enumerate(self.turns[: CONVBENCH_TURNS - 1]):
            if turn.focus_points is not None:
                yield f"turns[{place}].focus_points", "ConvBench's prompts read those of turn 3"


def _number(condition: Condition) -> int:
    return count_given(condition) if isinstance(condition, str) else condition
