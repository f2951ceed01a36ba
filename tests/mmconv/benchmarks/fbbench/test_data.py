"""FB-Bench's data file: what is read, and what stops a run before it costs anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mmconv.benchmarks.fbbench.data import load_samples, off_balance, survey
from mmconv.core.errors import DataError
from tests.mmconv.benchmarks.fbbench.samples import (
    RELEASE,
    correction,
    maintenance,
    mixed,
    needs_release,
    sample,
    write,
)


@needs_release
def test_the_authors_release() -> None:
    found = survey(RELEASE, reference=None, skip_bad=False)
    assert (found.intake.good, found.referenced, dict(found.intake.bad)) == (591, False, {})
    samples = list(load_samples(RELEASE, found.intake))
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


def test_criteria_may_stand_in_lists_of_their_own() -> None:
    """The paper's Figure 11 shows a criterion without a weight as a list of one."""
    read = sample(maintenance(checklist=[["是否坚持"], ["是否解释", None]]))
    assert [(each.text, each.weight) for each in read.checklist] == [
        ("是否坚持", None),
        ("是否解释", None),
    ]


def test_the_id_hangs_on_the_query_alone() -> None:
    assert sample(correction()).id == sample(correction(feedback="不对。")).id
    assert sample(correction(1)).id != sample(correction(2)).id


BAD: list[tuple[dict[str, Any], str]] = [
    ({"user_query": "  "}, "user_query is empty"),
    ({"feedback": None}, "feedback is empty"),
    ({"origin_first_response": [3]}, "origin_first_response holds [3], which is not text"),
    ({"bench_type": "EC"}, "bench_type is 'EC'"),
    ({"task_type": "Chess"}, "task_type is 'Chess'"),
    ({"feedback_type": "Misinformation"}, "feedback_type holds 'Misinformation'"),
    ({"checklist": []}, "checklist is empty"),
    ({"checklist": [["甲", 0.5], ["乙", 0.4]]}, "the weights sum to 0.9, not 1"),
    ({"checklist": [["甲", 1.0], ["", 0.1]]}, "checklist item 2 is ['', 0.1]: no criterion"),
    ({"checklist": ["甲"]}, "its weight is None, not a number in (0, 1]"),
    ({"checklist": [["甲", "1"]]}, "checklist item 1 is ['甲', '1']: no criterion"),
    ({"checklist": [["甲", 0.5], ["甲", 0.5]]}, "'甲' is listed twice"),
    ({"reference_second_response": [5]}, "reference_second_response holds [5]"),
]


@pytest.mark.parametrize(("fields", "told"), BAD, ids=[told for _, told in BAD])
def test_a_malformed_record_is_named(tmp_path: Path, fields: dict[str, Any], told: str) -> None:
    path = write(tmp_path / "data.json", [maintenance(), correction(**fields)])
    with pytest.raises(DataError) as refused:
        survey(path, reference=None, skip_bad=False)
    message = str(refused.value)
    assert "data.json item 2: " in message
    assert told in message
    assert "--skip-bad-records goes on with the 1 good records" in message


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    record = correction()
    del record["error_type"], record["user_query"]
    path = write(tmp_path / "data.json", [record])
    with pytest.raises(DataError) as refused:
        survey(path, reference=None, skip_bad=False)
    assert refused.value.problems == (
        "data.json item 1: user_query is missing",
        "data.json item 1: error_type is missing: a list of names is wanted, or null",
    )


def test_weights_of_response_maintenance_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data.json", [maintenance(checklist=[["甲", 1.0]])])
    with pytest.raises(DataError, match="criteria of response maintenance have no weights"):
        survey(path, reference=None, skip_bad=False)


def test_two_records_of_one_query_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data.json", [correction(), correction(feedback="不对。")])
    with pytest.raises(DataError, match=r"item 2: user_query is that of data\.json item 1"):
        survey(path, reference=None, skip_bad=False)


def test_bad_records_can_be_left_out(tmp_path: Path) -> None:
    records = [*mixed(3), correction(9, feedback=""), {"user_query": "?"}]
    path = write(tmp_path / "data.json", records)
    found = survey(path, reference=None, skip_bad=True)
    assert found.intake.good == 3
    assert list(found.intake.bad) == ["data.json item 4", "data.json item 5"]
    assert len(list(load_samples(path, found.intake))) == 3


def test_nothing_is_left_to_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no records"):
        survey(write(tmp_path / "none.json", []), reference=None, skip_bad=True)
    with pytest.raises(DataError, match="feedback is empty"):
        path = write(tmp_path / "bad.json", [correction(feedback="")])
        survey(path, reference=None, skip_bad=True)


def test_a_judge_that_shall_read_references_needs_them(tmp_path: Path) -> None:
    path = write(
        tmp_path / "data.json", [correction(1, reference_second_response="好"), correction(2)]
    )
    assert survey(path, reference=None, skip_bad=False).referenced is False
    with pytest.raises(DataError, match="item 2: reference_second_response is empty"):
        survey(path, reference=True, skip_bad=False)


def test_sums_are_exact_enough_for_decimal_weights() -> None:
    weights = [0.1, 0.3, *[0.05] * 8, 0.2]
    items = [[f"第{number}处", weight] for number, weight in enumerate(weights)]
    assert off_balance(sample(correction(checklist=items))) is None
