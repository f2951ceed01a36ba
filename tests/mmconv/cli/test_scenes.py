"""`mmconv scenes` as it is typed."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from mmconv.cli.scenes import command
from mmconv.core.errors import ConfigError


def test_it_writes_a_data_set_and_says_how_to_run_it(tmp_path: Path) -> None:
    out = tmp_path / "set"
    result = CliRunner().invoke(command, ["--n", "4", "--seed", "7", "--out", str(out)])
    assert result.exit_code == 0
    assert "4 rows" in result.output
    assert f"--data {out / 'data.jsonl'} --images {out / 'images'}" in result.output
    assert len((out / "data.jsonl").read_text().splitlines()) == 4
    assert len(list((out / "images").iterdir())) == 4


def test_difficulty_and_seed_change_the_pictures(tmp_path: Path) -> None:
    pictures = set()
    for name, options in {
        "a": [],
        "b": ["--seed", "1"],
        "c": ["--difficulty", "hard"],
    }.items():
        told = ["--n", "1", "--out", str(tmp_path / name), *options]
        assert CliRunner().invoke(command, told).exit_code == 0
        pictures.add((tmp_path / name / "images" / "scene_00001.png").read_bytes())
    assert len(pictures) == 3


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    result = CliRunner().invoke(command, ["--out", str(tmp_path)])
    assert isinstance(result.exception, ConfigError)
    assert "something is there already" in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(command, ["--out", str(tmp_path / "file")])
    assert isinstance(result.exception, ConfigError)
