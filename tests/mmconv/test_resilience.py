"""Whole runs against a server that fails, and processes that are killed: the scores stay the same.

The server's log has a line for every request that it answered, so that a reply asked for twice
would show.
"""

import signal
import subprocess
from collections import Counter
from itertools import chain
from pathlib import Path

import orjson
import pytest

from tests.mmconv.convbench_data import CALLS_PER_ROW, write_run
from tests.mmconv.processes import (
    arguments,
    command,
    committed,
    finish,
    kill,
    scores,
    succeed,
    typed,
    wait_for_answers,
    wait_until_idle,
)
from tests.mock_server import Behaviour, mock_server

pytestmark = pytest.mark.timeout(600)

ROWS = 6


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """The scores of an uninterrupted run against a healthy server."""
    folder = tmp_path_factory.mktemp("healthy")
    with mock_server() as url:
        return finish(write_run(folder, url, rows=ROWS), folder / "runs")


def test_killed_ten_times_it_is_the_same(tmp_path: Path, expected: list[dict[str, object]]) -> None:
    """`kill -9` at ten random moments; no reply that was committed is asked for again."""
    log = tmp_path / "answered.log"
    with mock_server(Behaviour(latency=0.03), log=log) as url:
        run = write_run(tmp_path, url, rows=ROWS)
        out = tmp_path / "runs"
        killed_midway = kill(arguments(run, out), log, times=10)
        wait_until_idle(url)
        answered_before = Counter(log.read_text().split())
        kept = committed(out)
        resumed = finish(run, out)
        answered = Counter(log.read_text().split())
    assert killed_midway == 10
    assert resumed == expected
    # What the server answered and the process had no time to commit may be asked for once more per
    # kill; whatever was committed may not.
    assert sum(answered.values()) - len(answered) <= sum(answered_before.values()) - kept


def test_a_fifth_of_requests_may_fail(tmp_path: Path, expected: list[dict[str, object]]) -> None:
    """429 with Retry-After, 500, dropped connections, hangs and malformed JSON, retried."""
    behaviour = Behaviour(failure_rate=0.2, seed=3, hang=1.5, retry_after=0.01)
    with mock_server(behaviour) as url:
        run = write_run(tmp_path, url, rows=ROWS)
        hasty = [("--set", f"models.{role}.timeout=1") for role in ("candidate", "judge")]
        assert finish(run, tmp_path / "runs", *chain.from_iterable(hasty)) == expected


def test_nothing_is_asked_twice(tmp_path: Path, expected: list[dict[str, object]]) -> None:
    log = tmp_path / "answered.log"
    with mock_server(log=log) as url:
        run = write_run(tmp_path, url, rows=ROWS)
        assert finish(run, tmp_path / "runs") == expected
        first = log.read_text().split()
        assert finish(run, tmp_path / "runs") == expected
        assert log.read_text().split() == first
    assert len(first) == ROWS * CALLS_PER_ROW == len(set(first))


def test_shards_merge_into_the_whole(tmp_path: Path, expected: list[dict[str, object]]) -> None:
    log = tmp_path / "answered.log"
    with mock_server(log=log) as url:
        run = write_run(tmp_path, url, rows=ROWS)
        for part in (1, 2, 3):
            finish(run, tmp_path / f"{part}of3", "--shard", f"{part}/3")
        stores = [str(tmp_path / f"{part}of3" / "store.sqlite") for part in (1, 2, 3)]
        whole = str(tmp_path / "whole.sqlite")
        succeed("merge", whole, *stores)
        answered = len(log.read_text().split())
        assert finish(run, tmp_path / "whole", "--store", whole) == expected
        assert len(log.read_text().split()) == answered


def test_two_processes_divide_the_work(tmp_path: Path, expected: list[dict[str, object]]) -> None:
    log = tmp_path / "answered.log"
    with mock_server(Behaviour(latency=0.03), log=log) as url:
        run = write_run(tmp_path, url, rows=ROWS)
        processes = [
            subprocess.Popen(
                command(run, tmp_path / "runs"),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        outputs = [process.communicate() for process in processes]
        answered = log.read_text().split()
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert len(answered) == len(set(answered)) == ROWS * CALLS_PER_ROW
    assert scores(tmp_path / "runs") == expected


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_keeps_what_is_answered_and_says_how_to_resume(
    tmp_path: Path, expected: list[dict[str, object]], by: signal.Signals
) -> None:
    log = tmp_path / "answered.log"
    with mock_server(Behaviour(latency=0.1), log=log) as url:
        run = write_run(tmp_path, url, rows=ROWS)
        process = subprocess.Popen(command(run, tmp_path / "runs"), stderr=subprocess.PIPE)
        wait_for_answers(log, lambda: process.poll() is None, more=10)
        process.send_signal(by)
        _, error = process.communicate(timeout=300)
        assert process.returncode == 130
        assert b"Resume with:\n  mmconv run" in error
        assert len(log.read_text().split()) == committed(tmp_path / "runs")
        assert finish(run, tmp_path / "runs") == expected
    assert len(log.read_text().split()) == ROWS * CALLS_PER_ROW


def test_no_failure_text_ever_stands_in_a_prompt(tmp_path: Path) -> None:
    """A candidate that fails half of the time, for good: what needs it is skipped, with reasons."""
    candidate = (
        "{provider: fake, model: echo, attempts: 1, options: {rate: 0.5, kinds: [server], seed: 2}}"
    )
    with mock_server() as url:
        run = write_run(tmp_path, url, rows=4)
        more = ["--set", f"models.candidate={candidate}"]
        ended = typed(*arguments(run, tmp_path / "runs", *more))
    assert ended.exit_code == 1
    [path] = (tmp_path / "runs").glob("convbench-*/transcripts.jsonl")
    calls = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    states = Counter(call["state"] for call in calls)
    assert states["failure"] > 0
    assert states["skipped"] > 0
    problems = {call["problem"] for call in calls if call["state"] == "failure"}
    for call in calls:
        for message in call["messages"] or ():
            for part in message["parts"]:
                assert not any(problem in part.get("text", "") for problem in problems)
    failed = {
        (call["sample"], call["condition"], call["call"])
        for call in calls
        if call["state"] == "failure"
    }
    for call in calls:
        if call["state"] == "skipped":
            assert (call["sample"], call["condition"], call["problem"]) in failed
