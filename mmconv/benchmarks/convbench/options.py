"""ConvBench's own options: data, gradings, and every point on which paper and code disagree."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Grading = Literal["direct", "pairwise"]

GIVEN = {"free": 0, "perception": 1, "reasoning": 2}
"""The paper's three settings (section 4.1): how many leading turns are the human's."""

ALONE = {"reasoning_alone": 2, "creation_alone": 3}
"""Single-turn conditions (Appendix C.1): the one instruction that is asked, without the others."""

CONDITIONS = (*GIVEN, *ALONE)


class GradingOptions(BaseModel):
    """What decides how a conversation is judged, whatever data it comes from.

    `order` says which side the model's conversation stands on in pairwise grading: as its row
    has it from the authors' file, drawn by the run's seed, or both in turn (then every judgement
    is made twice). `focus_points` and `turn_judgements` switch off what the paper ablates
    (Appendix C.2). `skipped_turns` says what the overall judge is told of turns that are the
    reference: the paper gives it nothing, the authors' code a canned verdict for the human.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    grading: tuple[Grading, ...] = Field(default=("direct", "pairwise"))
    order: Literal["authors", "random", "both"] = "random"
    focus_points: bool = True
    turn_judgements: bool = True
    skipped_turns: Literal["none", "canned"] = "none"
    judge_sees_image: bool = False
    judge_retries: int = Field(default=1, ge=0)
    extraction: bool = True
    judge_max_tokens: int = Field(default=1024, gt=0)


class ConvBenchOptions(GradingOptions):
    """Options under `options:` of a run file.

    `positions` is the authors' file for `order: authors`. `denominator` is the constant of the
    authors' win rates, in which whatever has no verdict is a loss; None takes 577 where the data
    have that many rows and their number otherwise. A creation or a reasoning with a rating under
    `failure_rating` counts as failed in the attribution of errors.
    """

    data: Path
    images: Path
    annotations: Path | None = None
    positions: Path | None = None
    denominator: int | None = Field(default=None, gt=0)
    failure_rating: float = Field(default=6.0, ge=1, le=10)
    generate_only: bool = False
    skip_bad_records: bool = False
    allow_drafts: bool = False
    candidate_system: str | None = None
    max_tokens: int = Field(default=1024, gt=0)

    @model_validator(mode="after")
    def _consistent(self) -> ConvBenchOptions:
        if self.order == "authors" and self.positions is None:
            raise ValueError(
                "order: authors needs positions: the path of the authors' pairwise.npy"
            )
        if not self.grading and not self.generate_only:
            raise ValueError("grading is empty: name direct or pairwise, or set generate_only")
        return self
