"""Judgements in files: OpenCompass's layout and plain ones, and what such files hide."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.benchmarks.mtbench101 import AUTHORS_TITLE, MINIMUM_TITLE, TASKS
from mmconv.benchmarks.readers.mtbench101 import TURNS, known_dialogues, rescore
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


def row(table: Table, name: str) -> dict[str, float]:
    """The counts of a row that are not 0."""
    return {
        column: cell.value
        for column, cell in table.rows[name].items()
        if isinstance(cell.value, float) and cell.value
    }


@needs_real
def test_the_authors_numbers_come_out_to_the_last_digit(tmp_path: Path) -> None:
    entries = complete()
    tasks, average = plainly(entries)
    found = tables(save(tmp_path / "results.json", numbered(entries)))
    for task in TASKS:
        assert found["scores"].rows[task][AUTHORS_TITLE].value == tasks[task]
        assert found["paper_authors"].rows["results"][task].value == tasks[task]
    assert found["scores"].rows["average"][AUTHORS_TITLE].value == round(average, 2)
    assert row(found["faults"], "all") == {"dialogues": 1388, "judgements": 3615}
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
    assert row(found["faults"], "bo: CC")["judgements"] == 2
    # even if they have one name
    (tmp_path / "more").mkdir()
    other = write(tmp_path / "more" / "bo.jsonl", [flat("CC", 1, 1, "[[3]]")])
    assert len(tables(files[1], other)["paper"].rows) == 2


def test_what_files_hide_is_counted(tmp_path: Path) -> None:
    rows = [
        flat("TS", 1, 1, "Rating: [[8]]"),
        flat("TS", 1, 3, "Rating: [[6]]"),
        flat("TS", 2, 1, "Rating: [[8]]"),
        flat("TS", 2, 1, "Rating: [[2]]"),
        *(flat("TS", 3, turn, "Rating: [[7]]") for turn in (1, 2, 3)),
        flat("SC", 9, 1, "Rating: [[1]]"),
        flat("SC", 9, 2, "Rating: [[5]]"),
    ]
    found = tables(write(tmp_path / "odd.jsonl", rows))
    scores = found["scores"].rows
    assert scores["TS"][MINIMUM_TITLE].value == 7
    # a turn between two others, and the last two
    assert scores["TS"][MINIMUM_TITLE].missing == {"not in the file": 2}
    assert scores["TS"][AUTHORS_TITLE].value == (6 + 2 + 7) / 3
    assert (scores["SC"][MINIMUM_TITLE].value, scores["SC"][AUTHORS_TITLE].value) == (5, 1)
    assert row(found["unscored"], "TS")["not in the file"] == 3
    assert row(found["faults"], "TS") == {
        "dialogues": 3,
        "dialogues missing": 80,
        "judgements": 7,
        "judgements missing": 243,
        "repeated": 1,
    }
    assert row(found["faults"], "SC")["turns that are history only"] == 1


def test_what_is_not_the_authors_fills_no_place_of_theirs(tmp_path: Path) -> None:
    judged = [(number, turn) for number in range(1, 8) for turn in (1, 2, 3)]
    odd = [(99999, 1), (1, 99)]
    rows = [flat("GR", dialogue, turn, "Rating: [[8]]") for dialogue, turn in (*judged, *odd)]
    found = tables(write(tmp_path / "odd.jsonl", rows))
    faults = found["faults"]
    assert row(found["unscored"], "GR") == {"turns": 24, "scored": 23, "not in the file": 1}
    assert row(faults, "GR") == {
        "dialogues": 8,
        "dialogues missing": 64,
        "dialogues unknown": 1,
        "judgements": 23,
        "judgements missing": 218 - 21,
        "judgements unknown": 2,
    }
    assert "odd: unknown are GR 1 turn 99, GR 99999 turn 1." in faults.notes
    own = [flat("GR", f"own-{number}", 1, "Rating: [[8]]") for number in range(7)]
    notes = tables(write(tmp_path / "own.jsonl", own))["faults"].notes
    assert any(note.endswith("GR own-4 turn 1 and 2 more.") for note in notes)


def test_dialogues_may_be_numbered_from_1_in_each_task(tmp_path: Path) -> None:
    judged = [*(("TS", turn, 8) for turn in (1, 2, 3)), *(("CC", turn, 4) for turn in (1, 2))]
    rows = [flat(task, 1, turn, f"[[{rating}]]") for task, turn, rating in judged]
    scores = tables(write(tmp_path / "x.jsonl", rows))["scores"].rows
    assert [scores[task][MINIMUM_TITLE].value for task in ("TS", "CC")] == [8, 4]


def test_means_that_a_file_states_wrongly_are_named_and_silence_is_unparsed(tmp_path: Path) -> None:
    entries = numbered([entry("CC", 1, 1, "[[4]]")])
    stated = {"avg": 4.0, "CC": 5.0, "details": entries}
    notes = tables(save(tmp_path / "x.json", stated))["faults"].notes
    assert "x states CC 5.0000; its judgements give 4.0000." in notes
    assert not any("states avg" in note for note in notes)
    silent = numbered([entry("CC", 1, 1, None), entry("CC", 1, 2, "")])
    assert row(tables(save(tmp_path / "y.json", silent))["unscored"], "CC")["unparsed"] == 2


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"task": "XX"}, "x.jsonl line 2: task 'XX' must be one of CM, SI"),
        ({"turn": 0}, "x.jsonl line 2: turn: Input should be greater than or equal to 1"),
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


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "x.json"
    broken.write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"x.json.*\n.*not a readable JSON file"):
        rescore([broken])
    with pytest.raises(DataError, match="No such file"):
        rescore([tmp_path / "gone.json"])


@needs_real
def test_the_known_dialogues_are_those_of_the_authors_file() -> None:
    dialogues: dict[str, dict[str, int]] = {}
    for line in REAL.read_bytes().splitlines():
        record = orjson.loads(line)
        dialogues.setdefault(record["task"], {})[str(record["id"])] = len(record["history"])
    assert dialogues.keys() == TURNS.keys()
    for task, turns in dialogues.items():
        assert known_dialogues(task, turns) == turns


@pytest.mark.parametrize(
    ("task", "ids", "known"),
    [
        ("GR", ["1", "71", "72"], {"1": 3, "71": 3}),
        ("SC", ["1312", "1388", "1"], {"1312": 2, "1388": 2}),
        ("SC", ["1", "77", "1388"], {"1": 2, "77": 2}),
        ("SC", ["x", "99999"], {}),
    ],
)
def test_ids_run_through_the_file_or_are_counted_by_task(
    task: str, ids: list[str], known: dict[str, int]
) -> None:
    assert known_dialogues(task, ids) == known
