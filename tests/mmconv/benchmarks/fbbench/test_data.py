"""FB-Bench's data file: what is read, and which problems stop a run before it costs anything."""

import math
from pathlib import Path
from typing import Any

import pytest

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
    assert (release.size, release.options.reference) == (591, False)
    assert release.provenance["left_out"] == []
    samples = list(release.load())
    assert len({each.id for each in samples}) == 591
    assert sum(each.bench_type == "Error Correction" for each in samples) == 281
    assert sum(each.reference_second_response is not None for each in samples) == 194


def test_a_criterion_may_be_a_text_a_list_or_weighted() -> None:
    """The paper's Figure 11 shows a criterion without a weight as a list of one."""
    bare = sample(maintenance(checklist=[["是否坚持"], ["是否解释", None], "是否"])).checklist
    assert [(each.text, each.weight) for each in bare] == [
        ("是否坚持", None),
        ("是否解释", None),
        ("是否", None),
    ]
    [weighted] = sample(correction(checklist=[["甲", 1]])).checklist
    assert (weighted.text, weighted.weight) == ("甲", 1)


def test_the_id_depends_on_the_query_alone() -> None:
    assert sample(correction()).id == sample(correction(id=7, feedback="不对。")).id
    assert sample(correction(1)).id == "d5e503708829"
    others = (correction(2), correction(user_query=" 1加1等于几？"))
    assert sample(correction(1)).id not in [sample(other).id for other in others]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"user_query": "  "}, "user_query is empty"),
    ({"origin_first_response": [3]}, "origin_first_response holds [3], which is not text"),
    ({"bench_type": "EC"}, "bench_type: Input should be 'Error Correction' or 'Response Mai"),
    ({"task_type": "Chess"}, "task_type: Input should be 'Mathematics', 'Reasoning', 'Coding'"),
    ({"feedback_type": "Misinformation"}, "feedback_type: Input should be a valid tuple"),
    ({"error_type": ["A", ""]}, "error_type[2]: String should have at least 1 character"),
    ({"checklist": []}, "checklist: Tuple should have at least 1 item"),
    ({"checklist": [["甲", 0.5], ["乙", 0.4]]}, "checklist: the weights must sum to 1, got 0.9"),
    (
        {"checklist": [["甲", 1.0], ["", 0.1]]},
        "checklist[2]: must be a text or [text, weight], got ['', 0.1]",
    ),
    ({"checklist": ["甲"]}, "checklist[1]: the weight must be in (0, 1], got None"),
    ({"checklist": [["甲", 0], ["乙", 1]]}, "checklist[1]: the weight must be in (0, 1], got 0"),
    (
        {"checklist": [["甲", "1"]]},
        "checklist[1]: must be a text or [text, weight], got ['甲', '1']",
    ),
    ({"checklist": [["甲", True]]}, "must be a text or [text, weight], got ['甲', True]"),
    ({"checklist": [["甲", 0.5], ["甲", 0.5]]}, "checklist[2]: is listed twice"),
    ({"bench_type": "Response Maintenance"}, "checklist[1]: response maintenance has no weights"),
    ({"reference_second_response": [5]}, "reference_second_response holds [5]"),
    ({"user_query": maintenance()["user_query"]}, "id is that of data.json item 1"),
]


@pytest.mark.parametrize(("fields", "message"), BAD, ids=[message for _, message in BAD])
def test_a_malformed_record_is_named(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "data.json", [maintenance(), correction(**fields)])
    with pytest.raises(DataError) as refused:
        benchmark(path)
    [problem] = refused.value.problems
    assert problem.startswith("data.json item 2")
    assert message in problem


def test_a_judge_that_must_read_references_needs_them(tmp_path: Path) -> None:
    records = [correction(1, reference_second_response="好"), correction(2)]
    path = write(tmp_path / "data.json", records)
    with pytest.raises(
        DataError, match=r"item 2 \(id .*\): reference_second_response: empty"
    ) as refused:
        benchmark(path, reference=True)
    assert "options.reference=false judges without it" in str(refused.value)
    assert benchmark(path, reference=True, generate_only=True).size == 2
    # the same samples run whether a judge comes now or later
    left = benchmark(path, reference=True, generate_only=True, skip_bad_records=True)
    assert left.size == 1


def test_sums_are_exact_enough_for_decimal_weights() -> None:
    weights = [0.01, 0.29, 0.7]
    assert math.fsum(weights) != 1.0
    items = [[f"第{number}处", weight] for number, weight in enumerate(weights)]
    assert sample(correction(checklist=items)).wrong_sum is None
