"""FB-Bench's judgements: what is read, what is refused, and what is counted as odd."""

import json
from typing import Any

import pytest

from judges.parsers.fbbench import ChecklistParser, Criterion
from mmconv.core.errors import Unparsed

A, B, C = "回答是否致歉", "结果是否为$\\frac{1}{2}$", "回答是否给出步骤"
WEIGHED = ChecklistParser(
    checklist=(
        Criterion(text=A, weight=0.2),
        Criterion(text=B, weight=0.5),
        Criterion(text=C, weight=0.3),
    )
)
BARE = ChecklistParser(checklist=(Criterion(text=A), Criterion(text=C)))


def entry(result: str, weight: float | None, reason: str = "有依据") -> dict[str, Any]:
    return {"评判理由": reason, "评判结果": result, "weight": weight}


def reply(**entries: dict[str, Any]) -> str:
    return json.dumps(entries, ensure_ascii=False)


FULL = reply(**{A: entry("是", 0.2), B: entry("否", 0.5), C: entry("是", 0.3)})


def test_a_full_reply_gives_every_criterion_and_no_faults() -> None:
    verdict = WEIGHED(FULL)
    assert verdict.scores == {
        "criterion 1": 1.0,
        "criterion 2": 0.0,
        "criterion 3": 1.0,
        "authors": 0.5,
        "renamed": 0,
        "missing": 0,
        "added": 0,
        "reweighted": 0,
    }
    assert verdict.rationale.splitlines()[0] == f"{A}: 有依据"
    assert verdict.missing == 0


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{FULL}\n```",
        f"好的，评判如下：\n```\n{FULL}\n```\n以上。",
        f"好的。{FULL} 以上就是我的评判。",
        FULL.replace("有依据", "第一行\n第二行"),
        FULL.replace('"是"', '" 是 "'),
        FULL.replace('"是"', '"是。"'),
        FULL.replace("有依据", "回答中的 ```{ return 0; }``` 是对的", 1),
        f"评判如下：{FULL}\n总结：{{好}}",
    ],
    ids=[
        "fenced",
        "fenced with words",
        "words around",
        "raw line break",
        "blanks",
        "full stops",
        "code in a reason",
        "braces behind it",
    ],
)
def test_decoration_is_tolerated(text: str) -> None:
    verdict = WEIGHED(text)
    assert (verdict.scores["authors"], verdict.scores["renamed"]) == (0.5, 0)


def test_a_backslash_that_json_does_not_know_is_kept() -> None:
    parser = ChecklistParser(checklist=(Criterion(text="结果是否为$\\sqrt{2}$"),))
    verdict = parser(r'{"结果是否为$\sqrt{2}$": {"评判理由": "是\\(2\\)", "评判结果": "是"}}')
    assert (verdict.scores["criterion 1"], verdict.scores["renamed"]) == (1.0, 0)
    assert "是\\(2\\)" in verdict.rationale


def test_an_escape_that_swallows_a_letter_is_a_renamed_criterion() -> None:
    """`\\frac` written with one backslash is read as a form feed: it still stands at its place."""
    verdict = WEIGHED(FULL.replace("\\\\frac", "\\frac"))
    assert (verdict.scores["criterion 2"], verdict.scores["renamed"]) == (0.0, 1)
    assert (verdict.scores["missing"], verdict.scores["added"]) == (0, 0)


@pytest.mark.parametrize(
    ("names", "found", "renamed", "missing", "added"),
    [
        ([A, C], {1, 3}, 0, 1, 0),
        ([A, "甲", C], {1, 2, 3}, 1, 0, 0),
        (["甲", B], {1, 2}, 1, 1, 0),
        (["甲", C], {3}, 0, 2, 1),
        ([A, B, C, "甲"], {1, 2, 3}, 0, 0, 1),
        ([C, B, A], {1, 2, 3}, 0, 0, 0),
        ([C, B], {2, 3}, 0, 1, 0),
        # an entry that has a criterion's name stands for no other one
        (["甲", "乙", A, B, "丙"], {1, 2, 3}, 1, 0, 2),
        (["甲", "乙", "丙"], {1, 2, 3}, 3, 0, 0),
        (["甲", "乙"], set(), 0, 3, 2),
    ],
    ids=[
        "one missing",
        "one renamed",
        "renamed before the last, which is missing",
        "which of two is renamed cannot be told",
        "one more",
        "another order",
        "another order, and one missing",
        "others around two that are kept",
        "all renamed",
        "nothing can be told",
    ],
)
def test_matching(
    names: list[str], found: set[int], renamed: int, missing: int, added: int
) -> None:
    weights = {A: 0.2, B: 0.5, C: 0.3}
    text = reply(**{name: entry("是", weights.get(name, 0.1)) for name in names})
    scores = WEIGHED(text).scores
    assert {number for number in (1, 2, 3) if f"criterion {number}" in scores} == found
    assert (scores["renamed"], scores["missing"], scores["added"]) == (renamed, missing, added)
    assert WEIGHED(text).missing == missing


def test_a_criterion_that_stands_twice_must_have_one_result() -> None:
    once, other = entry("是", 0.2), entry("否", 0.2)
    again = json.dumps(entry("是", 0.2, reason="another reason"))
    read = WEIGHED(f'{FULL[:-1]}, "{A}": {again}}}')
    assert read.scores == WEIGHED(FULL).scores
    assert f"{A}: another reason" in read.rationale
    for first, last in ((once, other), (other, once)):
        pair = f'{{"{A}": {json.dumps(first)}, "{A}": {json.dumps(last)}}}'
        with pytest.raises(Unparsed, match="occurs twice, with two results"):
            WEIGHED(pair)


def test_a_changed_weight_is_counted_and_enters_only_the_authors_score() -> None:
    scores = WEIGHED(FULL.replace("0.2", "0.4")).scores
    assert scores["reweighted"] == 1
    assert scores["authors"] == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("results", "expected"), [(("否", "否"), 0.0), (("否", "是"), 1.0), (("是", "是"), 1.0)]
)
def test_the_authors_stop_at_weightless_criteria(results: tuple[str, str], expected: float) -> None:
    text = reply(**{A: entry(results[0], None), C: entry(results[1], None)})
    assert BARE(text).scores["authors"] == expected


def test_the_authors_add_in_order_with_the_noise_of_floats() -> None:
    criteria = tuple(Criterion(text=str(n), weight=w) for n, w in enumerate((0.3, 0.4, 0.2, 0.1)))
    text = reply(**{each.text: entry("是", each.weight) for each in criteria})
    assert ChecklistParser(checklist=criteria)(text).scores["authors"] == 0.3 + 0.4 + 0.2 + 0.1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("我认为都满足。", "a JSON object"),
        ("{评判：满足}", "none that can be read"),
        ("{}", "no criterion"),
        (f"{FULL}\n更正：{FULL}", "results behind it, too"),
        (f"{FULL}\n更正：{FULL[:-1]}", "results behind it, too"),
        (FULL[:-1], "none that can be read"),
        ('{"甲": "是"}', "holds no object"),
        (reply(甲=entry("是", None, reason="")), "has no 评判理由"),
        (reply(甲=entry("部分满足", None)), "not 是 or 否"),
        (reply(甲={"评判理由": "有", "weight": None}), "not 是 or 否"),
        (reply(甲=entry("是", 0)), "not in (0, 1]"),
        (reply(甲=entry("是", 1.5)), "not in (0, 1]"),
        (reply(甲={"评判理由": "有", "评判结果": "是", "weight": "0.5"}), "not in (0, 1]"),
        (reply(甲={"评判理由": "有", "评判结果": "是", "weight": True}), "not in (0, 1]"),
        ('{"甲": ' * 100_000 + "}" * 100_000, "none that can be read"),
    ],
)
def test_what_the_authors_ask_again_for_is_refused(text: str, message: str) -> None:
    with pytest.raises(Unparsed) as refused:
        WEIGHED(text)
    assert message in str(refused.value)
