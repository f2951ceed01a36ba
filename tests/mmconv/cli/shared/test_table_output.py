"""What the commands print in terminals of several widths, and where there is no terminal."""

from __future__ import annotations

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
from dataclasses import replace
from pathlib import Path

import pytest

from mmconv.cli import commands
from mmconv.cli.shared.table_output import show_tables
from mmconv.core.types import Cell, Table
from mmconv.run_folder.saved_run import read_tables
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


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", ["run", "forecast", "score", "compare", "models", "options"])
def test_no_line_is_wider_than_the_terminal(folder: Path, command: str, columns: int) -> None:
    first, second = (str(path.parent) for path in sorted((folder / "runs").glob("*/spec.json")))
    typed = {
        "run": RUN,
        "forecast": (*RUN, "--dry-run"),
        "score": ("score", first),
        "compare": ("compare", first, second),
        "models": ("models",),
        "options": ("options", "botchat"),
    }
    shown = on_terminal(columns, *typed[command], folder=folder).splitlines()
    assert len(shown) > 5
    # a path is one word, which can be copied
    wide = [line for line in shown if len(line) > columns and "/runs/convbench-" not in line]
    assert wide == []


def test_what_is_piped_is_not_folded(folder: Path) -> None:
    shown = piped("models", folder=folder).splitlines()
    assert sum("openai/gpt-4o-2024" in line for line in shown) == 1
    assert max(map(len, shown)) > 120
    narrow = on_terminal(80, "models", folder=folder).splitlines()
    assert len(narrow) > 2 * 82 > len(shown)


def test_what_is_printed_in_place_of_tables_says_where_these_lie(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reasons = {f"the judge gave no verdict number {number}": 1 for number in range(100)}
    cell = Cell(value=0.123, n=1, missing=reasons)
    table = Table(name="scores", title="Scores", columns=("x",), rows={"row": {"x": cell}})
    show_tables([table], "table", tmp_path, printed=[replace(table, title="Rounded")])
    shown = capsys.readouterr()
    assert shown.out.startswith("Rounded\n")
    assert f"(all of them: {tmp_path / 'scores.txt'})" in " ".join(shown.out.split())
    assert shown.err == f"The tables are in {tmp_path}\n"
    assert read_tables(tmp_path) == (table,)
