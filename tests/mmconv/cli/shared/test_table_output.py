"""What the commands print in terminals of several widths, and where there is no terminal."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from mmconv.cli import commands
from tests.drawn_data import write_scenes
from tests.forking import fork

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(columns: int, *arguments: str, folder: Path) -> str:
    """What the command shows on a terminal of so many columns; it must end well."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = fork(run_there, os.ttyname(theirs), folder, arguments)
    with ThreadPoolExecutor(1) as threads:
        shown = threads.submit(read_all, ours)
        process.join()
        os.close(theirs)
    assert process.exitcode == 0, shown.result()
    return shown.result()


def run_there(terminal: str, folder: Path, arguments: Sequence[str]) -> None:
    """The command, in a process of its own whose terminal this is."""
    os.environ.pop("COLUMNS", None)
    os.chdir(folder)
    theirs = os.open(terminal, os.O_RDWR)
    for stream, place in ((0, theirs), (1, theirs), (2, os.open(os.devnull, os.O_WRONLY))):
        os.dup2(place, stream)
    commands([*arguments])


def read_all(terminal: int) -> str:
    """What was written until the other end closed, which Linux tells by an error."""
    shown = b""
    with suppress(OSError):
        while piece := os.read(terminal, 65536):
            shown += piece
    os.close(terminal)
    return CONTROL.sub("", shown.decode().replace("\r\n", "\n"))


def piped(*arguments: str, folder: Path) -> str:
    command = [sys.executable, "-m", "mmconv", *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


RUN = (
    *("run", "convbench", "--data", "data/data.jsonl", "--images", "data/images"),
    *("--candidate", "fake/echo", "--judge", "fake/judge", "--no-page"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with two finished runs."""
    here = tmp_path_factory.mktemp("runs")
    write_scenes(here / "data", 3)
    on_terminal(80, *RUN, folder=here)
    on_terminal(80, *RUN, "--set", "models.candidate=fake/judge", folder=here)
    return here


def test_what_is_piped_is_not_folded(folder: Path) -> None:
    shown = piped("models", folder=folder).splitlines()
    assert sum("openai/gpt-4o-2024" in line for line in shown) == 1
    assert max(map(len, shown)) > 120
    narrow = on_terminal(80, "models", folder=folder).splitlines()
    assert len(narrow) > 2 * 82 > len(shown)
