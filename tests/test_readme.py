"""The README's own benchmark is a real one: its text is what is checked, typed and run here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import orjson

ROOT = Path(__file__).parent.parent
HEADING = "### Add a benchmark"
LINES = 40


def section() -> str:
    """The section on adding a benchmark, up to the next heading."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    match = re.search(rf"^{HEADING}\n.*?(?=^##+ |\Z)", readme, re.DOTALL | re.MULTILINE)
    assert match is not None, f"the README has no section {HEADING!r}"
    return match[0].strip()


def block(language: str) -> str:
    """The one block of code in this language."""
    [code] = re.findall(rf"^```{language}\n(.*?)^```$", section(), re.DOTALL | re.MULTILINE)
    assert isinstance(code, str)
    return code


def test_the_section_is_short() -> None:
    assert len(section().splitlines()) < LINES


def test_the_example_is_the_one_that_is_checked_and_typed() -> None:
    assert block("python") == (ROOT / "tests" / "readme_benchmark.py").read_text(encoding="utf-8")


def test_the_example_runs_as_the_readme_says(tmp_path: Path) -> None:
    """Its Python goes where the text says, and its commands are typed in a shell."""
    [name] = re.findall(r"`(\w+/\w+\.py)`:", section())
    module = tmp_path / name
    module.parent.mkdir()
    module.write_text(block("python"), encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", block("sh")],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    [scores] = tmp_path.glob("runs/*/scores.jsonl")
    [score] = map(orjson.loads, scores.read_bytes().splitlines())
    assert (score["sample"], score["metric"], score["why"]) == ("1", "fit", None)
    assert 1 <= score["value"] <= 10
    assert f"fit  {score['value']:.2f} n=1" in done.stdout
    [transcripts] = tmp_path.glob("runs/*/transcripts.jsonl")
    calls = {
        call["call"]: call for call in map(orjson.loads, transcripts.read_bytes().splitlines())
    }
    shown, *later = calls["turn_2"]["messages"]
    assert "image" in shown["parts"][0]
    assert calls["turn_1"]["messages"] == [shown]
    assert [message["role"] for message in later] == ["assistant", "user"]
