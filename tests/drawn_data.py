"""A dataset in ConvBench's columns over drawn scenes, from a series that no command draws."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import orjson

from images.scenes import Sample, draw, draw_sample
from mmconv.benchmarks.convbench.data import (
    CAPTION,
    CATEGORIES,
    FOCUS_POINTS,
    ID,
    IMAGE,
    INSTRUCTIONS,
    REFERENCES,
)

drawn = cache(draw)


def write_scenes(folder: Path, count: int, seed: int = 0) -> tuple[Path, Path]:
    """Draw `count` rows into `folder`; returns the data file and the folder of its images."""
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    data = folder / "data.jsonl"
    with data.open("wb") as lines:
        for number in range(1, count + 1):
            sample = draw_sample("scenes", seed, number)
            name = f"scene_{number:05}.png"
            (images / name).write_bytes(drawn(sample.scene))
            lines.write(orjson.dumps(_row(number, name, sample)) + b"\n")
    return data, images


def _row(number: int, image: str, sample: Sample) -> dict[str, str | int]:
    dialogue = sample.dialogue
    points = (f"{place}. {point}" for place, point in enumerate(dialogue.focus_points, start=1))
    row: dict[str, str | int] = {ID: number, IMAGE: image, CAPTION: dialogue.caption}
    for place, turn in enumerate(dialogue.turns):
        row[INSTRUCTIONS[place]] = turn.instruction
        row[CATEGORIES[place]] = turn.category
        row[REFERENCES[place]] = turn.reference
    row[FOCUS_POINTS] = "\n".join(points)
    return row
