"""Judgements in files: OpenCompass's layout and plain ones, and what such files hide."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.benchmarks.mtbench101 import AUTHORS_TITLE, MINIMUM_TITLE, TASKS
from mmconv.benchmarks.readers.mtbench101 import rescore
from mmconv.core.errors import DataError
from mmconv.core.types import Table
from tests.mmconv.benchmarks.mtbench101.dialogues import REAL, needs_real, write

JUDGEMENTS = (
    "It keeps to the point.\n\nRating: [[{n}]]",
    "As [1] shows, it is right. Rating: [[{n}]]",
    "I would rather not say.",
    "Rating: [[7.5]]",
    "Rating: [[0]]",
    "Rating: [[{n}]]",
    "Rating: [[{n}]]",
)


def entry(task: str, dialogue: int, turn: int, text: str | None) -> dict[str, Any]:
    """A judgement as OpenCompass writes it; its turns are texts."""
    gold = {"task": task, "multi_id": dialogue, "turn_id": str(turn)}
    return {"origin_prompt": [], "prediction": text, "gold": gold}


def flat(task: str, dialogue: int | str, turn: int, text: str) -> dict[str, Any]:
    return {"task": task, "id": dialogue, "turn": turn, "judgement": text}


def complete() -> list[dict[str, Any]]:
    """A judgement for each turn of the authors' file, readable and not."""
    found: list[dict[str, Any]] = []
    for line in REAL.read_bytes().splitlines():
        record = orjson.loads(line)
        for turn in range(TASKS[record["task"]].first, len(record["history"]) + 1):
            number = len(found)
            text = JUDGEMENTS[number * 7919 % 101 % 7].format(n=1 + number * 31 % 10)
            found.append(entry(record["task"], record["id"], turn, text))
    return found


def plainly(entries: list[dict[str, Any]]) -> tuple[dict[str, float], float]:
    """The authors' task scores and average, as their description says it, in a few lines."""
    dialogues = defaultdict(list)
    for each in entries:
        if match := re.search(r"\[([0-9]+)\]", each["prediction"]):
            gold = each["gold"]
            dialogues[gold["task"], gold["multi_id"]].append(int(match[1]))
    minima = defaultdict(list)
    for (task, _), numbers in dialogues.items():
        minima[task].append(min(numbers))
    tasks = {task: sum(numbers) / len(numbers) for task, numbers in minima.items()}
    return tasks, sum(tasks.values()) / len(tasks)


def numbered(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {str(number): each for number, each in enumerate(entries)}


def save(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(document))
    return path


def tables(*files: Path) -> dict[str, Table]:
    return {table.name: table for table in rescore(files)}


@needs_real
def test_the_authors_numbers_come_out_to_the_last_digit(tmp_path: Path) -> None:
    entries = complete()
    tasks, average = plainly(entries)
    found = tables(save(tmp_path / "results.json", numbered(entries)))
    for task in TASKS:
        assert found["scores"].rows[task][AUTHORS_TITLE].value == tasks[task]
        assert found["paper_authors"].rows["results"][task].value == tasks[task]
    assert found["scores"].rows["average"][AUTHORS_TITLE].value == round(average, 2)
    assert "results: 1388 of 1388 dialogues, 3615 of 3615 judged turns." in found["scores"].notes
    assert found["unscored"].rows["all"]["turns"].value == 3615


@needs_real
def test_every_layout_leads_to_the_same_tables(tmp_path: Path) -> None:
    entries = complete()
    tasks, average = plainly(entries)
    folder = tmp_path / "m_judged-by--j"
    layouts = {
        "old": [save(tmp_path / "old" / folder.name / "mtbench101.json", numbered(entries))],
        "new": [
            save(
                tmp_path / "new" / folder.name / "mtbench101.json",
                {"avg": round(average, 3), **tasks, "details": numbered(entries)},
            )
        ],
        "parts": [
            save(folder / "mtbench101_0.json", numbered(entries[:2000])),
            save(folder / "mtbench101_1.json", numbered(entries[2000:])),
        ],
    }
    expected = rescore(layouts["old"])
    assert "m_judged-by--j" in {table.name: table for table in expected}["paper"].rows
    for files in layouts.values():
        assert rescore(files) == expected


def test_plain_records_are_read_too(tmp_path: Path) -> None:
    rows = [flat("SI", "a", 1, "Rating: [[8]]"), flat("SI", "a", 2, "Rating: [[6]]")]
    for found in (
        tables(write(tmp_path / "plain.jsonl", rows)),
        tables(save(tmp_path / "plain.json", rows)),
        tables(
            write(
                tmp_path / "nested.jsonl",
                [entry("SI", 1, n + 1, f"[[{r}]]") for n, r in enumerate((8, 6))],
            )
        ),
    ):
        assert found["scores"].rows["SI"][MINIMUM_TITLE].value == 6


def test_several_files_are_several_models(tmp_path: Path) -> None:
    files = [
        write(tmp_path / f"{name}.jsonl", [flat("CC", 1, turn, f"[[{rating}]]") for turn in (1, 2)])
        for name, rating in (("ann", 3), ("bo", 9))
    ]
    found = tables(*files)
    ratings = {name: cells["CC"].value for name, cells in found["paper"].rows.items()}
    assert ratings == {"ann": 3, "bo": 9}
    assert found["scores"].rows["CC"][f"bo: {AUTHORS_TITLE}"].value == 9
    # even if they have one name
    (tmp_path / "more").mkdir()
    other = write(tmp_path / "more" / "bo.jsonl", [flat("CC", 1, 1, "[[3]]")])
    assert len(tables(files[1], other)["paper"].rows) == 2


def test_turns_that_are_not_in_the_file_are_missing(tmp_path: Path) -> None:
    rows = [
        flat("TS", 1, 1, "Rating: [[8]]"),
        flat("TS", 1, 3, "Rating: [[6]]"),
        *(flat("TS", 3, turn, "Rating: [[7]]") for turn in (1, 2, 3)),
    ]
    found = tables(write(tmp_path / "odd.jsonl", rows))
    row = found["scores"].rows["TS"]
    assert (row[MINIMUM_TITLE].value, row[MINIMUM_TITLE].missing) == (7, {"not in the file": 1})
    # to the authors' code it does not exist
    assert row[AUTHORS_TITLE].value == (6 + 7) / 2
    assert found["unscored"].rows["TS"]["not in the file"].value == 1
    assert "odd: 2 of 1388 dialogues, 5 of 3615 judged turns." in found["scores"].notes


def test_dialogues_may_be_numbered_from_1_in_each_task(tmp_path: Path) -> None:
    judged = [*(("TS", turn, 8) for turn in (1, 2, 3)), *(("CC", turn, 4) for turn in (1, 2))]
    rows = [flat(task, 1, turn, f"[[{rating}]]") for task, turn, rating in judged]
    scores = tables(write(tmp_path / "x.jsonl", rows))["scores"].rows
    assert [scores[task][MINIMUM_TITLE].value for task in ("TS", "CC")] == [8, 4]


def test_silence_is_unparsed(tmp_path: Path) -> None:
    silent = numbered([entry("CC", 1, 1, None), entry("CC", 1, 2, "")])
    found = tables(save(tmp_path / "y.json", silent))
    assert found["unscored"].rows["CC"]["unparsed"].value == 2


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"task": "XX"}, "x.jsonl line 2: task 'XX' must be one of CM, SI"),
        ({"turn": 0}, "x.jsonl line 2: turn 0 of CC is history only"),
        ({"task": "SC"}, "x.jsonl line 2: turn 1 of SC is history only"),
        ({}, "x.jsonl line 2: turn 1 of CC, dialogue 1 is judged before"),
        ({"turn": "two"}, "x.jsonl line 2: turn: Input should be a valid integer"),
        ({"id": None}, "x.jsonl line 2: id: Input should be a valid string"),
        ({"judgement": 7}, "x.jsonl line 2: judgement: Input should be a valid string"),
    ],
)
def test_a_wrong_judgement_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    good = flat("CC", 1, 1, "[[4]]")
    with pytest.raises(DataError) as caught:
        rescore([write(tmp_path / "x.jsonl", [good, good | change])])
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"0": {"prediction": "[[4]]"}}, "entry '0': task is missing"),
        ({"0": "text"}, "entry '0'"),
        ({"details": []}, "details: not an object"),
        ({}, "holds no records"),
        ([], "holds no records"),
    ],
)
def test_a_file_of_another_layout_is_refused(tmp_path: Path, content: Any, problem: str) -> None:
    with pytest.raises(DataError, match=re.escape(problem)):
        rescore([save(tmp_path / "x.json", content)])
