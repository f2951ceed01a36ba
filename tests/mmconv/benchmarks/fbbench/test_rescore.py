"""Published judgements: the authors' numbers to the printed digit, and what their files hide."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.benchmarks.fbbench.published import rescore
from mmconv.core.errors import DataError
from mmconv.core.types import Table
from tests.mmconv.benchmarks.fbbench.samples import (
    JUDGED,
    correction,
    maintenance,
    needs_judged,
    sample,
)

QUANTITIES = ("error correction", "response maintenance", "overall")
SCENARIOS = ("Error Correction", "Response Maintenance")


def tables(*files: Path, **options: Any) -> dict[str, Table]:
    return {table.name: table for table in rescore(files, **options)}


def judged(record: dict[str, Any], *results: str, **fields: Any) -> dict[str, Any]:
    """The record as the authors publish it, judged so."""
    criteria = [item if isinstance(item, list) else [item, None] for item in record["checklist"]]
    judgement = {
        name: {"评判理由": "有", "评判结果": result, "weight": weight}
        for (name, weight), result in zip(criteria, results, strict=False)
    }
    met = [w for (_, w), result in zip(criteria, results, strict=False) if result == "是"]
    score = 1 if None in met else sum(weight or 0 for weight in met)
    return {
        **record,
        "second_response": "对不起。",
        "infer_model": "some-model",
        "judge_model": "some-judge",
        "judgement": judgement,
        "score": score,
        **fields,
    }


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_bytes(b"\n".join(map(orjson.dumps, records)))
    return path


@needs_judged
def test_the_published_scores_to_the_digit() -> None:
    found = tables(JUDGED)
    row = found["scores"].rows["Ministral-8B-Instruct-2410"]
    assert [row[f"authors: {name}"].value for name in QUANTITIES] == [49.77, 51.55, 50.66]
    assert [round(float(row[name].value or 0), 2) for name in QUANTITIES] == [49.77, 51.55, 50.66]
    assert [row[name].n for name in QUANTITIES] == [281, 310, 591]
    assert found["scores"].title.endswith("judged by gpt-4o-2024-08-06")


@needs_judged
def test_every_published_breakdown_by_hand() -> None:
    """Task by task and type by type, from the scores that the file itself stores."""
    records = [orjson.loads(line) for line in JUDGED.read_bytes().splitlines()]
    found = tables(JUDGED)
    assert len(found["tasks"].rows) == 8
    assert len(found["subtasks"].rows) == 24
    assert len(found["deficiency"].rows) == 5
    assert len(found["feedback"].rows) == 9
    for task, row in found["tasks"].rows.items():
        for name, scenario in zip(QUANTITIES, SCENARIOS, strict=False):
            own = [r for r in records if r["task_type"] == task and r["bench_type"] == scenario]
            assert row[f"authors: {name}"].value == published(own)
    for name, scenario in zip(QUANTITIES, SCENARIOS, strict=False):
        for tag, field in (("deficiency", "error_type"), ("feedback", "feedback_type")):
            for label, row in found[tag].rows.items():
                own = [
                    r for r in records if r["bench_type"] == scenario and label in lists(r, field)
                ]
                assert bool(own) == (f"authors: {name}" in row)
                if own:
                    assert row[f"authors: {name}"].value == published(own)


def lists(record: dict[str, Any], field: str) -> list[str]:
    return list(record[field] or ())


def published(records: list[dict[str, Any]]) -> float:
    """The mean over tasks of the mean of the stored scores in percent, without any float."""
    by_task: dict[str, list[Fraction]] = {}
    for record in records:
        by_task.setdefault(record["task_type"], []).append(Fraction(record["score"]))
    means = [sum(values, start=Fraction()) / len(values) for values in by_task.values()]
    total: Fraction = sum(means, start=Fraction()) / len(means)
    return float(round(total, 4) * 100)


@needs_judged
def test_what_the_published_file_hides() -> None:
    found = tables(JUDGED)
    counts = {label: row["samples"].value for label, row in found["faults"].rows.items()}
    assert counts.pop("criteria missing in the judgement") == 1
    assert set(counts.values()) == {0.0}
    [row] = found["fault_samples"].rows.values()
    assert row["missing"].value == 2.0


@needs_judged
def test_the_papers_formula_lowers_response_maintenance() -> None:
    row = tables(JUDGED, maintenance="all")["scores"].rows["Ministral-8B-Instruct-2410"]
    assert row["authors: response maintenance"].value == 51.55
    assert 15 < float(row["response maintenance"].value or 0) < 40


def test_a_file_of_several_models_is_refused(tmp_path: Path) -> None:
    first, second = judged(correction(0), "是", "是"), judged(correction(1), "是", "否")
    file = write(tmp_path / "two.jsonl", first, {**second, "infer_model": "another"})
    with pytest.raises(DataError) as caught:
        rescore([file])
    assert caught.value.problems == (
        "two.jsonl line 2: infer_model is 'another', and 'some-model' before: "
        "give each model a file",
    )
    rows = tables(file, skip_bad=True)["scores"].rows
    assert [*rows] == ["some-model"]


def test_the_columns_of_odd_samples_are_explained(tmp_path: Path) -> None:
    file = write(tmp_path / "one.jsonl", judged(correction(0), "是", "是", score=0.3))
    table = tables(file)["fault_samples"]
    assert len(table.columns) == 9
    assert all(any(note.startswith(f"{name}: ") for note in table.notes) for name in table.columns)


def test_what_files_hide_is_counted(tmp_path: Path) -> None:
    ec = [correction(number) for number in range(7)]
    renamed = judged(ec[0], "是", "是")
    renamed["judgement"]["改名"] = renamed["judgement"].pop("回答是否为0")
    reweighted = judged(ec[1], "是", "是", score=0.8)
    reweighted["judgement"]["回答是否为2"]["weight"] = 0.5
    refused = {"API fialed": "$REPETITIVE PATTERNS$"}
    path = write(
        tmp_path / "judged.jsonl",
        renamed,
        reweighted,
        judged(ec[2], "是"),
        judged(ec[3], "是", "是", second_response="$ERROR$"),
        judged(ec[4], judgement=refused, score=0),
        judged(ec[5], "是", "是", score=0.5),
        judged({**ec[6], "checklist": [["甲", 0.5], ["乙", 0.4]]}, "是", "否"),
    )
    found = tables(path)
    counts = {label: row["samples"].value for label, row in found["faults"].rows.items()}
    assert counts == {
        "criteria renamed by the judge": 1.0,
        "criteria missing in the judgement": 1.0,
        "entries that are not criteria": 0.0,
        "criteria whose weight the judge changed": 1.0,
        "prompts refused by the judge's server (authors: 0)": 1.0,
        "error texts stored and judged as answers": 1.0,
        "checklists whose weights do not sum to 1": 1.0,
        "criteria that a checklist lists twice": 0.0,
        "stored scores that the judgement does not give": 1.0,
    }
    row = found["scores"].rows["some-model"]
    # Sums to the authors: 1, 0.8, 0.3, 1, 0, 1, 0.5 of seven; three have no score of ours.
    assert row["authors: error correction"].value == 65.71
    assert row["error correction"].value == pytest.approx(100 * (1 + 1 + 1 + 0.5) / 4)
    assert row["error correction"].missing == {
        "with criteria missing in the judgement": 1,
        "no answer: server": 1,
        "failed: rejected": 1,
    }
    assert {
        "some-model: 7 of the 591 samples of release v3, 584 left out.",
        "No samples of response maintenance, so that overall is error correction alone: "
        "some-model.",
    } <= {*found["scores"].notes}


TWICE = "lists a criterion twice. Our score counts both its weights, the authors' score one."


def test_a_criterion_that_a_checklist_lists_twice_is_counted_and_explained(tmp_path: Path) -> None:
    checklist = [["甲", 0.3], ["乙", 0.4], ["甲", 0.3]]
    twice = correction(1, checklist=checklist, task_type="Coding")
    file = write(
        tmp_path / "twice.jsonl",
        judged(twice, "是", "否", "是", score=0.3),
        judged(correction(2), "是", "否"),
        judged(maintenance(3, checklist=["丙", "丙"]), "是", "是"),
    )
    found = tables(file)
    counts = {
        label: [cell.value for cell in row.values()] for label, row in found["faults"].rows.items()
    }
    assert counts.pop("criteria that a checklist lists twice") == [2.0, 2.0]
    assert {tuple(each) for each in counts.values()} == {(0.0, 0.0)}
    row = found["tasks"].rows["Coding"]
    assert (row["error correction"].value, row["authors: error correction"].value) == (60.0, 30.0)
    assert f"some-model: the checklist of {sample(twice).id} {TWICE}" in found["scores"].notes


def test_a_repeated_criterion_that_is_not_met_needs_no_explanation(tmp_path: Path) -> None:
    twice = correction(checklist=[["甲", 0.3], ["乙", 0.4], ["甲", 0.3]])
    found = tables(write(tmp_path / "twice.jsonl", judged(twice, "否", "是", "否", score=0.4)))
    assert found["faults"].rows["criteria that a checklist lists twice"]["samples"].value == 1.0
    assert not any(note.endswith(TWICE) for table in found.values() for note in table.notes)


def test_several_models_are_rows_of_one_table(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", judged(correction(), "是", "是", infer_model="a"))
    second = write(tmp_path / "b.jsonl", judged(maintenance(), "否", "否", infer_model="b"))
    found = tables(first, second)
    assert list(found["scores"].rows) == ["a", "b"]
    assert list(found["tasks"].rows) == ["a: Mathematics", "b: Text Creation"]
    other = write(tmp_path / "other.jsonl", judged(correction(), "是", "否", infer_model="a"))
    again = tables(first, other)
    assert list(again["scores"].rows) == [f"a ({first})", f"a ({other})"]


def test_a_file_given_twice_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", judged(correction(), "是", "是"))
    with pytest.raises(DataError, match="the same file is given twice"):
        rescore([file, tmp_path / ".." / tmp_path.name / "a.jsonl"])


def test_a_file_of_the_first_release_has_references_throughout(tmp_path: Path) -> None:
    record = judged(correction(reference_second_response="好。"), "是", "否")
    found = tables(write(tmp_path / "v1.jsonl", record))
    note = "some-model: 1 of the 734 samples of release v1, 733 left out."
    assert note in found["scores"].notes


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"second_response": None}, "second_response must be text"),
        ({"judgement": "是"}, "judgement must be an object"),
        ({"infer_model": None}, "infer_model is missing"),
        ({"checklist": None}, "checklist must be a list of criteria, got None"),
        ({"task_type": "Chess"}, "task_type must be one of Mathematics"),
    ],
)
def test_a_malformed_record_is_refused(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    record = {**judged(correction(), "是", "是"), **fields}
    path = write(tmp_path / "judged.jsonl", judged(maintenance(), "是", "否"), record)
    with pytest.raises(DataError) as refused:
        rescore([path])
    assert refused.value.where == str(path)
    [problem] = refused.value.problems
    assert problem.startswith("judged.jsonl line 2: ")
    assert message in problem


def test_all_malformed_records_are_named_at_once(tmp_path: Path) -> None:
    good = judged(maintenance(), "是", "否")
    path = write(tmp_path / "judged.jsonl", good, good, {**judged(correction(), "是"), "score": 1})
    with path.open("a", encoding="utf-8") as file:
        file.write("\n{\n")
    with pytest.raises(DataError) as refused:
        rescore([path])
    assert [problem.split(":")[0] for problem in refused.value.problems] == [
        "judged.jsonl line 2",
        "judged.jsonl line 4",
    ]
    assert "--skip-bad-records goes on with the 2 good records." in str(refused.value)


def test_a_sample_judged_twice_is_refused(tmp_path: Path) -> None:
    record = judged(correction(), "是", "是")
    with pytest.raises(DataError, match=r"user_query is that of twice\.jsonl line 1"):
        rescore([write(tmp_path / "twice.jsonl", record, record)])
