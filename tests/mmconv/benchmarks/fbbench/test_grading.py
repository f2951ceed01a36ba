"""What the candidate and the judge are asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from judges import is_settled
from mmconv.core.graph import check, resolve
from mmconv.core.types import ANY_OBJECT, Reply
from tests.mmconv.benchmarks.fbbench.samples import (
    RELEASE,
    benchmark,
    correction,
    maintenance,
    needs_release,
    write,
)
from tests.mmconv.benchmarks.prompts import text


@needs_release
def test_the_whole_release_is_591_answers_and_591_judgements() -> None:
    planned = benchmark(RELEASE)
    roles = [
        call.seat
        for sample in planned.load()
        for call in check(planned.plan(sample, planned.conditions[0]))
    ]
    assert planned.size == 591
    assert (roles.count("candidate"), roles.count("judge"), len(roles)) == (591, 591, 1182)


def test_the_candidate_sees_the_preset_answer_and_no_system_prompt(tmp_path: Path) -> None:
    planned = benchmark(write(tmp_path / "data.json", [correction()]))
    [sample] = planned.load()
    answer, _ = planned.plan(sample, "preset")
    assert answer.id == "turn_2"
    assert [(message.role, text(message)) for message in answer.messages] == [
        ("user", "1加1等于几？"),
        ("assistant", "等于1。"),
        ("user", "你算错了。"),
    ]
    assert answer.sampling.max_tokens == 4096


@pytest.mark.parametrize(
    ("task", "temperature"),
    [("Text Creation", 0.7), ("Text Translation", 0.7), ("Knowledge Q&A", 0.1), ("Coding", 0.0)],
)
def test_the_task_sets_the_temperature(tmp_path: Path, task: str, temperature: float) -> None:
    planned = benchmark(write(tmp_path / "data.json", [correction(task_type=task)]))
    [sample] = planned.load()
    answer, judgement = planned.plan(sample, "preset")
    assert answer.sampling.temperature == temperature
    assert judgement.sampling.temperature == 0.0


def test_the_judge_reads_everything_and_fills_a_form(tmp_path: Path) -> None:
    planned = benchmark(write(tmp_path / "data.json", [correction()]))
    [sample] = planned.load()
    _, judgement = planned.plan(sample, "preset")
    [message] = judgement.messages
    prompt = text(message)
    for part in (
        "1加1等于几？",
        "等于1。",
        "你算错了。",
        "<turn_2>",
        "1. 回答是否致歉（权重：0.3）",
    ):
        assert part in prompt
    form = orjson.loads(prompt.rpartition("```json\n")[2].removesuffix("\n```"))
    assert form == {
        "回答是否致歉": {"评判理由": "", "评判结果": "", "weight": 0.3},
        "回答是否为2": {"评判理由": "", "评判结果": "", "weight": 0.7},
    }
    assert [fallback.sampling.trial for fallback in judgement.fallbacks] == [1, 2]


def test_the_schema_is_the_filled_form(tmp_path: Path) -> None:
    planned = benchmark(write(tmp_path / "data.json", [correction(), maintenance()]))
    schemas = [planned.plan(sample, "preset")[1].sampling.schema for sample in planned.load()]
    weighed, bare = (orjson.loads(schema or "") for schema in schemas)
    assert weighed["required"] == ["回答是否致歉", "回答是否为2"]
    assert weighed["additionalProperties"] is False
    entry = weighed["properties"]["回答是否致歉"]
    assert list(entry["properties"]) == entry["required"] == ["评判理由", "评判结果", "weight"]
    assert entry["properties"]["评判结果"]["enum"] == ["是", "否"]
    assert entry["properties"]["weight"] == {"type": "number", "enum": [0.3]}
    maintained = bare["properties"]["是否坚持这些是成语"]["properties"]
    assert maintained["weight"] == {"type": "null"}


WHOLE = [["是否说“对不起”，或'抱歉'？\n第二行 \\ é😀", 1]]
WEIGHED = [["甲", 0.1], ['it\'s "乙"', 0.9]]


@pytest.mark.parametrize(
    "record", [correction(checklist=WHOLE), correction(checklist=WEIGHED), maintenance()]
)
def test_a_prompt_can_show_checklist_and_form_as_python_writes_them(
    tmp_path: Path, record: dict[str, Any]
) -> None:
    own = "# user\n{{query}}{{first_answer}}{{feedback}}\n{{answer|json_escaped}}\n"
    (tmp_path / "judge.md").write_text(
        f"{own}{{{{checklist|repr}}}}\n{{{{form|json4}}}}\n", "utf-8"
    )
    data = write(tmp_path / "data.json", [record])
    planned = benchmark(data, tmp_path, reference=False)
    [sample] = planned.load()
    call = planned.plan(sample, "preset")[1]
    [message] = resolve(call.messages, {"turn_2": Reply(text='说"对"\n吗')})
    checklist = record["checklist"]
    pairs = [[item, None] if isinstance(item, str) else item for item in checklist]
    form = {name: {"评判理由": "", "评判结果": "", "weight": weight} for name, weight in pairs}
    expected = [
        f"{record['user_query']}{record['origin_first_response']}{record['feedback']}",
        '说\\"对\\"\\n吗',
        repr(checklist),
        json.dumps(form, ensure_ascii=False, indent=4),
    ]
    assert message.text == "\n".join(expected)


def test_the_judge_of_the_authors_code_writes_any_json_object(tmp_path: Path) -> None:
    data = write(tmp_path / "data.json", [correction()])
    exact = benchmark(data, judge_settings="code-exact")
    [sample] = exact.load()
    judgement = exact.plan(sample, "preset")[1]
    assert [call.sampling.schema for call in (judgement, *judgement.fallbacks)] == [ANY_OBJECT] * 3
    guided = benchmark(data).plan(sample, "preset")[1]
    assert guided.messages == judgement.messages
    assert "评判理由" in (guided.sampling.schema or "")


@pytest.mark.parametrize(
    ("references", "option", "shown"),
    [(2, None, True), (1, None, False), (2, False, False), (2, True, True)],
)
def test_the_reference_is_shown_if_all_have_one_or_by_option(
    tmp_path: Path, references: int, option: bool | None, shown: bool
) -> None:
    records = [
        correction(number, reference_second_response="抱歉，参考。" if number <= references else "")
        for number in (1, 2)
    ]
    planned = benchmark(write(tmp_path / "data.json", records), reference=option)
    sample = next(planned.load())
    _, judgement = planned.plan(sample, "preset")
    assert ("抱歉，参考。" in text(judgement.messages[0])) is shown
    assert planned.facts["reference"] is shown
    assert planned.notes == (f"Judged {'with' if shown else 'without'} reference answers.",)


def test_a_judgement_that_was_cut_off_is_read_if_its_object_is_whole(tmp_path: Path) -> None:
    planned = benchmark(write(tmp_path / "data.json", [correction()]))
    [sample] = planned.load()
    _, call = planned.plan(sample, "preset")
    form = {
        each.text: {"评判理由": "有", "评判结果": "是", "weight": each.weight}
        for each in sample.checklist
    }
    whole = orjson.dumps(form, option=orjson.OPT_INDENT_2).decode()
    for said, settled in ((whole, True), (f"{whole}\n以上", True), (whole[:-1], False)):
        assert is_settled(call, Reply(text=said, finish="length")) == settled
    del form[sample.checklist[1].text]
    assert not is_settled(call, Reply(text=orjson.dumps(form).decode()))
