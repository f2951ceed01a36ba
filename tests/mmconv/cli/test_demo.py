"""The whole demo on a few scenes."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from mmconv.cli.demo import command


def test_the_demo_ends_with_tables_sentence_and_report(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the extra hf")
    result = CliRunner().invoke(command, ["--out", str(tmp_path / "demo"), "--samples", "6"])
    assert result.exit_code == 0, result.output
    assert "With perfect perception, reasoning " in result.output
    report = Path(result.output.split("The report: ")[1].splitlines()[0])
    assert report.is_file()
    assert "What perfect earlier turns change" in result.output


def test_the_demo_s_transcript_is_shown_by_a_command_that_can_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="needs the extra hf")
    monkeypatch.setattr("sys.argv", ["/somewhere/mmconv/__main__.py", "demo"])
    out = tmp_path / "my demo"
    result = CliRunner().invoke(command, ["--out", str(out), "--samples", "1"])
    told = shlex.split(result.output.split("A transcript: ")[1].splitlines()[0])
    [folder] = out.glob("convbench-*")
    assert told == ["python", "-m", "mmconv", "show", str(folder), "1"]
    assert "reasoning" in result.output.split("(n = 1; no interval)")[0].splitlines()[-1]
