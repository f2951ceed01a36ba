"""The whole demo on a few scenes."""

import shlex
from pathlib import Path

import pytest

from tests.mmconv.processes import succeed


def test_the_demo_ends_with_tables_findings_report_and_a_command_for_a_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="needs the extra hf")
    monkeypatch.setattr("sys.argv", ["/somewhere/mmconv/__main__.py", "demo"])
    out = tmp_path / "my demo"
    result = succeed("demo", "--out", str(out), "--limit", "6")
    printed = result.output[result.output.index("Scenes, answered by pocket") :].splitlines()
    assert len(printed) <= 40
    assert any(line.startswith("No turn changes significantly") for line in printed)
    assert any(line.startswith("All ") and line.endswith("tables") for line in printed)
    assert Path(result.output.split("The report: ")[1].splitlines()[0]).is_file()
    command = shlex.split(result.output.split("A transcript: ")[1].splitlines()[0])
    [folder] = out.glob("scenes-*")
    assert command == ["python", "-m", "mmconv", "show", str(folder), "shapes-1-1"]
    last = result.output.splitlines()[-1]
    assert last == f"All runs in a browser: python -m mmconv view '{out}'"
