"""The authors' file as it is, and files that are wrong."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mmconv.benchmarks.mtbench101 import MEANS, TASKS
from mmconv.cli.evaluating import check_command as check
from mmconv.core.errors import DataError
from tests.mmconv.benchmarks.mtbench101.dialogues import (
    REAL,
    build,
    needs_real,
    records,
    spec,
    write,
)

TURN = {"user": "Hello?", "bot": "Hello."}

PAPER = {
    "CM": (80, 239),
    "SI": (149, 620),
    "AR": (153, 407),
    "TS": (83, 249),
    "CC": (147, 352),
    "CR": (136, 253),
    "FR": (74, 123),
    "SC": (77, 77),
    "SA": (73, 73),
    "MR": (108, 224),
    "GR": (71, 218),
    "IC": (150, 426),
    "PI": (87, 354),
}
"""Task -> dialogues and judged turns: the paper's Table 6, without turns that are history only."""


def statistics(data: Path) -> dict[str, list[Any]]:
    """The rows of the data's table: counts and means, rounded as the paper's Table 6 is."""
    table = build(spec(data)).data_table()
    values = {
        name: [
            cell.value if isinstance(cell.value, str) else round(cell.value or 0, 2)
            for cell in row.values()
        ]
        for name, row in table.rows.items()
    }
    assert all(list(row) == list(table.columns) for row in table.rows.values())
    return values


def test_the_statistics_of_the_data(tmp_path: Path) -> None:
    exchange = [{"user": "Who was it?\n", "bot": "Nobody else than me."}, TURN]
    rows = [
        {"task": "CM", "id": 1, "history": exchange},
        {"task": "CM", "id": 2, "history": [*exchange, TURN]},
        {"task": "SI", "id": 3, "history": [TURN]},
    ]
    assert statistics(write(tmp_path / "data.jsonl", rows)) == {
        "CM": ["2", "5", "3", 2.5, 10.0, 4.0, "11", "7"],
        "SI": ["1", "1", "1", 1.0, 2.0, 2.0, "2", "2"],
        "all": ["3", "6", "4", 2.0, 7.33, 3.67, "11", "7"],
    }


@needs_real
def test_the_statistics_of_the_papers_table_6() -> None:
    found = statistics(REAL)
    assert found["all"] == ["1388", "4208", "3615", 3.03, 202.04, 66.64, "817", "323"]
    assert found["CC"] == ["147", "352", "352", 2.39, 353.91, 147.8, "749", "300"]
    # the paper swaps the words per turn of SI and MR, and prints 323 as CM's longest turn
    assert (found["SI"][5], found["MR"][5], found["CM"][7]) == (51.44, 84.76, "142")
    assert [*found] == [*TASKS, "all"]


def test_a_check_prints_the_statistics_first(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", records())
    options = ["--data", str(data), "--candidate", "fake/echo", "--judge", "fake/judge"]
    result = CliRunner().invoke(check, ["mtbench101", *options, "--out", str(tmp_path / "runs")])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(
        "13 samples under golden: data in order\nThe data by task (paper"
    )
    assert result.output.index("\nall ") < result.output.index("  candidate: echo (fake)")


def test_the_taxonomy_is_the_papers() -> None:
    assert len(TASKS) == len(MEANS["average"]) == 13
    assert {name: len(tasks) for name, tasks in MEANS.items()} == {
        "average": 13,
        "perceptivity": 5,
        "adaptability": 6,
        "interactivity": 2,
        "memory": 1,
        "understanding": 2,
        "interference": 2,
        "rephrasing": 2,
        "reflection": 2,
        "reasoning": 2,
        "questioning": 2,
    }
    late = {code for code, task in TASKS.items() if task.first == 2}
    assert late == {"FR", "CR", "AR", "SA", "SC", "CM"}


@needs_real
def test_a_run_over_the_authors_file_takes_what_the_paper_counts() -> None:
    benchmark = build(spec(REAL))
    samples = benchmark.dataset.samples
    assert [sample.id for sample in samples] == [str(n) for n in range(1, 1389)]
    assert not benchmark.dataset.bad
    assert sum(len(sample.history) for sample in samples) == 4208
    for task, counts in PAPER.items():
        judged = [len(sample.judged) for sample in samples if sample.task == task]
        assert (len(judged), sum(judged)) == counts
    roles = Counter(call.model for sample in samples for call in benchmark.plan(sample, "golden"))
    assert roles == {"candidate": 3615, "judge": 3615}


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"id": 7, "history": [TURN]}, "line 2 (id 7): task is missing"),
        ({"task": "GR", "history": [TURN]}, "line 2: id is missing"),
        ({"task": "GR", "id": 7}, "line 2 (id 7): history is missing"),
        ({"task": "gr", "id": 7, "history": [TURN]}, "task: Input should be 'CM', 'SI', 'AR'"),
        ({"task": ["GR"], "id": 7, "history": [TURN]}, "task: Input should be 'CM', 'SI', 'AR'"),
        ({"task": "GR", "id": True, "history": [TURN]}, "id holds True, which is not text"),
        ({"task": "GR", "id": 1, "history": [TURN]}, "id is that of data.jsonl line 1"),
        ({"task": "GR", "id": 7, "history": "x"}, "(id 7): history: Input should be a valid tupl"),
        ({"task": "GR", "id": 7, "history": []}, "(id 7): history has 0 turns, "),
        ({"task": "SC", "id": 7, "history": [TURN]}, "history has 1 turns, SC is judged from 2 on"),
        (
            {"task": "GR", "id": 7, "history": [TURN, {"user": " ", "bot": "b"}]},
            "line 2 (id 7): history[2].user is empty",
        ),
        ({"task": "GR", "id": 7, "history": [{"user": "u"}]}, "history[1].bot is missing"),
        ({"task": "GR", "id": 7, "history": ["u"]}, "(id 7): history[1]: Input should be a valid"),
    ],
)
def test_a_wrong_record_is_named(tmp_path: Path, record: dict[str, Any], problem: str) -> None:
    data = write(tmp_path / "data.jsonl", [records()[0], record])
    with pytest.raises(DataError) as caught:
        build(spec(data))
    assert problem in str(caught.value)
    assert "--skip-bad-records continues with the 1 good records." in str(caught.value)
