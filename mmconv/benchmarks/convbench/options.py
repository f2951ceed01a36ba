"""ConvBench's own options: data, gradings, and every point on which paper and code disagree."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from mmconv.benchmarks.base.benchmark import ImageOptions
from mmconv.benchmarks.shared.options import BenchmarkOptions, Several

GradingName = Literal["direct", "pairwise"]

GIVEN = {"free": 0, "perception": 1, "reasoning": 2}
"""The paper's three settings (section 4.1): how many leading turns are the human's."""

ALONE = {"reasoning_alone": 2, "creation_alone": 3}
"""Single-turn conditions (Appendix C.1): the one instruction that is asked, without the others."""

CONDITIONS = (*GIVEN, *ALONE)


class GradingOptions(BenchmarkOptions):
    """What decides how a conversation is judged, whatever data it comes from.

    `focus_points` and `turn_judgements` switch off what the paper ablates (Appendix C.2). Of
    `skipped_turns`, the paper gives the judge nothing, the authors' code a canned verdict.
    """

    grading: Several[GradingName] = ("direct", "pairwise")
    """Ratings from 1 to 10 in which the reference is 10, and forced choices against the human."""
    order: Literal["authors", "random", "both"] = "random"
    """The candidate's side in pairs: by the authors' file, drawn, or each side in turn."""
    side_seed: int = Field(default=0, ge=0, le=2**31 - 1)
    """What sides are drawn by (`order: random`): the same for all runs that are compared."""
    focus_points: bool = True
    """Whether the judge of the creation turn reads the focus points."""
    turn_judgements: bool = True
    """Whether the overall judge reads the judgements of the turns, and so needs every one."""
    skipped_turns: Literal["none", "canned"] = "none"
    """What the overall judge reads of reference turns: nothing, or a verdict for the human."""
    judge_sees_image: bool = False
    """Whether the judge is sent the picture too; the authors' judge reads text only."""
    judge_retries: int = Field(default=1, ge=0, le=5)
    """How often an unreadable verdict is asked for again; at temperature 0 it may come again."""
    extraction: bool = True
    """Whether a verdict that still cannot be read goes to a second prompt, which extracts it."""
    judge_max_tokens: int = Field(default=1024, gt=0)
    """The judge's longest reply, in tokens."""


class ConvBenchOptions(GradingOptions, ImageOptions):
    """Options under `options:` of a run file.

    A `denominator` of None takes 577 where the data have as many rows as the authors', and their
    number otherwise.
    """

    annotations: Path | None = None
    """A file of the columns that the data file lacks, joined by ID."""
    positions: Path | None = None
    """The authors' pairwise.npy, which `order: authors` needs."""
    denominator: int | None = Field(default=None, gt=0)
    """The constant of the authors' win rates, in which a missing verdict is a loss (577)."""
    failure_rating: float = Field(default=6.0, ge=1, le=10)
    """The rating under which a turn counts as failed in the attribution of errors."""
    failure_win: float = Field(default=0.5, gt=0, le=1)
    """The win under which a comparison counts as failed: a loss is 0, one win in two orders 0.5."""
    allow_drafts: bool = False
    """Use annotations that no person has verified; every table says so."""
    candidate_system: str | None = None
    """A system prompt for the candidate."""
    max_tokens: int = Field(default=1024, gt=0)
    """The candidate's longest reply, in tokens."""

    @model_validator(mode="after")
    def _consistent(self) -> ConvBenchOptions:
        if self.order == "authors" and self.positions is None:
            raise ValueError(
                "order: authors needs positions: the path of the authors' pairwise.npy"
            )
        if not self.grading and not self.generate_only:
            raise ValueError("grading is empty: name direct or pairwise, or set generate_only")
        return self


def own_turns(condition: str) -> tuple[int, ...]:
    """The turns that the candidate answers itself."""
    if condition in ALONE:
        return (ALONE[condition],)
    return tuple(range(GIVEN[condition] + 1, 4))
