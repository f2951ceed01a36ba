"""Drawings as files with their truth, in ConvBench's columns and a few more.

So ConvBench runs on them too, and other harnesses find images, questions and answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from images.drawn import Language, draw_sample
from images.drawn import Sample as Drawn
from mmconv.benchmarks.scenes.benchmark import ScenesOptions, list_scenes

Row: TypeAlias = dict[str, Any]

IMAGE = "image_id"
TURNS = ("first", "second", "third")


def write_jsonl(folder: Path, options: ScenesOptions, seed: int = 0) -> tuple[Path, Path]:
    """Write data.jsonl and images; returns the file and the folder of its images.

    Equal arguments write equal files; a smaller `n` writes the first rows of a larger one.
    """
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    data = folder / "data.jsonl"
    with data.open("wb") as lines:
        for row, png in make_rows(options, seed):
            (images / row[IMAGE]).write_bytes(png)
            lines.write(orjson.dumps(row) + b"\n")
    return data, images


def write_parquet(path: Path, options: ScenesOptions, seed: int = 0) -> None:
    """Write the same rows with the images in their column, as the Hugging Face hub has them."""
    # imported here: pyarrow is slow to load
    import pyarrow
    from pyarrow import parquet

    rows = [
        {**row, IMAGE: {"bytes": png, "path": row[IMAGE]}} for row, png in make_rows(options, seed)
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=100)


def make_rows(options: ScenesOptions, seed: int) -> Iterator[tuple[Row, bytes]]:
    """Each row with its image as a PNG file."""
    for number, scene in enumerate(list_scenes(options, seed), start=1):
        drawn = draw_sample(**scene)
        fields = {name: scene[name] for name in ("family", "level", "seed", "language")}
        row = {"ID": number, IMAGE: f"scene_{number:05}.png", **fields}
        yield row | _describe(drawn, scene["language"]), drawn.drawing.png


def _describe(drawn: Drawn, language: Language) -> Row:
    """The dialogue and the truth."""
    facts = [
        {"subject": fact.subject[language], "value": fact.value[language]}
        for fact in drawn.drawing.facts
    ]
    row: Row = {"instruction-conditioned-caption": drawn.caption}
    for name, turn in zip(TURNS, drawn.turns, strict=True):
        row[f"The_{name}_turn_instruction"] = turn.instruction
        row[f"{name.capitalize()}_turn_instruction_category"] = turn.category or turn.task
        row[f"{name}_turn_answer"] = turn.reference
    demands = "\n".join(f"{n}. {demand}" for n, demand in enumerate(drawn.demands, start=1))
    return {**row, "third_turn_demands": demands, "facts": facts, "answer": drawn.answer}
