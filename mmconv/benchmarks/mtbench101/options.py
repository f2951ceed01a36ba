"""MT-Bench-101's own options: the data, and every point that the paper studies or leaves open."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

CONDITIONS = ("golden", "self")
"""Whose answers stand in the history: the data's own, or the candidate's (paper, Figure 6)."""


class GradingOptions(BaseModel):
    """What decides how a dialogue is judged, whatever file it comes from.

    `guidelines` False takes the score guidelines out of the judge's prompt, `minimum` False makes a
    dialogue's score the mean of its turns instead of their minimum (both: paper, Table 5).
    `reference` says what the judge of MR and GR is given: the golden answer to the turn, or, as
    the authors' code has it, the Python text of all golden messages up to it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    guidelines: bool = True
    minimum: bool = True
    reference: Literal["answer", "messages"] = "answer"
    judge_retries: int = Field(default=1, ge=0)
    judge_max_tokens: int = Field(default=1024, gt=0)


class MTBench101Options(GradingOptions):
    """Options under `options:` of a run file: how it is judged, and what is run."""

    data: Path
    generate_only: bool = False
    skip_bad_records: bool = False
    candidate_system: str | None = None
    max_tokens: int = Field(default=1024, gt=0)
