"""The README's model of one's own is a real one: its text is what is run here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import orjson

SOURCE = Path(__file__).parent.parent / "README.md"
HEADING = "### Add a model"
LINES = 30


def section() -> str:
    """The section on adding a model, up to the next heading."""
    text = SOURCE.read_text(encoding="utf-8")
    match = re.search(rf"^{HEADING}\n.*?(?=^##+ |\Z)", text, re.DOTALL | re.MULTILINE)
    assert match is not None, f"{SOURCE.name} has no section {HEADING!r}"
    return match[0].strip()


def block(language: str) -> str:
    """The one block of code in this language."""
    [code] = re.findall(rf"^```{language}\n(.*?)^```$", section(), re.DOTALL | re.MULTILINE)
    assert isinstance(code, str)
    return code


def test_the_section_is_short() -> None:
    assert len(section().splitlines()) <= LINES


def test_the_example_runs_as_the_readme_says(tmp_path: Path) -> None:
    """Its Python goes where the text says, and its command is typed in a shell, twice."""
    [name] = re.findall(r"`(\w+/\w+\.py)`:", section())
    module = tmp_path / name
    module.parent.mkdir()
    module.write_text(block("python"), encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for _ in range(2):
        done = subprocess.run(
            ["bash", "-uc", block("sh")],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
    [folder] = tmp_path.glob("runs/convbench-*")
    [asked] = [
        call
        for call in map(orjson.loads, (folder / "transcripts.jsonl").read_bytes().splitlines())
        if call["condition"] == "free" and call["call"] == "turn_1"
    ]
    shown = "".join(part.get("text", "") for part in asked["messages"][-1]["parts"])
    assert asked["text"] == shown.upper() != ""
    seats = orjson.loads((folder / "summary.json").read_bytes())["seats"]
    assert (seats["candidate"]["asked"], seats["candidate"]["failed"]) == (0, 0)
    assert seats["candidate"]["stored"]
