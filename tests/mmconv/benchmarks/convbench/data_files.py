"""Small ConvBench files with their images, and what comes of reading them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Picture

from images import ImageStore
from mmconv.benchmarks.base.dataset import Dataset, Problems
from mmconv.benchmarks.convbench.data import Row, load_rows
from mmconv.benchmarks.convbench.options import ConvBenchOptions
from mmconv.core.config import RunSpec
from mmconv.core.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Files of rows, and what is read of them."""

    data: Path
    images: Path
    annotations: Path | None = None
    positions: Path | None = None
    needs: Sequence[str] = ()
    skip_bad: bool = False
    allow_drafts: bool = False


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


def folder(source: Source) -> Path:
    """The folder of its images."""
    return source.images


def dataset(source: Source, limit: int | None = None) -> Dataset[Row]:
    """What a run takes of these files."""
    options = ConvBenchOptions(
        data=source.data,
        images=source.images,
        annotations=source.annotations,
        positions=source.positions,
        order="authors" if source.positions else "both",
        skip_bad_records=source.skip_bad,
        allow_drafts=source.allow_drafts,
    )
    spec = RunSpec(benchmark="convbench", models={}, limit=limit)
    return load_rows(options, spec, ImageStore(), needs=source.needs)


def load(source: Source, limit: int | None = None) -> list[Row]:
    return list(dataset(source, limit).samples)


def refusal(source: Source, limit: int | None = None) -> DataError:
    with pytest.raises(DataError) as caught:
        dataset(source, limit)
    return caught.value


def left_out(source: Source, limit: int | None = None) -> dict[str, Problems]:
    """The bad rows by place, and what is wrong with them."""
    return dict(dataset(replace(source, skip_bad=True), limit).bad)
