"""`mmconv judge`: what it runs, and what it refuses."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from mmconv.cli import commands
from mmconv.core.errors import ConfigError
from tests.drawn_data import write_scenes
from tests.mmconv.benchmarks.audit import planted_judge


def judge(*arguments: str) -> str:
    result = CliRunner().invoke(commands, ["judge", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    data, images = write_scenes(tmp_path, 6)
    out = str(tmp_path / "runs")
    files = ["--data", str(data), "--images", str(images), "--out", out]
    return ["convbench", *files, "--grading", "direct"]


def test_a_judge_is_audited_into_the_folder_of_a_run(options: list[str], tmp_path: Path) -> None:
    file = tmp_path / "exact.yaml"
    file.write_text(f"provider: {planted_judge.__name__}\nmodel: planted\n")
    printed = judge(*options, "--judge", str(file), "--controls", "right,wrong")
    assert "Can exact be trusted as a judge of ConvBench?" in printed
    assert "direct rating: right answers pass more often than wrong ones, by 100" in printed
    [folder] = (tmp_path / "runs").glob("audit-exact-*")
    assert "exact on known answers" in (folder / "report.html").read_text(encoding="utf-8")
    again = CliRunner().invoke(commands, ["score", str(folder)], catch_exceptions=False)
    assert "Can exact be trusted" in again.output


def test_a_dry_run_counts_the_judgements(options: list[str]) -> None:
    printed = judge(*options, "--judge", "fake/judge", "--limit", "2", "--dry-run")
    # 2 samples, 6 controls, 4 judgements each
    assert "48" in printed


def test_an_audit_needs_a_judge(options: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"name the judge \(--judge, or models.judge\)"):
        judge(*options)
