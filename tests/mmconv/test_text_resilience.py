"""Each text benchmark killed again and again, and resumed: the scores are those of a whole run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.mmconv.benchmarks.botchat import samples as botchat
from tests.mmconv.benchmarks.cmteval import dialogues as cmteval
from tests.mmconv.benchmarks.fbbench import samples as fbbench
from tests.mmconv.benchmarks.mtbench101 import dialogues as mtbench101
from tests.mmconv.processes import (
    arguments,
    committed,
    finish,
    kill,
    mock_model,
    wait_until_idle,
)
from tests.mock_server import Behaviour, mock_server

pytestmark = pytest.mark.timeout(600)

ANSWERS = "Answer %"
"""What the mock server says to a candidate's prompt."""


def talks(folder: Path) -> Path:
    rows = [botchat.record(number, 2 + number) for number in range(1, 7)]
    return botchat.write(folder / "data.jsonl", rows)


def golden(folder: Path) -> Path:
    rows = [
        {**record, "id": 100 * copy + record["id"], "history": reworded(record, copy)}
        for copy in range(4)
        for record in mtbench101.records()
    ]
    return mtbench101.write(folder / "data.jsonl", rows)


def reworded(record: dict[str, Any], copy: int) -> list[dict[str, str]]:
    return [{**turn, "user": f"{turn['user']} ({copy})"} for turn in record["history"]]


DATA: dict[str, Callable[[Path], Path]] = {
    "botchat": talks,
    "cmteval": lambda folder: cmteval.write_folder(folder, dialogues=10),
    "fbbench": lambda folder: fbbench.write(folder / "data.json", fbbench.mixed(80)),
    "mtbench101": golden,
}
CALLS = {"botchat": 6 * 14, "cmteval": 3 * 10 * 3 - 9, "fbbench": 80, "mtbench101": 4 * 22}
"""How many answers the candidate gives; the ten Long-Text dialogues of CMT-Eval open alike."""


def write_run(folder: Path, benchmark: str, url: str) -> Path:
    """A run whose candidate is the server at `url`, four answers at once."""
    folder.mkdir(exist_ok=True)
    spec = {
        "benchmark": benchmark,
        "options": {"data": str(DATA[benchmark](folder))},
        "models": {
            "candidate": {**mock_model(url), "max_concurrency": 4},
            "judge": {"provider": "fake", "model": "judge"},
        },
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(spec), encoding="utf-8")
    return path


@pytest.mark.parametrize("benchmark", DATA)
def test_killed_and_resumed_equals_uninterrupted(tmp_path: Path, benchmark: str) -> None:
    """`kill -9` at five random moments; no answer that was committed is asked for again."""
    log = tmp_path / "answered.log"
    with mock_server() as url:
        run = write_run(tmp_path / "whole", benchmark, url)
        expected = finish(run, tmp_path / "whole" / "runs")
    with mock_server(Behaviour(latency=0.03), log=log) as url:
        run = write_run(tmp_path / "killed", benchmark, url)
        out = tmp_path / "killed" / "runs"
        assert kill(arguments(run, out), log, times=5) == 5
        wait_until_idle(url)
        before = Counter(log.read_text().split())
        kept = committed(out, of=ANSWERS)
        resumed = finish(run, out)
        answered = Counter(log.read_text().split())
    assert resumed == expected
    assert all(score["why"] is None for score in resumed)
    assert len(answered) == committed(out, of=ANSWERS) == CALLS[benchmark]
    assert 0 < kept < CALLS[benchmark]
    assert sum(answered.values()) - len(answered) <= sum(before.values()) - kept
