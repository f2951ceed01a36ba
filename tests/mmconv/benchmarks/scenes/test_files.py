"""Drawings as files: complete in ConvBench's columns, seeded, equal in both forms."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from images.drawn import draw_sample
from mmconv.benchmarks.convbench.data import COLUMNS, LISTS, STATUS
from mmconv.benchmarks.data_files.parquet import EmbeddedImage, read_rows
from mmconv.core.errors import ConfigError
from tests.mmconv.benchmarks.convbench.data_files import Source, load
from tests.mmconv.processes import typed


def scenes(out: Path, *options: str) -> str:
    result = typed("scenes", str(out), *options)
    if result.exception is not None:
        raise result.exception
    return result.output


def rows(folder: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (folder / "data.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_convbench_reads_every_family(tmp_path: Path, language: str) -> None:
    out = tmp_path / "set"
    printed = scenes(out, "--levels", "1,6", "--n", "1", "--language", language)
    assert printed.startswith("16 scenes: ")
    needs = [column for column in COLUMNS if column != STATUS]
    for data in ("data.jsonl", "data.parquet"):
        samples = load(Source(data=out / data, images=out / "images", needs=needs))
        assert len(samples) == 16


def test_both_files_have_the_same_rows_and_images(tmp_path: Path) -> None:
    out = tmp_path / "set"
    scenes(out, "--families", "shapes,clocks", "--levels", "1-2", "--n", "1")
    for row, other in zip(rows(out), read_rows(out / "data.parquet"), strict=True):
        image = other.pop("image_id")
        assert isinstance(image, EmbeddedImage)
        assert image.read() == (out / "images" / row.pop("image_id")).read_bytes()
        assert other == row


def test_facts_and_answer_are_written(tmp_path: Path) -> None:
    scenes(tmp_path / "set", "--families", "crowds,shapes", "--levels", "1", "--n", "1")
    crowd, shapes = rows(tmp_path / "set")
    [fact] = crowd["facts"]
    assert crowd["instruction-conditioned-caption"] == f"{fact['subject']}: {fact['value']}"
    assert crowd["second_turn_answer"].endswith(f"Answer: {crowd['answer']}")
    assert f": {shapes['answer']}." in shapes["second_turn_answer"]


def test_level_1_of_shapes_has_a_caption_and_focus_points_in_its_own_words(tmp_path: Path) -> None:
    scenes(tmp_path / "set", "--families", "shapes", "--levels", "1", "--n", "20")
    for row in rows(tmp_path / "set"):
        assert row["instruction-conditioned-caption"].startswith("On a plain ")
        assert row["third_turn_demands"].startswith("1. Does the ")


def test_categories_are_the_papers() -> None:
    known = LISTS.values()
    for number in range(300):
        turns = draw_sample("shapes", 1, 0, number, "en").turns
        for turn, names in zip(turns, known, strict=True):
            assert turn.category in names


def test_seeds_change_the_images_and_a_smaller_set_is_the_beginning(tmp_path: Path) -> None:
    drawn = ["--families", "shapes,stacks", "--levels", "1"]
    for name, n, seed in (("few", "1", "1"), ("many", "2", "1"), ("other", "1", "2")):
        scenes(tmp_path / name, *drawn, "--n", n, "--seed", seed)
    few, many, other = ((tmp_path / name) for name in ("few", "many", "other"))
    assert (many / "data.jsonl").read_bytes().startswith((few / "data.jsonl").read_bytes())
    for image in ("images/scene_00001.png", "images/scene_00002.png"):
        assert (few / image).read_bytes() == (many / image).read_bytes()
        assert (few / image).read_bytes() != (other / image).read_bytes()


def test_a_folder_with_files_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="the folder is not empty"):
        scenes(tmp_path)
    with pytest.raises(ConfigError):
        scenes(tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
