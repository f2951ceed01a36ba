"""A dataset in ConvBench's columns over drawn scenes: complete, seeded, and true.

Instructions, references, captions and focus points are written from what was drawn, in the language
that `images.scenes.check` reads. Results on it do not predict results on ConvBench.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import orjson

from images.scenes import Difficulty, Sample, draw, draw_sample
from mmconv.benchmarks.convbench.data import (
    CAPTION,
    CATEGORIES,
    FOCUS_POINTS,
    ID,
    IMAGE,
    INSTRUCTIONS,
    REFERENCES,
)

SERIES = "scenes"
"""The series that users draw from; the pocket model was trained on others."""


def write_scenes(
    folder: Path,
    count: int,
    seed: int = 0,
    difficulty: Difficulty = "normal",
    series: str = SERIES,
) -> tuple[Path, Path]:
    """Draw `count` rows into `folder`; returns the data file and the folder of its images.

    Equal arguments write equal files; a smaller `count` writes the first rows of a larger one.
    """
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    data = folder / "data.jsonl"
    with data.open("wb") as lines:
        for number in range(1, count + 1):
            sample = draw_sample(series, seed, number, difficulty)
            name = f"scene_{number:05}.png"
            (images / name).write_bytes(draw(sample.scene))
            lines.write(orjson.dumps(_row(number, name, sample)) + b"\n")
    return data, images


def _row(number: int, image: str, sample: Sample) -> Mapping[str, str | int]:
    dialogue = sample.dialogue
    points = (f"{place}. {point}" for place, point in enumerate(dialogue.focus_points, start=1))
    row: dict[str, str | int] = {ID: number, IMAGE: image, CAPTION: dialogue.caption}
    for place, turn in enumerate(dialogue.turns):
        row[INSTRUCTIONS[place]] = turn.instruction
        row[CATEGORIES[place]] = turn.category
        row[REFERENCES[place]] = turn.reference
    row[FOCUS_POINTS] = "\n".join(points)
    return row
