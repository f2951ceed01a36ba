"""FB-Bench's own options, its tasks, and the points on which paper and code disagree."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field

from mmconv.benchmarks.shared.options import CANDIDATE, JUDGE, BenchmarkOptions, Description

Maintenance: TypeAlias = Literal["any", "all"]
JudgeSettings: TypeAlias = Literal["schema", "code-exact"]

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


class FBBenchOptions(BenchmarkOptions):
    """Options under `options:` of a run file.

    Records have reference answers in release v1 and none in v3. Of `maintenance`, the paper's text
    and the authors' code have any, the formula that the paper prints all.
    """

    data: Path
    """The authors' file of either release."""
    reference: bool | None = None
    """Whether the judge reads the reference answer; not set, it does where all records have one."""
    maintenance: Maintenance = "any"
    """A response is maintained if any criterion is met, or only if all are."""
    judge_settings: JudgeSettings = "schema"
    """Holds the judge to the form's schema where it can be, or to any object (code-exact)."""
    judge_retries: int = Field(default=2, ge=0, le=5)
    """How often a verdict that is unreadable or lacks scores is asked for again."""
    generate_only: bool = False
    """Ask the candidate only, and no judge."""
    skip_bad_records: bool = False
    """Go on without incomplete or unreadable records; the report lists them."""
    max_tokens: int = Field(default=4096, gt=0)
    """The candidate's longest reply, in tokens."""
    judge_max_tokens: int = Field(default=4096, gt=0)
    """The judge's longest reply, in tokens."""


DESCRIPTION = Description(
    options=FBBenchOptions,
    conditions={CONDITION: "The first answer is the preset one; the model answers the feedback."},
    unnamed=CONDITION,
    seats={"candidate": CANDIDATE, "judge": JUDGE},
    judging=frozenset(
        {"reference", "maintenance", "judge_settings", "judge_retries", "judge_max_tokens"}
    ),
)
"""What `mmconv options fbbench` prints."""
