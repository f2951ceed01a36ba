"""Judgements of finished dialogues: asked and read as in a run, and refused with the field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mmconv.benchmarks.mtbench101.data import Dialogue, GoldenTurn
from mmconv.benchmarks.mtbench101.grading import Grader as MTBench101Grader
from mmconv.benchmarks.mtbench101.options import GradingOptions as MTBench101Grading
from mmconv.benchmarks.mtbench101.taxonomy import REFERENCED, TASKS
from pydantic import ValidationError

from judges import PromptSet
from judges.parsers.fbbench import REASON, RESULT, WEIGHT
from mmconv.benchmarks.botchat.grading import Grader as BotChatGrader
from mmconv.benchmarks.cmteval.benchmark import GradingOptions as CMTEvalGrading
from mmconv.benchmarks.cmteval.benchmark import judge_call
from mmconv.benchmarks.cmteval.data import Dialogue as SpokenDialogue
from mmconv.benchmarks.cmteval.data import UserTurn
from mmconv.benchmarks.shared.judgements import (
    Judgement,
    JudgementRequest,
    Supplies,
    read_judgement,
)
from mmconv.benchmarks.shared.options import describe
from mmconv.core.graph import check, refs, resolve
from mmconv.core.keys import content_key
from mmconv.core.types import Call, Outcome, Reply, Sampling, Text
from tests.mmconv.benchmarks.convbench.rows import PICTURE, ROW
from tests.mmconv.benchmarks.convbench.rows import grader as convbench_grader
from tests.mmconv.benchmarks.shared.requests import (
    CHAT,
    CMTEVAL,
    FBBENCH,
    KINDS,
    KITES,
    REQUESTS,
    request,
)


def supplies(each: JudgementRequest) -> Supplies:
    return Supplies(prompts=PromptSet(each.benchmark))


def made(document: dict[str, Any], **fields: Any) -> Call:
    asked = request(document, **fields)
    assert list(asked.faults()) == []
    return asked.call(supplies(asked))


def key(call: Call, replies: Mapping[str, Reply] | None = None) -> str:
    return content_key("", resolve(call.messages, replies or {}), call.sampling)


def judged(document: dict[str, Any], *texts: str) -> Judgement:
    """The judgement that these replies make: to the call, then to its rescues."""
    asked = request(document)
    call = asked.call(supplies(asked))
    outcomes: dict[str, Outcome] = {
        each.id: Reply(text=text) for each, text in zip((call, *call.rescues), texts, strict=False)
    }
    return read_judgement(asked, call, outcomes)


@pytest.mark.parametrize("benchmark", KINDS)
def test_a_judgement_is_asked_by_default_as_a_run_asks_it(benchmark: str) -> None:
    asked, run = KINDS[benchmark].model_fields, describe(benchmark).options.model_fields
    for name in ("max_tokens", "retries"):
        assert asked[name].default == run[f"judge_{name}"].default


@pytest.mark.parametrize("name", REQUESTS)
def test_a_call_waits_for_nothing_and_its_rescues_only_for_it(name: str) -> None:
    call = made(REQUESTS[name])
    check([call])
    assert not list(refs(call.messages))
    assert all(set(refs(rescue.messages)) <= {call.id} for rescue in call.rescues)


@pytest.mark.parametrize("name", ["direct/turn_2", "direct/overall", "pairwise_B/turn_3"])
def test_convbench_asks_what_a_run_asks(name: str) -> None:
    grader = convbench_grader(order="authors", positions="pairwise.npy", turn_judgements=False)
    run = {call.id: call for call in grader.calls(ROW, "free")}[name]
    said = {
        f"turn_{number}": Reply(text=str(turn["assistant"]))
        for number, turn in enumerate(KITES, start=1)
    }
    document = REQUESTS[f"convbench/{name.replace('/', '_').replace('_B', '')}"]
    creation = {"focus_points": ROW.focus_points} if name.endswith("3") else {}
    assert key(made(document, max_tokens=512, **creation)) == key(run, said)


def test_convbench_shows_the_judge_a_picture_only_if_there_is_one() -> None:
    asked = request(REQUESTS["convbench/direct_turn_1"])
    plain = asked.call(Supplies(prompts=PromptSet("convbench")))
    shown = asked.call(Supplies(prompts=PromptSet("convbench"), picture=PICTURE))
    assert all(isinstance(part, Text) for part in plain.messages[-1].parts)
    assert shown.messages[-1].parts[0] == PICTURE


def test_convbench_reads_the_judgements_of_turns_where_they_are_given() -> None:
    call = made(REQUESTS["convbench/judgements"])
    assert str(call.prompt).startswith("pairwise_overall@")
    assert "B is better." in call.messages[-1].text
    alone = made(REQUESTS["convbench/pairwise_overall"])
    assert str(alone.prompt).startswith("pairwise_overall_without_judgements@")


def test_the_overlap_measure_has_prompts_of_its_own() -> None:
    asked = request(REQUESTS["convbench/direct_turn_1"])
    call = asked.call(Supplies(prompts=PromptSet("convbench_reference"), offline=True))
    assert call.messages[0].parts == (Text(text="direct turn 1"),)
    assert call.rescues == ()


@pytest.mark.parametrize("code", TASKS)
def test_mtbench101_asks_what_a_run_asks(code: str) -> None:
    document = REQUESTS[f"mtbench101/{code}"]
    golden = "The golden answer." if code in REFERENCED else "unread"
    history = [GoldenTurn(user=turn["user"], bot=turn["assistant"]) for turn in document["turns"]]
    history[-1] = GoldenTurn(user=history[-1].user, bot=golden)
    dialogue = Dialogue(id="1", task=TASKS[code], history=tuple(history))
    grader = MTBench101Grader(options=MTBench101Grading(), prompts=PromptSet("mtbench101"))
    *_, run = grader.calls(dialogue, "golden")
    assert key(made(document), {}) == key(run, {"turn_3": Reply(text="Answer 3")})


def test_cmteval_asks_what_a_run_asks() -> None:
    turns = tuple(
        UserTurn(number=number, query=turn["user"], label=turn["act"])
        for number, turn in enumerate(CMTEVAL["turns"], start=1)
    )
    dialogue = SpokenDialogue(subset="standard", id="1", turns=turns)
    run = judge_call(dialogue, PromptSet("cmteval"), CMTEvalGrading())
    said = {"turn_1": Reply(text="《活着》。"), "turn_2": Reply(text="那就《边城》。")}
    assert key(made(CMTEVAL)) == key(run, said)


def test_answers_that_are_there_are_escaped_as_replies_are(tmp_path: Path) -> None:
    (tmp_path / "judge.md").write_text(
        "# user\n{{query}}{{first_answer}}{{feedback}}{{checklist}}{{form}}\n"
        '"{{answer|json_escaped}}"\n'
    )
    answer = 'It is "7":\n\\o/'
    turns = [FBBENCH["turns"][0], {**FBBENCH["turns"][1], "assistant": answer}]
    asked = request({**FBBENCH, "turns": turns})
    call = asked.call(Supplies(prompts=PromptSet("fbbench", tmp_path)))
    assert call.messages[-1].text.endswith("\n" + json.dumps(answer))


def test_botchat_asks_what_a_run_asks() -> None:
    grader = BotChatGrader(
        prompts=PromptSet("botchat"), sampling=Sampling(max_tokens=1024), retries=1
    )
    run = grader.alone([Text(text=each) for each in CHAT])
    assert key(made(REQUESTS["botchat/unieval"])) == key(run)


def test_a_rating() -> None:
    found = judged(REQUESTS["convbench/direct_turn_1"], "It miscounts.\nRating: 4")
    assert (found.state, found.metric, found.score, found.choice) == ("parsed", "rating", 4, None)
    assert found.rationale == "It miscounts."
    assert found.why is None
    assert [reply.call for reply in found.replies] == ["direct/turn_1"]


@pytest.mark.parametrize(("side", "score"), [("A", 1.0), ("B", 0.0)])
def test_a_comparison_is_won_on_the_side_of_the_answers(side: str, score: float) -> None:
    document = {**REQUESTS["convbench/pairwise_turn_1"], "side": side}
    found = judged(document, "Both see it.\nOverall, Response A is better.")
    assert (found.metric, found.score, found.choice) == ("win", score, "A")


def test_the_second_reply_is_read_where_the_first_cannot_be() -> None:
    found = judged(REQUESTS["mtbench101/AR"], "I like it.", "Fine. Rating: [[8]]")
    assert (found.state, found.score) == ("parsed", 8)
    assert [reply.text for reply in found.replies] == ["I like it.", "Fine. Rating: [[8]]"]


@pytest.mark.parametrize("name", REQUESTS)
def test_what_cannot_be_read_has_no_score_but_a_reason(name: str) -> None:
    found = judged(REQUESTS[name], "I would rather not say.")
    assert found.state == "unparsed"
    assert found.score is None
    assert found.why == "unparsed"


def test_a_checklist_adds_up_its_weights() -> None:
    entries = {
        "says 7": {REASON: "It does.", RESULT: "是", WEIGHT: 0.75},
        "owns up": {REASON: "It does not.", RESULT: "否", WEIGHT: 0.25},
    }
    found = judged(FBBENCH, str(entries).replace("'", '"'))
    assert (found.metric, found.score) == ("score", 0.75)
    assert {each.metric: each.value for each in found.scores}["missing"] == 0


def test_a_dialogue_is_scored_by_turn() -> None:
    text = """{"评估结果": [
        {"轮次": "1", "统筹能力": 4, "适应能力": 5, "评分理由": "好"},
        {"轮次": "2", "统筹能力": 3, "适应能力": 4, "评分理由": "可"}]}"""
    found = judged(CMTEVAL, text)
    assert (found.metric, found.score) == ("DLS", 4.0)
    by_turn = {each.turn: each.value for each in found.scores if each.metric == "TLS"}
    assert by_turn == {1: 4.5, 2: 3.5}


def test_utterances_are_counted_and_pairs_have_points() -> None:
    found = judged(REQUESTS["botchat/unieval"], "Choice: Yes\nIndex: 3\nReason: stiff")
    assert (found.metric, found.score, found.choice) == ("human", 2, "yes")
    lost = judged(REQUESTS["botchat/gteval"], "Choice: Conversation 1\nReason: stiff")
    assert (lost.metric, lost.score, lost.choice) == ("duel", -3, "first")
    won = judged(REQUESTS["botchat/paireval"], "Choice: Conversation 1\nReason: stiff")
    assert won.score == 3


@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        ("convbench/direct_turn_1", {"side": "A"}, "side"),
        ("convbench/pairwise_turn_1", {"side": None}, "side"),
        ("convbench/direct_turn_1", {"focus_points": "A slogan?"}, "focus_points"),
        ("convbench/direct_turn_1", {"judgements": ["a", "b", "c"]}, "judgements"),
        ("mtbench101/MR", {"reference": None}, "reference"),
        ("mtbench101/CM", {"reference": "no"}, "reference"),
        ("mtbench101/CM", {"turns": [{"user": "a", "assistant": "b"}]}, "turns"),
        ("fbbench/correction", {"checklist": [{"text": "a", "weight": 0.5}]}, "checklist"),
        ("fbbench/maintenance", {"checklist": [{"text": "a"}, {"text": "a"}]}, "checklist"),
        ("cmteval/judge_dialogue", {"summary": "x"}, "summary"),
        ("cmteval/judge_long_text", {"qa_pairs": None}, "qa_pairs"),
        ("botchat/unieval", {"other": ["a"]}, "other"),
        ("botchat/unieval", {"order": "2"}, "order"),
        ("botchat/gteval", {"other": None}, "other"),
    ],
)
def test_what_a_prompt_lacks_or_does_not_read_is_told(
    name: str, change: dict[str, Any], field: str
) -> None:
    assert [where for where, _ in request(REQUESTS[name], **change).faults()] == [field]


def test_an_unknown_act_and_a_text_without_question_are_told() -> None:
    turns = [{**CMTEVAL["turns"][0], "act": "初始问题+闲聊"}]
    assert [where for where, _ in request(CMTEVAL, turns=turns).faults()] == ["turns[0].act"]
    document = REQUESTS["cmteval/judge_long_text"]
    turns = [{**document["turns"][0], "user": "没有问题"}]
    assert [where for where, _ in request(document, turns=turns).faults()] == ["turns[0].user"]


@pytest.mark.parametrize("change", [{"retries": 9}, {"paint": "red"}, {"prompt": "best"}])
def test_types_are_strict(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        request(REQUESTS["convbench/direct_turn_1"], **change)
