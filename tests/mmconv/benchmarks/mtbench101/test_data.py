"""The authors' file as it is, and files that are wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mmconv.benchmarks.mtbench101.benchmark import build
from mmconv.benchmarks.mtbench101.data import load_dialogues, survey
from mmconv.benchmarks.mtbench101.taxonomy import MEANS, TASKS

from mmconv.cli.evaluating import check_command as check
from mmconv.core.errors import DataError
from tests.mmconv.benchmarks.mtbench101.dialogues import REAL, needs_real, records, spec, write

TURN = {"user": "Hello?", "bot": "Hello."}


def statistics(data: Path) -> dict[str, list[Any]]:
    """The rows of the data's table: counts and means, rounded as the paper's Table 6 is."""
    table = build(spec(data), ImageStore()).data_table()
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
    told = CliRunner().invoke(check, ["mtbench101", *options, "--out", str(tmp_path / "runs")])
    assert told.exit_code == 0, told.output
    assert told.output.startswith("13 samples under golden: data in order\nThe data by task (paper")
    assert told.output.index("\nall ") < told.output.index("  candidate: echo (fake)")


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
    assert sum(task.dialogues for task in TASKS.values()) == 1388
    assert sum(task.turns for task in TASKS.values()) == 3615
    late = {code for code, task in TASKS.items() if task.first == 2}
    assert late == {"FR", "CR", "AR", "SA", "SC", "CM"}


@needs_real
def test_the_authors_file_holds_what_the_taxonomy_says() -> None:
    found = survey(REAL)
    assert (found.good, found.bad) == (1388, {})
    dialogues = list(load_dialogues(REAL, found))
    assert [dialogue.id for dialogue in dialogues] == [str(n) for n in range(1, 1389)]
    assert sum(len(dialogue.history) for dialogue in dialogues) == 4208
    by_task = Counter(dialogue.task.code for dialogue in dialogues)
    turns: Counter[str] = Counter()
    for dialogue in dialogues:
        turns[dialogue.task.code] += len(dialogue.own_turns)
    for code, task in TASKS.items():
        assert (by_task[code], turns[code]) == (task.dialogues, task.turns)


@needs_real
def test_a_run_over_the_authors_file_plans_3615_generations_and_judgements() -> None:
    benchmark = build(spec(REAL), ImageStore())
    seats = Counter(
        call.seat for sample in benchmark.load() for call in benchmark.plan(sample, "golden")
    )
    assert seats == {"candidate": 3615, "judge": 3615}


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"id": 7, "history": [TURN]}, "line 2: task: missing"),
        ({"task": "GR", "history": [TURN]}, "line 2: id: missing"),
        ({"task": "GR", "id": 7}, "line 2: history: missing"),
        ({"task": "gr", "id": 7, "history": [TURN]}, "task: 'gr' is none of CM, SI, AR"),
        ({"task": ["GR"], "id": 7, "history": [TURN]}, "task: ['GR'] is none of"),
        ({"task": "GR", "id": True, "history": [TURN]}, "id: True is no whole number"),
        ({"task": "GR", "id": 1, "history": [TURN]}, "id is that of data.jsonl line 1"),
        ({"task": "GR", "id": 7, "history": "x"}, "history: not a list of turns"),
        ({"task": "GR", "id": 7, "history": []}, "history: 0 turn(s)"),
        ({"task": "SC", "id": 7, "history": [TURN]}, "1 turn(s), but the task is judged from"),
        (
            {"task": "GR", "id": 7, "history": [TURN, {"user": " ", "bot": "b"}]},
            "line 2: history, turn 2, user: no text",
        ),
        ({"task": "GR", "id": 7, "history": [{"user": "u"}]}, "history, turn 1, bot: no text"),
        ({"task": "GR", "id": 7, "history": ["u"]}, "history, turn 1, user: no text"),
    ],
)
def test_a_wrong_record_is_named(tmp_path: Path, record: dict[str, Any], problem: str) -> None:
    data = write(tmp_path / "data.jsonl", [records()[0], record])
    with pytest.raises(DataError) as caught:
        survey(data)
    assert problem in str(caught.value)
    assert "--skip-bad-records goes on with the 1 good records." in str(caught.value)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [{"id": 1}, {"task": "GR", "id": "x", "history": []}])
    with pytest.raises(DataError) as caught:
        survey(data)
    assert len(caught.value.problems) == 4


def test_bad_records_can_be_left_out_and_are_listed(tmp_path: Path) -> None:
    rows = records()
    rows[4]["history"][0]["bot"] = ""
    data = write(tmp_path / "data.jsonl", rows)
    benchmark = build(spec(data, skip_bad_records=True), ImageStore())
    assert benchmark.size == len(list(benchmark.load())) == 12
    assert benchmark.facts["left_out"] == [
        {"where": "data.jsonl line 5", "reasons": ["history, turn 1, bot: no text"]}
    ]
    assert "1 of 13 records is left out" in benchmark.notes[0]


def test_nothing_is_left_to_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no records"):
        survey(write(tmp_path / "data.jsonl", []), skip_bad=True)


def test_a_file_that_changes_after_the_check_stops_the_run(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", records())
    found = survey(data)
    write(data, [*records()[:3], {"id": 4}])
    with pytest.raises(DataError, match="The file has changed"):
        list(load_dialogues(data, found))
