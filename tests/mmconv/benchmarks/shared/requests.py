"""Requests for a judgement by each prompt of each benchmark, and the models that read them."""

from __future__ import annotations

from typing import Any

from mmconv.benchmarks.convbench.judgements import ConvBenchJudgement
from mmconv.benchmarks.mtbench101.judgements import MTBench101Judgement
from mmconv.benchmarks.mtbench101.taxonomy import REFERENCED, TASKS

from mmconv.benchmarks.botchat.judgements import BotChatJudgement
from mmconv.benchmarks.cmteval.benchmark import CMTEvalJudgement
from mmconv.benchmarks.fbbench.judgements import FBBenchJudgement
from mmconv.benchmarks.shared.judgements import JudgementRequest

KINDS: dict[str, type[JudgementRequest]] = {
    "botchat": BotChatJudgement,
    "cmteval": CMTEvalJudgement,
    "convbench": ConvBenchJudgement,
    "fbbench": FBBenchJudgement,
    "mtbench101": MTBench101Judgement,
}

KITES = [
    {"user": "What is it?", "assistant": "Four kites.", "reference": "A kite."},
    {"user": "Why?", "assistant": "There is wind.", "reference": "For fun."},
    {"user": "Write a slogan.", "assistant": "Up, up!", "reference": "Fly high!"},
]
CHAT = ["Is this seat taken?", "No, go ahead.", "The train is packed.", "It always is."]

CONVBENCH: dict[str, Any] = {"benchmark": "convbench", "turns": KITES, "caption": "A red kite."}
FBBENCH: dict[str, Any] = {
    "benchmark": "fbbench",
    "prompt": "judge",
    "scenario": "Error Correction",
    "turns": [
        {"user": "3 + 4?", "assistant": "8."},
        {"user": "No, count again.", "assistant": "You are right, it is 7."},
    ],
    "checklist": [{"text": "says 7", "weight": 0.75}, {"text": "owns up", "weight": 0.25}],
}
MAINTENANCE: dict[str, Any] = {
    **FBBENCH,
    "scenario": "Response Maintenance",
    "checklist": [{"text": "stays with 7"}],
    "reference": "It is 7 all the same.",
}
CMTEVAL: dict[str, Any] = {
    "benchmark": "cmteval",
    "prompt": "judge_dialogue",
    "turns": [
        {"user": "推荐一本书。", "assistant": "《活着》。", "act": "初始问题"},
        {"user": "太沉重了。", "assistant": "那就《边城》。", "act": "反馈+建议"},
    ],
}
LONG_TEXT: dict[str, Any] = {
    "benchmark": "cmteval",
    "prompt": "judge_long_text",
    "turns": [{"user": "很长的文章。\n讲了什么?", "assistant": "一场雨。", "act": "初始问题"}],
    "summary": "一场雨。",
    "qa_pairs": '[{"q": "下了什么?", "a": "雨"}]',
}
PAIR: dict[str, Any] = {
    "benchmark": "botchat",
    "utterances": CHAT,
    "other": [*CHAT[:3], "Terribly."],
}


def _mtbench101(code: str) -> dict[str, Any]:
    turns = [
        {"user": f"Question {number}", "assistant": f"Answer {number}"} for number in (1, 2, 3)
    ]
    request = {"benchmark": "mtbench101", "prompt": code, "turns": turns}
    return request | ({"reference": "The golden answer."} if code in REFERENCED else {})


def _convbench(prompt: str) -> dict[str, Any]:
    more: dict[str, Any] = {"side": "B"} if prompt.startswith("pairwise") else {}
    return {**CONVBENCH, "prompt": prompt, **more}


REQUESTS: dict[str, dict[str, Any]] = {
    **{
        f"convbench/{prompt}": _convbench(prompt)
        for grading in ("direct", "pairwise")
        for prompt in (*(f"{grading}_turn_{turn}" for turn in (1, 2, 3)), f"{grading}_overall")
    },
    "convbench/focus_points": {**_convbench("direct_turn_3"), "focus_points": "A slogan?"},
    "convbench/judgements": {
        **_convbench("pairwise_overall"),
        "judgements": ["A is better.", "B is better.", "A again."],
    },
    "fbbench/correction": FBBENCH,
    "fbbench/maintenance": MAINTENANCE,
    "cmteval/judge_dialogue": CMTEVAL,
    "cmteval/judge_long_text": LONG_TEXT,
    "botchat/unieval": {"benchmark": "botchat", "prompt": "unieval", "utterances": CHAT},
    "botchat/gteval": {**PAIR, "prompt": "gteval"},
    "botchat/paireval": {**PAIR, "prompt": "paireval", "order": "2"},
    **{f"mtbench101/{code}": _mtbench101(code) for code in TASKS},
}
"""Name -> a request without its judge."""


def request(document: dict[str, Any], **fields: Any) -> JudgementRequest:
    """The document as its benchmark reads it; the judge is `judge`."""
    return KINDS[document["benchmark"]].model_validate({"judge": "judge", **document, **fields})
