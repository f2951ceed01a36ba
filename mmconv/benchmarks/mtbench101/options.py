"""MT-Bench-101's own options: the data, and every point that the paper studies or leaves open."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from mmconv.benchmarks.shared.options import CANDIDATE, JUDGE, BenchmarkOptions, Description

GOLDEN = "golden"
SELF = "self"
CONDITIONS = (GOLDEN, SELF)
"""Whose answers stand in the history: the data's own, or the candidate's (paper, Figure 6)."""


class GradingOptions(BenchmarkOptions):
    """What decides how a dialogue is judged, whatever file it comes from.

    The paper's Table 5 studies `guidelines` and `minimum`. As `reference`, the authors' code gives
    the Python text of all golden messages up to the turn.
    """

    guidelines: bool = True
    """Whether the judge's prompt holds the score guidelines."""
    minimum: bool = True
    """Whether a dialogue's score is the minimum of its turns, or their mean."""
    reference: Literal["answer", "messages"] = "answer"
    """What the judge of MR and GR is given: the turn's golden answer, or all golden messages."""
    judge_retries: int = Field(default=1, ge=0, le=5)
    """How often an unreadable verdict is asked for again; at temperature 0 it may come again."""
    judge_max_tokens: int = Field(default=4096, gt=0)
    """The judge's longest reply, in tokens, as the authors'."""


class MTBench101Options(GradingOptions):
    """Options under `options:` of a run file: how it is judged, and what is run."""

    data: Path
    """The authors' mtbench101.jsonl."""
    generate_only: bool = False
    """Ask the candidate only, and no judge."""
    skip_bad_records: bool = False
    """Go on without incomplete or unreadable records; the report lists them."""
    candidate_system: str | None = None
    """A system prompt for the candidate."""
    max_tokens: int = Field(default=4096, gt=0)
    """The candidate's longest reply, in tokens, as the authors'; a small context takes less."""


DESCRIPTION = Description(
    options=MTBench101Options,
    conditions={
        GOLDEN: "The history holds the data's own answers.",
        SELF: "The history holds the candidate's answers (Figure 6).",
    },
    unnamed=GOLDEN,
    seats={"candidate": CANDIDATE, "judge": JUDGE},
    # the minimum and the mean of turns are columns of their own, and never stand for each other
    judging=frozenset(GradingOptions.model_fields) - {"minimum"},
)
"""What `mmconv options mtbench101` prints."""
