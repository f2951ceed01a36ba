"""What else is installed, or is not, and what lies where the user works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mmconv


def typed(*arguments: str, here: Path, before: str = "pass") -> subprocess.CompletedProcess[str]:
    """Type a command in a folder that comes first on Python's path."""
    program = f"import sys; {before}; from mmconv.cli import main; main()"
    home = Path(mmconv.__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=here,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(home)])},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["judges.py", "images.py", "model_zoo/__init__.py"])
def test_a_file_that_hides_a_package_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    told = typed("models", "qwen", here=tmp_path)
    assert told.returncode == 2
    assert told.stderr == (
        f"Error: {path} hides the package {name.partition('/')[0].removesuffix('.py')!r} that "
        "mmconv brings: rename it, or take its folder off PYTHONPATH\n"
    )


def test_a_package_called_configs_hides_no_model(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "__init__.py").touch()
    told = typed("models", "qwen2.5-vl-7b", here=tmp_path)
    assert told.returncode == 0
    assert "qwen2.5-vl-7b" in told.stdout


def test_serving_tells_what_to_install(tmp_path: Path) -> None:
    without = "sys.modules['fastapi'] = None"
    assert typed("serve", "--help", here=tmp_path, before=without).returncode == 0
    told = typed("serve", "--model", "fake/echo", here=tmp_path, before=without)
    assert told.returncode == 2
    assert "Traceback" not in told.stderr
    assert "mmconv[serve]" in told.stderr
