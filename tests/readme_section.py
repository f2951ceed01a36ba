"""The README's sections with an example: what stands there, written and typed as it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.with_name("README.md")


def section(heading: str) -> str:
    """The section under this heading, up to the next one."""
    text = README.read_text(encoding="utf-8")
    match = re.search(rf"^{heading}\n.*?(?=^##+ |\Z)", text, re.DOTALL | re.MULTILINE)
    assert match is not None, f"the README has no section {heading!r}"
    return match[0].strip()


def block(section: str, language: str) -> str:
    """The section's one block of code in this language."""
    [code] = re.findall(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert isinstance(code, str)
    return code


def write_example(section: str, folder: Path) -> None:
    """Put the section's Python where it says, seen from the folder."""
    [name] = re.findall(r"`(\w+/\w+\.py)`:", section)
    module = folder / name
    module.parent.mkdir(exist_ok=True)
    module.write_text(block(section, "python"), encoding="utf-8")


def type_commands(section: str, folder: Path, *, again: bool = False) -> str:
    """Type the section's commands in a shell in the folder; what they print.

    All must succeed; of those that are typed `again` only the last: what others make is there.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-uc" if again else "-euc", block(section, "sh")],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
