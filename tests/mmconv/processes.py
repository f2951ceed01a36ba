"""Runs of the command line: in this process, or in ones of their own, which are killed.

The candidate is the server of `tests.mock_server`, whose log has a line for every request that it
answered.
"""

import os
import random
import signal
import sqlite3
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import orjson
from click.testing import CliRunner, Result

from mmconv.cli import commands
from tests.forking import fork


def mock_model(url: str) -> dict[str, object]:
    """The mock server at `url` as a model, patient with its failures and a busy machine."""
    return {
        "provider": "openai",
        "model": "mock",
        "base_url": url,
        "attempts": 30,
        "timeout": 30.0,
        "options": {"identity": "mock"},
    }


def arguments(run: Path, out: Path, *more: str) -> list[str]:
    """What is typed after `mmconv` to run a run file."""
    return ["run", str(run), "--out", str(out), *more]


def command(run: Path, out: Path) -> list[str]:
    """The command that runs a run file, for a process that stands for the user's own."""
    return [sys.executable, "-m", "mmconv", *arguments(run, out)]


def typed(*words: object) -> Result:
    """The command line in this process."""
    return CliRunner().invoke(commands, [str(word) for word in words])


def succeed(*words: object) -> Result:
    """A command that ends well."""
    result = typed(*words)
    assert result.exit_code == 0, result.output
    return result


def scores(out: Path) -> list[dict[str, object]]:
    """The scores of the one run in the folder."""
    [path] = out.glob("*/scores.jsonl")
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def finish(run: Path, out: Path, *more: str) -> list[dict[str, object]]:
    """Run it to its end in this process, and give its scores."""
    succeed(*arguments(run, out, *more))
    return scores(out)


def kill(words: list[str], log: Path, *, times: int) -> int:
    """`kill -9` so many processes, each at a random moment; how many of them it met at work."""
    moments = random.Random(0)
    met = 0
    for _ in range(times):
        process = fork(_run_quietly, words)
        wait_for_answers(log, process.is_alive, more=moments.randrange(1, 10))
        process.kill()
        process.join()
        met += process.exitcode == -signal.SIGKILL
    return met


def _run_quietly(words: list[str]) -> None:
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        commands.main(words)


def wait_for_answers(log: Path, at_work: Callable[[], bool], more: int) -> None:
    """Wait until the server has answered so many requests more, or the work has ended."""
    before = len(log.read_text().split()) if log.exists() else 0
    deadline = time.monotonic() + 30
    while at_work() and time.monotonic() < deadline:
        if log.exists() and len(log.read_text().split()) >= before + more:
            return
        time.sleep(0.002)


def wait_until_idle(url: str) -> None:
    """Wait until the mock server at `url` has answered what the dead had asked, and logged it."""
    deadline = time.monotonic() + 30
    while True:
        with urllib.request.urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
            if orjson.loads(answer.read())["under_way"] == 0:
                return
        assert time.monotonic() < deadline
        time.sleep(0.005)


def committed(out: Path, *, of: str = "%") -> int:
    """How many replies the store holds whose text is like `of` (SQL)."""
    with sqlite3.connect(out / "store.sqlite") as database:
        counted = database.execute("select count(*) from replies where text like ?", (of,))
        return int(counted.fetchone()[0])
