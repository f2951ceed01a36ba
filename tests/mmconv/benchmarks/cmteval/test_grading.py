"""What the candidate is asked, and what the judge is shown of it."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.benchmarks.base.replay import Rescoring
from mmconv.benchmarks.cmteval.benchmark import JUDGEMENT_TOKENS
from mmconv.benchmarks.cmteval.data import Dialogue
from mmconv.benchmarks.readers.cmteval import read_judged
from mmconv.cli.shared.session import exit_code
from mmconv.core.config import ModelSpec
from mmconv.core.graph import resolve
from mmconv.core.types import Call, Ref, Reply, Sampling
from mmconv.report.costs import estimate_tokens
from tests.mmconv.benchmarks.cmteval.dialogues import REAL, built, loaded, spec, write_folder
from tests.mmconv.report.runs import evaluate

PUBLISHED = REAL / "eval_long-text_llama3.1-8b.json"
SLOTS = ("conversation", "summary", "qa_pairs")
REPLIES = {f"turn_{number}": Reply(text=f"答{number}") for number in (1, 2, 3)}


def plans(folder: Path, **options: Any) -> dict[str, tuple[Dialogue, tuple[Call, ...]]]:
    benchmark = built(folder, **options)
    return {sample.id: (sample, benchmark.calls(sample, "free")) for sample in benchmark.load()}


def test_the_history_is_the_models_own_without_a_system_prompt(tmp_path: Path) -> None:
    _, calls = plans(write_folder(tmp_path))["standard/1"]
    assert [call.id for call in calls] == ["turn_1", "turn_2", "turn_3", "judge"]
    third = calls[2]
    assert [message.role for message in third.messages] == ["user", "assistant"] * 2 + ["user"]
    assert third.messages[1].parts == (Ref(call="turn_1"),)
    assert third.messages[3].parts == (Ref(call="turn_2"),)
    assert third.sampling == Sampling(temperature=0.2, max_tokens=8000)
    assert (calls[0].expected_tokens, calls[-1].expected_tokens) == (None, 3 * JUDGEMENT_TOKENS)
    assert "不给任何人看" not in "".join(message.text for message in third.messages)


def test_a_long_text_is_for_the_model_and_not_for_the_judge(tmp_path: Path) -> None:
    _, calls = plans(write_folder(tmp_path))["long-text/1"]
    assert calls[0].messages[0].text == "很长的文章\n文章讲了什么？"
    text = "".join(message.text for message in resolve(calls[-1].messages, REPLIES))
    assert "很长的文章" not in text
    assert "轮次 1 - 用户: 文章讲了什么？\n模型: 答1\n言语行为: 初始问题\n轮次 2" in text
    assert "一篇文章的摘要" in text
    assert '"answer": "风筝。"' in text


def test_the_judge_reads_every_turn_with_its_speech_acts(tmp_path: Path) -> None:
    _, calls = plans(write_folder(tmp_path))["hard/1"]
    text = resolve(calls[-1].messages, REPLIES)[-1].text
    assert text.count("\n模型: 答") == 3
    assert text.count("言语行为: ") == 3
    assert "言语行为: 建议+反馈\n⟦会话结束⟧" in text
    assert "难度" not in text


def test_the_judge_draws_as_the_paper_says_or_as_the_scripts_do(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    paper = Sampling(temperature=0.0, top_p=0.1, max_tokens=8192)
    for _, calls in plans(folder).values():
        assert calls[-1].sampling == paper
    scripts = plans(folder, judge_settings="code", judge_max_tokens=20000)
    assert scripts["long-text/1"][1][-1].sampling == Sampling(temperature=0.1, max_tokens=20000)
    for key in ("standard/1", "hard/1"):
        assert scripts[key][1][-1].sampling == Sampling(
            temperature=0.0, top_p=0.1, seed=12, max_tokens=20000
        )
    exact = plans(folder, judge_settings="code-exact")
    for key, (_, calls) in scripts.items():
        assert exact[key][1][-1].sampling == calls[-1].sampling


def test_a_prompt_can_show_the_conversation_inside_json(tmp_path: Path) -> None:
    inside = {name: f"<{name}>{{{{{name}|json_escaped}}}}</{name}>" for name in SLOTS}
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    for name, slots in (("judge_dialogue", SLOTS[:1]), ("judge_long_text", SLOTS)):
        shown = ",\n".join(f'  "{slot}": "{inside[slot]}"' for slot in slots)
        (prompts / f"{name}.md").write_text(f"# user\n请打分 {{\n{shown}\n}}\n", "utf-8")
    folder = write_folder(tmp_path / "data")
    benchmark = loaded(spec(folder).model_copy(update={"prompts": prompts}))
    replies = {call: Reply(text=f'{each.text}："好"\n\\t\t😀') for call, each in REPLIES.items()}
    for sample in benchmark.load():
        call = benchmark.calls(sample, "free")[-1]
        queries = [turn.query.rpartition("\n")[2] for turn in sample.turns]
        lines = [
            f"轮次 {n} - 用户: {queries[n - 1]}\n模型: {replies[f'turn_{n}'].text}\n"
            f"言语行为: {sample.turns[n - 1].label}"
            for n in (1, 2, 3)
        ]
        values = {"conversation": "\n".join(lines)}
        if sample.reference is not None:
            values |= {"summary": sample.reference.summary, "qa_pairs": sample.reference.qa_pairs}
        whole = {name: f"<{name}>{value}</{name}>" for name, value in values.items()}
        [message] = resolve(call.messages, replies)
        assert message.text == "请打分 " + json.dumps(whole, ensure_ascii=False, indent=2)


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="the authors' data are not here")
def test_the_expected_length_is_that_of_published_judgements() -> None:
    judged = read_judged(PUBLISHED, "long-text", Rescoring())
    tokens = sum(estimate_tokens(reply) for _, reply in judged)
    assert round(tokens / 432) == JUDGEMENT_TOKENS


async def test_missing_turns_retry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    closing = '{"评估结果": [{"轮次": "1", "统筹能力": {rating}, "适应能力": 5}]}'
    options = {"lowest": 1, "highest": 5, "closing": {"统筹能力": closing}}
    judge = ModelSpec(provider="fake", model="judge", options=options)
    run = spec(write_folder(tmp_path / "data"), judge_retries=1)
    run = run.model_copy(update={"models": {**run.models, "judge": judge}})
    result = await evaluate(run, tmp_path / "runs")
    assert result.stats.models["judge"].requested == 12
    assert +result.quality.judged() == {"incomplete": 6}
    lines = (result.folder / "transcripts.jsonl").read_bytes().splitlines()
    judged = [call for call in map(orjson.loads, lines) if call["model"] == "judge"]
    assert {call["parse"] for call in judged} == {"incomplete: lacks 4"}
    [table] = [table for table in result.tables if table.name == "scores"]
    assert table.rows["echo, standard"]["DLS"].missing == {"missing in the judgement": 2}
    assert exit_code(result, store="") == 1
    assert "100.0% of the verdicts could not be read, or not in full" in capsys.readouterr().err
    assert exit_code(result, store="", max_failures=1.0) == 0
