"""What the candidate and the judge are asked."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.core.graph import resolve
from mmconv.core.types import ANY_OBJECT, Call, Reply
from tests.mmconv.benchmarks.fbbench.samples import (
    benchmark,
    correction,
    maintenance,
    sample,
    without_data,
    write,
)
from tests.mmconv.benchmarks.prompts import text


def plan(record: dict[str, Any], prompts: Path | None = None, **options: Any) -> tuple[Call, Call]:
    """The answer and the judgement of a record that no data file has."""
    answer, judgement = without_data(prompts, **options).plan(sample(record), "preset")
    return answer, judgement


@pytest.mark.parametrize(
    ("task", "temperature"),
    [("Text Creation", 0.7), ("Text Translation", 0.7), ("Knowledge Q&A", 0.1), ("Coding", 0.0)],
)
def test_the_candidate_answers_feedback_to_the_preset_answer(task: str, temperature: float) -> None:
    answer, judgement = plan(correction(task_type=task), max_tokens=7, judge_max_tokens=8)
    assert answer.id == "turn_2"
    assert [(message.role, text(message)) for message in answer.messages] == [
        ("user", "1加1等于几？"),
        ("assistant", "等于1。"),
        ("user", "你算错了。"),
    ]
    assert (answer.sampling.temperature, answer.sampling.max_tokens) == (temperature, 7)
    assert (judgement.sampling.temperature, judgement.sampling.max_tokens) == (0.0, 8)


def test_the_judge_reads_everything_and_fills_a_form() -> None:
    _, judgement = plan(correction())
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


def test_the_schema_is_the_filled_form() -> None:
    schemas = [plan(record)[1].sampling.schema for record in (correction(), maintenance())]
    weighed, bare = (orjson.loads(schema or "") for schema in schemas)
    assert weighed["required"] == ["回答是否致歉", "回答是否为2"]
    assert weighed["additionalProperties"] is False
    entry = weighed["properties"]["回答是否致歉"]
    assert list(entry["properties"]) == entry["required"] == ["评判理由", "评判结果", "weight"]
    assert entry["properties"]["评判结果"]["enum"] == ["是", "否"]
    assert entry["properties"]["weight"] == {"type": "number", "enum": [0.3]}
    maintained = bare["properties"]["是否坚持这些是成语"]["properties"]
    assert maintained["weight"] == {"type": "null"}
    # the judge of the authors' code writes any JSON object
    exact, guided = (
        plan(correction(), judge_settings=each)[1] for each in ("code-exact", "schema")
    )
    assert {call.sampling.schema for call in (exact, *exact.fallbacks)} == {ANY_OBJECT}
    assert guided.messages == exact.messages


WHOLE = [["是否说“对不起”，或'抱歉'？\n第二行 \\ é😀", 1]]
WEIGHED = [["甲", 0.1], ['it\'s "乙"', 0.9]]


@pytest.mark.parametrize(
    "record", [correction(checklist=WHOLE), correction(checklist=WEIGHED), maintenance()]
)
def test_a_prompt_can_show_checklists_as_python(tmp_path: Path, record: dict[str, Any]) -> None:
    own = "# user\n{{query}}{{first_answer}}{{feedback}}\n{{answer|json_escaped}}\n"
    (tmp_path / "judge.md").write_text(
        f"{own}{{{{checklist|repr}}}}\n{{{{form|json4}}}}\n", "utf-8"
    )
    _, call = plan(record, tmp_path)
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
    _, judgement = planned.plan(next(planned.load()), "preset")
    assert ("抱歉，参考。" in text(judgement.messages[0])) is shown
    assert planned.notes == (f"Judged {'with' if shown else 'without'} reference answers.",)
    # a sample alone shows its reference unless an option forbids it
    [_, alone] = plan(records[0], reference=option)
    assert ("抱歉，参考。" in text(alone.messages[0])) is (option is not False)
    assert "<turn_2>" in text(plan(correction(), reference=option)[1].messages[0])
