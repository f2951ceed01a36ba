"""Published judgements: the authors' numbers to the printed digit, and what their files hide."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.benchmarks.readers.fbbench import rescore
from mmconv.core.types import Table
from tests.mmconv.benchmarks.fbbench.samples import JUDGED, correction, maintenance, needs_judged

MODEL = "Ministral-8B-Instruct-2410"
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
    row = found["scores"].rows[MODEL]
    assert [row[f"authors: {name}"].value for name in QUANTITIES] == [49.77, 51.55, 50.66]
    assert [round(float(row[name].value or 0), 2) for name in QUANTITIES] == [49.77, 51.55, 50.66]
    assert [row[name].n for name in QUANTITIES] == [281, 310, 591]
    assert found["scores"].title.endswith("judged by gpt-4o-2024-08-06")
    counts = {label: row["samples"].value for label, row in found["faults"].rows.items()}
    assert counts.pop("criteria missing in the judgement") == 1
    assert set(counts.values()) == {0.0}
    [row] = found["fault_samples"].rows.values()
    assert row["missing"].value == 2.0
    by_formula = tables(JUDGED, maintenance="all")["scores"].rows[MODEL]
    assert by_formula["authors: response maintenance"].value == 51.55
    assert 15 < float(by_formula["response maintenance"].value or 0) < 40


@needs_judged
@pytest.mark.parametrize(
    ("name", "field", "rows"),
    [
        ("tasks", "task_type", 8),
        ("subtasks", "sub_task_type", 24),
        ("deficiency", "error_type", 5),
        ("feedback", "feedback_type", 9),
    ],
)
def test_every_published_breakdown_by_hand(name: str, field: str, rows: int) -> None:
    """Task by task and type by type, from the scores that the file itself stores."""
    records = [orjson.loads(line) for line in JUDGED.read_bytes().splitlines()]
    table = tables(JUDGED)[name]
    assert len(table.rows) == rows
    for label, row in table.rows.items():
        for column, scenario in zip(QUANTITIES, SCENARIOS, strict=False):
            own = [
                record
                for record in records
                if record["bench_type"] == scenario
                and label.rpartition(" / ")[2] in lists(record, field)
            ]
            assert bool(own) == (f"authors: {column}" in row)
            if own:
                assert row[f"authors: {column}"].value == published(own)


def lists(record: dict[str, Any], field: str) -> list[str]:
    value = record[field] or []
    return [value] if isinstance(value, str) else value


def published(records: list[dict[str, Any]]) -> float:
    """The mean over tasks of the mean of the stored scores in percent, without any float."""
    by_task: dict[str, list[Fraction]] = {}
    for record in records:
        by_task.setdefault(record["task_type"], []).append(Fraction(record["score"]))
    means = [sum(values, start=Fraction()) / len(values) for values in by_task.values()]
    total: Fraction = sum(means, start=Fraction()) / len(means)
    return float(round(total, 4) * 100)


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
    odd = found["fault_samples"]
    assert len(odd.columns) == 9
    assert all(any(note.startswith(f"{name}: ") for note in odd.notes) for name in odd.columns)
    row = found["scores"].rows["some-model"]
    # Sums to the authors: 1, 0.8, 0.3, 1, 0, 1, 0.5 of seven; three have no score of ours.
    assert row["authors: error correction"].value == 65.71
    assert row["error correction"].value == pytest.approx(100 * (1 + 1 + 1 + 0.5) / 4)
    assert row["error correction"].missing == {
        "with criteria missing in the judgement": 1,
        "no answer: server": 1,
        "failed: rejected": 1,
    }
    note = "some-model: 7 samples (release v1 has 734, release v3 has 591)."
    assert note in found["scores"].notes


@pytest.mark.parametrize(("is_met", "ours", "authors"), [("是", 60.0, 30.0), ("否", 0.0, 0.0)])
def test_doubled_criteria_count(tmp_path: Path, is_met: str, ours: float, authors: float) -> None:
    checklist = [["甲", 0.3], ["乙", 0.4], ["甲", 0.3]]
    twice = correction(1, checklist=checklist, task_type="Coding")
    file = write(
        tmp_path / "twice.jsonl",
        judged(twice, is_met, "否", is_met, score=authors / 100),
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
    assert (row["error correction"].value, row["authors: error correction"].value) == (
        ours,
        authors,
    )
