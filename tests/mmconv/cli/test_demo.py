"""The whole demo on a few scenes, and the dataset that `mmconv scenes` writes."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from mmconv.cli import commands
from mmconv.core.errors import ConfigError


def test_the_demo_ends_with_tables_findings_report_and_a_command_for_a_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="needs the extra hf")
    monkeypatch.setattr("sys.argv", ["/somewhere/mmconv/__main__.py", "demo"])
    out = tmp_path / "my demo"
    result = CliRunner().invoke(commands, ["demo", "--out", str(out), "--limit", "6"])
    assert result.exit_code == 0, result.output
    printed = result.output[result.output.index("ConvBench scores of pocket") :].splitlines()
    assert len(printed) <= 40
    assert any(line.startswith("R1, direct (1-10): ") for line in printed)
    assert any(line.startswith("All 1") and line.endswith("tables") for line in printed)
    assert Path(result.output.split("The report: ")[1].splitlines()[0]).is_file()
    command = shlex.split(result.output.split("A transcript: ")[1].splitlines()[0])
    [folder] = out.glob("convbench-*")
    assert command == ["python", "-m", "mmconv", "show", str(folder), "1"]
    last = result.output.splitlines()[-1]
    assert last == f"All runs in a browser: python -m mmconv view '{out}'"


def scenes(out: Path, *options: str) -> str:
    result = CliRunner().invoke(commands, ["scenes", "--out", str(out), *options])
    if result.exception is not None:
        raise result.exception
    return result.output


def test_scenes_are_written_with_the_command_that_runs_them(tmp_path: Path) -> None:
    out = tmp_path / "set"
    output = scenes(out, "--n", "4", "--seed", "7")
    assert "4 rows" in output
    assert f"--data {out / 'data.jsonl'} --images {out / 'images'}" in output
    assert len((out / "data.jsonl").read_text().splitlines()) == 4
    assert len(list((out / "images").iterdir())) == 4


def test_difficulty_and_seed_change_the_images(tmp_path: Path) -> None:
    images = set()
    for name, options in {"a": [], "b": ["--seed", "1"], "c": ["--difficulty", "hard"]}.items():
        scenes(tmp_path / name, "--n", "1", *options)
        images.add((tmp_path / name / "images" / "scene_00001.png").read_bytes())
    assert len(images) == 3


def test_a_folder_with_files_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="the folder is not empty"):
        scenes(tmp_path)
    with pytest.raises(ConfigError):
        scenes(tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
