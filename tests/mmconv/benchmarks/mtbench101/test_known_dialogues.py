"""The authors' dialogues by number: the same as their file has, whichever way a file counts."""

from __future__ import annotations

import orjson
import pytest
from mmconv.benchmarks.mtbench101.known_dialogues import TURNS, known_dialogues
from mmconv.benchmarks.mtbench101.taxonomy import TASKS

from tests.mmconv.benchmarks.mtbench101.dialogues import REAL, needs_real


@needs_real
def test_the_numbers_are_those_of_the_authors_file() -> None:
    found: dict[str, dict[str, int]] = {}
    for line in REAL.read_bytes().splitlines():
        record = orjson.loads(line)
        found.setdefault(record["task"], {})[str(record["id"])] = len(record["history"])
    assert found.keys() == TURNS.keys()
    for task, dialogues in found.items():
        assert known_dialogues(task, dialogues) == dialogues


@pytest.mark.parametrize("task", TASKS)
def test_the_numbers_are_those_of_the_papers_table(task: str) -> None:
    turns = [int(each) for each in TURNS[task]]
    assert len(turns) == TASKS[task].dialogues
    assert sum(each + 1 - TASKS[task].first for each in turns) == TASKS[task].turns


@pytest.mark.parametrize(
    ("task", "ids", "known"),
    [
        ("GR", ["1", "71", "72"], {"1": 3, "71": 3}),
        ("SC", ["1312", "1388", "1"], {"1312": 2, "1388": 2}),
        ("SC", ["1", "77", "1388"], {"1": 2, "77": 2}),
        ("SC", ["x", "99999"], {}),
    ],
)
def test_ids_run_through_the_file_or_are_counted_anew(
    task: str, ids: list[str], known: dict[str, int]
) -> None:
    assert known_dialogues(task, ids) == known
