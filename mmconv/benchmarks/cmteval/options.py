"""CMT-Eval's own options: which files, and the settings on which paper and code disagree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from mmconv.benchmarks.cmteval.fields import Subset
from mmconv.benchmarks.several import Several

CONDITION = "free"
"""The one condition: every turn of the history is the model's own (paper, section 4.1)."""


class GradingOptions(BaseModel):
    """What decides how a dialogue is judged, whatever file it comes from.

    `judge_settings` says how the judge draws: temperature 0 and top_p 0.1 throughout (paper), or as
    in the authors' scripts, which add seed 12 and give Long-Text temperature 0.1 alone (code).
    Their judge's limit of 20000 tokens is more than it can give, so `judge_max_tokens` is less.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    judge_settings: Literal["paper", "code"] = "paper"
    judge_retries: int = Field(default=1, ge=0)
    judge_max_tokens: int = Field(default=8192, gt=0)


class CMTEvalOptions(GradingOptions):
    """Options under `options:` of a run file.

    `data` is the folder with the authors' files, one dialogue file, or a mapping from subset to
    file (perturbed files, for instance). `references` holds the long texts' summaries and QA pairs;
    in a folder it is found by the authors' name. `subsets` narrows the run. `max_tokens` is the
    authors'.
    """

    data: Path | Mapping[Subset, Path]
    references: Path | None = None
    subsets: Several[Subset] | None = Field(default=None, min_length=1)
    generate_only: bool = False
    skip_bad_records: bool = False
    max_tokens: int = Field(default=8000, gt=0)
