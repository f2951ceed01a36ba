"""Drawn datasets: complete in the authors' columns, seeded, and read as any other."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from images.scenes import answer, draw_sample
from mmconv.benchmarks.convbench.categories import LISTS
from mmconv.benchmarks.convbench.data import (
    CAPTION,
    CATEGORIES,
    COLUMNS,
    FOCUS_POINTS,
    INSTRUCTIONS,
    REFERENCES,
    STATUS,
    Row,
    Source,
)
from mmconv.benchmarks.convbench.scenes import write_scenes
from tests.mmconv.benchmarks.convbench.data_files import load


def rows(folder: Path, count: int = 30, **options: object) -> list[Row]:
    data, images = write_scenes(folder, count, **options)  # type: ignore[arg-type]  # as given
    source = Source(data=data, images=images, needs=[c for c in COLUMNS if c != STATUS])
    found = load(source)
    assert (len(found), any(row.draft for row in found)) == (count, False)
    return found


def test_a_data_set_is_complete_and_its_references_are_true(tmp_path: Path) -> None:
    for row in rows(tmp_path):
        assert row.caption is not None
        assert answer(row.caption, row.instructions) == row.references
        assert row.focus_points is not None and row.focus_points.startswith("1. Does the ")
        assert (row.image.width, row.image.height) == (256, 256)


def test_categories_are_the_papers() -> None:
    known = LISTS.values()
    for number in range(300):
        turns = draw_sample("tests", 0, number).dialogue.turns
        for turn, names in zip(turns, known, strict=True):
            assert turn.category in names


def test_every_column_of_the_authors_is_written(tmp_path: Path) -> None:
    data, _ = write_scenes(tmp_path, 1)
    [line] = data.read_bytes().splitlines()
    told = {CAPTION, FOCUS_POINTS, *INSTRUCTIONS, *CATEGORIES, *REFERENCES}
    assert set(orjson.loads(line)) == told | {"ID", "image_id"}


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_equal_arguments_write_equal_files(tmp_path: Path) -> None:
    for name, options in {
        "one": {"seed": 7},
        "same": {"seed": 7},
        "other": {"seed": 8},
        "hard": {"seed": 7, "difficulty": "hard"},
        "series": {"seed": 7, "series": "demo"},
    }.items():
        write_scenes(tmp_path / name, 3, **options)  # type: ignore[arg-type]  # as given
    written = {path.name: files(path) for path in tmp_path.iterdir()}
    assert written["one"] == written["same"]
    assert len({content["images/scene_00001.png"] for content in written.values()}) == 4


def test_a_smaller_set_is_the_beginning_of_a_larger_one(tmp_path: Path) -> None:
    few, _ = write_scenes(tmp_path / "few", 3, 1)
    many, _ = write_scenes(tmp_path / "many", 6, 1)
    assert many.read_bytes().startswith(few.read_bytes())


@pytest.mark.parametrize("difficulty", ["easy", "normal", "hard"])
def test_every_difficulty_writes_a_data_set(tmp_path: Path, difficulty: str) -> None:
    assert len(rows(tmp_path, 5, difficulty=difficulty)) == 5
