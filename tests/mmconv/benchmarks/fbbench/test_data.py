"""FB-Bench's data file: what is read, and which faults stop a run before it costs anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mmconv.benchmarks.fbbench.benchmark import off_balance
from mmconv.core.errors import DataError
from tests.mmconv.benchmarks.fbbench.samples import (
    RELEASE,
    benchmark,
    correction,
    maintenance,
    needs_release,
    sample,
    write,
)


@needs_release
def test_the_authors_release() -> None:
    release = benchmark(RELEASE)
    assert (release.size, release.facts["reference"], release.facts["left_out"]) == (591, False, [])
    samples = list(release.load())
    assert len({each.id for each in samples}) == 591
    assert sum(each.scenario == "Error Correction" for each in samples) == 281
    assert sum(each.reference is not None for each in samples) == 194


def test_a_record_is_read_whole() -> None:
    read = sample(correction(reference_second_response="等于2，抱歉。"))
    assert read.query == "1加1等于几？"
    assert read.deficiencies == ("Logical Error",)
    assert [(each.text, each.weight) for each in read.checklist] == [
        ("回答是否致歉", 0.3),
        ("回答是否为2", 0.7),
    ]
    assert read.reference == "等于2，抱歉。"


def test_a_criterion_may_be_a_list() -> None:
    """The paper's Figure 11 shows a criterion without a weight as a list of one."""
    read = sample(maintenance(checklist=[["是否坚持"], ["是否解释", None]]))
    assert [(each.text, each.weight) for each in read.checklist] == [
        ("是否坚持", None),
        ("是否解释", None),
    ]


def test_the_id_depends_on_the_query_alone() -> None:
    assert sample(correction()).id == sample(correction(feedback="不对。")).id
    assert sample(correction(1)).id != sample(correction(2)).id


BAD: list[tuple[dict[str, Any], str]] = [
    ({"user_query": "  "}, "user_query is empty"),
    ({"origin_first_response": [3]}, "origin_first_response holds [3], which is not text"),
    (
        {"bench_type": "EC"},
        "bench_type must be one of Error Correction, Response Maintenance, got 'EC'",
    ),
    ({"task_type": "Chess"}, "Text Translation, got 'Chess'"),
    (
        {"feedback_type": "Misinformation"},
        "feedback_type must be a list of names or null, got 'Misinformation'",
    ),
    ({"checklist": []}, "checklist must be a list of criteria, got []"),
    ({"checklist": [["甲", 0.5], ["乙", 0.4]]}, "the weights must sum to 1, got 0.9"),
    (
        {"checklist": [["甲", 1.0], ["", 0.1]]},
        "checklist item 2 must be a text or [text, weight], got ['', 0.1]",
    ),
    ({"checklist": ["甲"]}, "checklist item 1: the weight must be in (0, 1], got None"),
    ({"checklist": [["甲", "1"]]}, "item 1 must be a text or [text, weight], got ['甲', '1']"),
    ({"checklist": [["甲", True]]}, "item 1 must be a text or [text, weight], got ['甲', True]"),
    ({"checklist": [["甲", 0.5], ["甲", 0.5]]}, "'甲' is listed twice"),
    ({"bench_type": "Response Maintenance"}, "item 1: response maintenance has no weights"),
    ({"reference_second_response": [5]}, "reference_second_response holds [5]"),
]


@pytest.mark.parametrize(("fields", "message"), BAD, ids=[message for _, message in BAD])
def test_a_malformed_record_is_named(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "data.json", [maintenance(), correction(**fields)])
    with pytest.raises(DataError) as refused:
        benchmark(path)
    assert "data.json item 2: " in str(refused.value)
    assert message in str(refused.value)


def test_missing_fields_are_named_together(tmp_path: Path) -> None:
    record = correction()
    del record["error_type"], record["user_query"]
    with pytest.raises(DataError) as refused:
        benchmark(write(tmp_path / "data.json", [record]))
    assert refused.value.problems == (
        "data.json item 1: user_query is missing",
        "data.json item 1: error_type must be a list of names or null, got nothing",
    )


def test_two_records_of_one_query_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data.json", [correction(), correction(feedback="不对。")])
    with pytest.raises(DataError, match=r"item 2: user_query is that of data\.json item 1"):
        benchmark(path)


def test_a_judge_that_must_read_references_needs_them(tmp_path: Path) -> None:
    records = [correction(1, reference_second_response="好"), correction(2)]
    path = write(tmp_path / "data.json", records)
    assert benchmark(path).facts["reference"] is False
    with pytest.raises(DataError, match="item 2: reference_second_response is empty") as refused:
        benchmark(path, reference=True)
    assert "options.reference=false judges without reference answers" in str(refused.value)


def test_sums_are_exact_enough_for_decimal_weights() -> None:
    weights = [0.1, 0.3, *[0.05] * 8, 0.2]
    items = [[f"第{number}处", weight] for number, weight in enumerate(weights)]
    assert off_balance(sample(correction(checklist=items))) is None
