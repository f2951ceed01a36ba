"""The whole demo on a few scenes."""

from __future__ import annotations

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
