"""Runs in processes of their own, for tests that kill them: started, killed, finished, looked at.

The candidate is the server of `tests.mock_server`, whose log has a line for every request that it
answered.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import orjson


def mock_model(url: str) -> dict[str, object]:
    """The mock server at `url` as a model, patient with its failures."""
    return {
        "provider": "openai",
        "model": "mock",
        "base_url": url,
        "attempts": 30,
        "timeout": 1.0,
        "options": {"identity": "mock"},
    }


def command(run: Path, out: Path, *more: str) -> list[str]:
    """The command that runs a run file."""
    return [sys.executable, "-m", "mmconv", "run", str(run), "--out", str(out), *more]


def scores(out: Path) -> list[dict[str, object]]:
    """The scores of the one run in the folder."""
    [path] = out.glob("*/scores.jsonl")
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def finish(run: Path, out: Path) -> list[dict[str, object]]:
    """Run it to its end, and give its scores."""
    subprocess.run(command(run, out), check=True, capture_output=True, timeout=120)
    return scores(out)


def kill(run: Path, out: Path, log: Path, *, times: int) -> int:
    """`kill -9` so many processes, each at a random moment; how many of them it met at work."""
    moments = random.Random(0)
    met = 0
    for _ in range(times):
        process = subprocess.Popen(
            command(run, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for_answers(log, process, more=moments.randrange(1, 10))
        process.send_signal(signal.SIGKILL)
        met += process.wait() == -signal.SIGKILL
    return met


def wait_for_answers(log: Path, process: subprocess.Popen[bytes], more: int) -> None:
    """Wait until the server has answered so many requests more, or the process has ended."""
    before = len(log.read_text().split()) if log.exists() else 0
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        if log.exists() and len(log.read_text().split()) >= before + more:
            return
        time.sleep(0.002)


def committed(out: Path, *, of: str = "%") -> int:
    """How many replies the store holds whose text is like `of` (SQL)."""
    with sqlite3.connect(out / "store.sqlite") as database:
        counted = database.execute("select count(*) from replies where text like ?", (of,))
        return int(counted.fetchone()[0])
