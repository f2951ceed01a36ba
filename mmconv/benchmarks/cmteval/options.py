"""CMT-Eval's own options: which files, and the settings on which paper and code disagree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field

from mmconv.benchmarks.cmteval.fields import Subset
from mmconv.benchmarks.shared.options import (
    CANDIDATE,
    JUDGE,
    BenchmarkOptions,
    Description,
    Several,
)

CONDITION = "free"
"""The one condition: every turn of the history is the model's own (paper, section 4.1)."""


JudgeSettings: TypeAlias = Literal["paper", "code", "code-exact"]


class GradingOptions(BenchmarkOptions):
    """What decides how a dialogue is judged, whatever file it comes from.

    `judge_settings`: temperature 0 and top_p 0.1 throughout (paper), or as in the authors' scripts,
    which add seed 12 and give Long-Text temperature 0.1 alone (code). Their limit of 20000 tokens
    is more than their judge can write, so `judge_max_tokens` is less; `code-exact` sends it anyway.
    """

    judge_settings: JudgeSettings = "paper"
    """How the judge draws: by the paper, or by the scripts (code-exact: even their token limit)."""
    judge_retries: int = Field(default=1, ge=0, le=5)
    """How often a verdict that is unreadable or lacks scores is asked for again."""
    judge_max_tokens: int = Field(default=8192, gt=0)
    """The judge's longest reply, in tokens; 20000 with judge_settings=code-exact."""


class CMTEvalOptions(GradingOptions):
    """Options under `options:` of a run file; `max_tokens` is the authors'."""

    data: Path | Mapping[Subset, Path]
    """The folder with the authors' files, one dialogue file, or a file for each subset."""
    references: Path | None = None
    """The long texts' summaries and QA pairs; in a folder they are found by the authors' name."""
    subsets: Several[Subset] | None = Field(default=None, min_length=1)
    """The subsets that are run, all that there are if none is named."""
    generate_only: bool = False
    """Ask the candidate only, and no judge."""
    skip_bad_records: bool = False
    """Go on without incomplete or unreadable records; the report lists them."""
    max_tokens: int = Field(default=8000, gt=0)
    """The candidate's longest reply, in tokens."""


DESCRIPTION = Description(
    options=CMTEvalOptions,
    conditions={CONDITION: "Every turn of the history is the model's own."},
    unnamed=CONDITION,
    seats={"candidate": CANDIDATE, "judge": JUDGE},
    judging=frozenset(GradingOptions.model_fields),
)
"""What `mmconv options cmteval` prints."""
