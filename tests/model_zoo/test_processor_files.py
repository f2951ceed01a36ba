"""Bounds of images as checkpoints' own files have them, in the layouts that the hub has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from model_zoo.checkpoints import area_bounds

OWN = {"shortest_edge": 3136, "longest_edge": 12845056}

FILES: dict[str, tuple[str, Any]] = {
    "Qwen2-VL": (
        "preprocessor_config.json",
        {"min_pixels": 3136, "max_pixels": 12845056, "merge_size": 2, "patch_size": 14},
    ),
    "Qwen3-VL": ("preprocessor_config.json", {"size": OWN, "merge_size": 2}),
    "saved by transformers 5": (
        "processor_config.json",
        {"image_processor": {"size": OWN, "merge_size": 2}, "video_processor": {}},
    ),
}


@pytest.mark.parametrize("family", FILES)
def test_bounds_of_areas_are_read(tmp_path: Path, family: str) -> None:
    name, document = FILES[family]
    (tmp_path / name).write_text(json.dumps(document))
    assert area_bounds(str(tmp_path)) == OWN


@pytest.mark.parametrize(
    "text",
    [
        '{"size": {"shortest_edge": 336}}',
        '{"size": {"longest_edge": 1024}, "patch_size": 16}',
        '{"size": {"longest_edge": 1024}, "merge_size": 2}',
        "[]",
        "no JSON",
    ],
)
def test_other_bounds_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "preprocessor_config.json").write_text(text)
    assert area_bounds(str(tmp_path)) is None
