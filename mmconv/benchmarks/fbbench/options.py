"""FB-Bench's own options, its tasks, and the points on which paper and code disagree."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Maintenance: TypeAlias = Literal["any", "all"]

CORRECTION = "Error Correction"
MAINTENANCE = "Response Maintenance"
SCENARIOS = (CORRECTION, MAINTENANCE)

TEMPERATURES = {
    "Mathematics": 0.0,
    "Reasoning": 0.0,
    "Coding": 0.0,
    "Text Extraction": 0.0,
    "Text Error Correction": 0.0,
    "Text Creation": 0.7,
    "Knowledge Q&A": 0.1,
    "Text Translation": 0.7,
}
"""The candidate's temperature by task (paper, Appendix A.2.1), in the order of the tables."""

CONDITION = "preset"
"""The one condition: the first answer is the preset one, and the model answers the feedback."""


class FBBenchOptions(BaseModel):
    """Options under `options:` of a run file.

    `reference` says whether the judge reads the reference answer; None shows it where all records
    have one, as release v1 does and v3 does not. `maintenance` is the score of response
    maintenance: 1 if any criterion is met (the paper's text, the authors' code), or only if all are
    (the formula that the paper prints).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: Path
    reference: bool | None = None
    maintenance: Maintenance = "any"
    judge_retries: int = Field(default=2, ge=0)
    generate_only: bool = False
    skip_bad_records: bool = False
    max_tokens: int = Field(default=4096, gt=0)
    judge_max_tokens: int = Field(default=4096, gt=0)
