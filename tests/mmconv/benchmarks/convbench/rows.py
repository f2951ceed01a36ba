"""A row and a benchmark for tests that plan and score without files."""

from pathlib import Path
from typing import Any

from mmconv.benchmarks.convbench.benchmark import ConvBench
from mmconv.benchmarks.convbench.data import Row
from mmconv.benchmarks.convbench.options import ConvBenchOptions
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.types import Image, Message

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
)


def benchmark(prompts: Path | None = None, **options: Any) -> ConvBench:
    """The benchmark with these options; it has no data."""
    return ConvBench(
        RunSpec(
            benchmark="convbench",
            options={"data": "data.jsonl", "images": "images", **options},
            prompts=prompts,
            models=dict.fromkeys(("candidate", "judge"), ModelSpec(provider="fake", model="echo")),
        )
    )


def options(**fields: Any) -> ConvBenchOptions:
    return benchmark(**fields).options


def texts(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    """Role and text of resolved messages, images left out."""
    return [(message.role, message.text) for message in messages]
