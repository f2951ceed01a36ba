"""A data set in ConvBench's columns whose pictures are drawn: for the demo and for first tries.

Instructions, references and focus points are written from what was drawn, so they are true. It is
no benchmark, and no number that comes of it says anything about a real model.
"""

from __future__ import annotations

from pathlib import Path

import orjson

from images.drawing import Shape, draw_scene
from mmconv.benchmarks.convbench.columns import (
    CAPTION,
    CATEGORIES,
    FOCUS_POINTS,
    ID,
    IMAGE,
    INSTRUCTIONS,
    REFERENCES,
)


def write_drawn_data(folder: Path, count: int, seed: int = 0) -> tuple[Path, Path]:
    """Draw `count` rows into `folder`; returns the data file and the folder of its images."""
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    data = folder / "data.jsonl"
    with data.open("wb") as lines:
        for number in range(count):
            picture, shapes = draw_scene(seed + number)
            name = f"scene_{number + 1}.png"
            (images / name).write_bytes(picture)
            lines.write(orjson.dumps(_row(number + 1, name, shapes)) + b"\n")
    return data, images


def _row(number: int, image: str, shapes: tuple[Shape, ...]) -> dict[str, str | int]:
    names = [f"a {shape.colour} {shape.kind}" for shape in shapes]
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    removed, kept = shapes[0], names[1:]
    left = " and ".join(kept)
    texts = {
        CAPTION: f"On a white ground stand, from left to right, {listed}.",
        INSTRUCTIONS[0]: "Which shapes are in the picture, from left to right?",
        INSTRUCTIONS[1]: f"What is left if the {removed.colour} {removed.kind} is taken away?",
        INSTRUCTIONS[2]: "Write a slogan that names everything that is left.",
        REFERENCES[0]: f"From left to right there are {listed}.",
        REFERENCES[1]: f"Without the {removed.colour} {removed.kind} there is {left} left.",
        REFERENCES[2]: f"Simply strong: {left}!",
        FOCUS_POINTS: "\n".join(
            f"{place}. Does the slogan name {name}?" for place, name in enumerate(kept, start=1)
        ),
        CATEGORIES[0]: "Shape Recognition",
        CATEGORIES[1]: "Count Reasoning",
        CATEGORIES[2]: "Slogan Generation",
    }
    return {ID: number, IMAGE: image, **texts}
