"""`mmconv judge scenes`: a judge that knows the truth passes the audit, a random one does not."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from mmconv.cli import commands

EXACT = "tests.mmconv.benchmarks.audit.exact_judge"


def audit(out: Path, *arguments: str) -> str:
    drawn = ["--families", "shapes,charts,boards", "--levels", "1,5", "--n", "4"]
    typed = ["judge", "scenes", *drawn, "--out", str(out), *arguments]
    result = CliRunner().invoke(commands, typed, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_judge_that_knows_the_truth_makes_no_error(tmp_path: Path, language: str) -> None:
    file = tmp_path / "exact.yaml"
    file.write_text(
        f"provider: {EXACT}\nmodel: exact\noptions: {{families: 'shapes,charts,boards', "
        f"levels: '1,5', n: 4, language: {language}}}\n"
    )
    printed = audit(tmp_path, "--judge", str(file), "--language", language)
    assert "Can exact be trusted as a judge of Scenes?" in printed
    assert "right answers pass more often than wrong ones, by 100" in printed
    assert "WARNING" not in printed


def test_a_run_file_of_scenes_is_audited_too(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "benchmark: scenes\noptions: {families: shapes, levels: 1, n: 4}\n"
        "models: {candidate: fake/echo, judge: fake/judge}\n"
    )
    typed = ["judge", str(file), "--out", str(tmp_path)]
    result = CliRunner().invoke(commands, typed, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "as a judge of Scenes?" in result.output


def test_a_judge_that_draws_its_verdicts_is_not_to_be_trusted(tmp_path: Path) -> None:
    assert "not to be trusted" in audit(tmp_path, "--judge", "fake/judge").casefold()
