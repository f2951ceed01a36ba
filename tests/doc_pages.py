"""The documentation's examples: their code and commands, as they stand in the pages."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"

FOLDERS = ("mmconv", "model_zoo", "configs")


def pages() -> list[Path]:
    """README and the pages next to the code."""
    return [README, *(page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("*.md")))]


def section(heading: str) -> str:
    """README's section under this heading, up to the next one."""
    text = README.read_text(encoding="utf-8")
    match = re.search(rf"^{heading}\n.*?(?=^##+ |\Z)", text, re.DOTALL | re.MULTILINE)
    assert match is not None, f"README has no section {heading!r}"
    return match[0].strip()


def blocks(text: str, language: str = "") -> list[str]:
    """The blocks of code in this language."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [code for kind, code in fenced if kind == language]


def commands_of(page: Path) -> Iterator[list[str]]:
    """The words after `mmconv` of each command in the page's blocks."""
    text = page.read_text(encoding="utf-8")
    for code in (*blocks(text), *blocks(text, "sh")):
        for line in re.split(r";|\n", code.replace("\\\n", " ")):
            if match := re.match(r"(?: ?PYTHONPATH=\. |\.venv/bin/)?mmconv (.*)", line):
                yield shlex.split(match[1], comments=True)


def write_example(section: str, folder: Path) -> None:
    """Write the section's Python to the path that it names, relative to the folder."""
    [name] = re.findall(r"`(\w+/\w+\.py)`:", section)
    module = folder / name
    module.parent.mkdir(exist_ok=True)
    [code] = blocks(section, "python")
    module.write_text(code, encoding="utf-8")


def run_example(section: str, folder: Path, *, again: bool = False) -> str:
    """Run the section's commands in a shell in the folder; returns what they print.

    All must succeed; with `again` only the last one, since the files of the others exist.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    [code] = blocks(section, "sh")
    done = subprocess.run(
        ["bash", "-uc" if again else "-euc", code],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
