"""Small ConvBench files with their images, and what comes of reading them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Picture

from images.store import ImageStore
from mmconv.benchmarks.convbench.data import Row, Source, load_rows, survey
from mmconv.benchmarks.data_files.bad_records import BadRecords
from mmconv.core.errors import DataError


def record(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "ID": number,
        "image_id": f"{number}.png",
        "The_first_turn_instruction": f"What is it? {number}",
        "The_second_turn_instruction": "Why?",
        "The_third_turn_instruction": "Write a poem.\n",
        **fields,
    }


def write_lines(path: Path, records: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records), encoding="utf-8")
    return path


def three_rows(folder: Path) -> Source:
    """Three good rows with an image each."""
    images = folder / "pictures"
    images.mkdir()
    for number in (1, 2, 3):
        Picture.new("RGB", (10 * number, 10), (number, 0, 0)).save(images / f"{number}.png")
    data = write_lines(folder / "rows.jsonl", [record(1), record(2), record(3)])
    return Source(data=data, images=images)


def load(source: Source) -> list[Row]:
    library = ImageStore()
    return list(load_rows(source, library, survey(source, library)))


def refusal(source: Source) -> DataError:
    with pytest.raises(DataError) as caught:
        survey(source, ImageStore())
    return caught.value


def left_out(source: Source) -> BadRecords:
    return survey(replace(source, skip_bad=True), ImageStore()).intake.bad
