"""What is told of an error on request: where it comes from, and every problem of a data file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from mmconv.benchmarks.convbench.scenes import write_scenes
from mmconv.cli import check, main

ROWS = 60


def told(
    folder: Path,
    flags: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> list[str]:
    """What a check says of rows whose images are all missing but one, which is no image."""
    data, pictures = write_scenes(folder, 1)
    row = orjson.loads(data.read_bytes())
    rows = [row | {"ID": str(number + 1), "image_id": image(number)} for number in range(ROWS)]
    data.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    (pictures / image(ROWS - 1)).write_text("no image", encoding="utf-8")
    command = ["check", "convbench", "--data", str(data), "--images", str(pictures)]
    command += ["--candidate", "fake/echo", "--judge", "fake/judge", "--out", str(folder)]
    monkeypatch.setattr("sys.argv", ["mmconv", *flags, *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()


def image(number: int) -> str:
    return f"picture of {number}.png"


def test_a_few_problems_of_a_kind_are_listed_and_how_to_get_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, rare, *others = told(tmp_path, [], monkeypatch, capsys)
    assert first.endswith(f": {ROWS} problems")
    assert image(ROWS - 1) in rare
    for number in range(5):
        assert f"image {image(number)} is not in " in others[number]
    assert others[5] == f"  ... and {ROWS - 6} more of this kind"
    assert others[-1] == "`mmconv --all-problems COMMAND ...` lists every problem."


def test_all_problems_are_listed_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *lines = told(tmp_path, ["--all-problems"], monkeypatch, capsys)
    assert first.endswith(f": {ROWS} problems")
    for number in range(ROWS):
        assert image(number) in lines[number]
    assert not any("more of this kind" in line or "--all-problems" in line for line in lines)


def test_the_traceback_is_shown_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = told(tmp_path, ["--traceback"], monkeypatch, capsys)
    assert lines[0] == "Traceback (most recent call last):"
    assert any(line.startswith(f'  File "{check.__file__}", line ') for line in lines)
    assert any(line.startswith("Error: ") for line in lines)


def test_who_reads_no_further_ends_a_command_without_a_word() -> None:
    program = "from mmconv.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "models"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        started.stdout.close()
        assert started.stderr.read() == b""
    assert started.returncode == 141
