"""A row and a grader for tests that plan and score without files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mmconv.benchmarks.convbench.grading import Grader

from judges import Judge, PromptSet, parsers
from mmconv.benchmarks.convbench.data import Row
from mmconv.benchmarks.convbench.options import ConvBenchOptions
from mmconv.core.types import Image, Message, Sampling

PICTURE = Image(sha256="ab" * 32, media_type="image/png", width=640, height=480)

ROW = Row(
    id="7",
    image=PICTURE,
    instructions=("What is it?", "Why?", "Write a slogan."),
    caption="A red kite.",
    references=("A kite.", "For fun.", "Fly high!"),
    focus_points="1. Is it a slogan?",
    categories=("Item Recognition", None, "Slogan Generation"),
    position="B",
    draft=False,
)


def options(**fields: Any) -> ConvBenchOptions:
    return ConvBenchOptions(data=Path("data.jsonl"), images=Path("images"), **fields)


def grader(prompts: Path | None = None, **fields: Any) -> Grader:
    sampling = Sampling(max_tokens=512)
    chosen = options(**fields)
    return Grader(
        options=chosen,
        prompts=PromptSet("convbench", prompts),
        judges={
            "direct": Judge(
                parser=parsers.rating, sampling=sampling, image=chosen.judge_sees_image
            ),
            "pairwise": Judge(
                parser=parsers.choice, sampling=sampling, image=chosen.judge_sees_image
            ),
        },
    )


def texts(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    """Role and text of resolved messages, pictures left out."""
    return [(message.role, message.text) for message in messages]
