"""Commands in shells that allow few open files or little memory (`ulimit`)."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from mmconv.benchmarks.convbench.scenes import write_scenes
from mmconv.cli.shared.file_errors import __file__ as OWN_FILE
from mmconv.cli.shared.file_errors import tell_file_error
from tests.mock_server import Behaviour, mock_server

ROOT = Path(__file__).parents[3]


def limited(limit: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in a shell with this limit."""
    script = f'ulimit {limit}; exec "$0" -m mmconv "$@"'
    return subprocess.run(
        ["bash", "-c", script, sys.executable, *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_few_open_files_are_enough_for_a_run_with_fewer_connections(tmp_path: Path) -> None:
    write_scenes(tmp_path / "data", 30)
    data = ("--data", "data/data.jsonl", "--images", "data/images", "--no-page")
    with mock_server(Behaviour(latency=0.05)) as url:
        (tmp_path / "served.yaml").write_text(f"provider: openai\nmodel: mock\nbase_url: {url}\n")
        models = ("--candidate", "served.yaml", "--judge", "served.yaml")
        run = limited("-n 64", tmp_path, "run", "convbench", *data, *models)
    assert run.returncode == 0, run.stderr
    assert "Everything is in " in run.stdout


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("-v 512000", "this shell allows 500 MB of address space, and mmconv needs 1000: raise"),
        ("-n 20", "this shell allows 20 open files, and mmconv needs 40: raise"),
    ],
)
def test_a_limit_that_libraries_crash_under_is_an_error(
    limit: str, message: str, tmp_path: Path
) -> None:
    options = limited(limit, tmp_path, "options", "convbench")
    assert options.returncode == 2
    assert options.stderr == f"Error: {message} the limit with `ulimit {limit[:2]}`\n"


def test_a_file_that_cannot_be_opened_is_not_blamed_on_the_installation() -> None:
    message = tell_file_error(OSError(errno.EMFILE, "Too many open files", OWN_FILE))
    assert message is not None
    assert message.startswith("too many open files (limit ")
    assert "install mmconv" not in message
