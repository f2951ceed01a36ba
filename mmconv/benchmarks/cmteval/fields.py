"""The field names of CMT-Eval's files, and what may stand in them, with the paper's English names.

Only names live here; `mmconv.benchmarks.cmteval.data` reads the files.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Subset: TypeAlias = Literal["standard", "hard", "long-text"]

SUBSETS: Final[tuple[Subset, ...]] = ("standard", "hard", "long-text")
"""The paper's three subsets (Table 2), in its order."""

SIZES: Final[dict[Subset, tuple[int, int]]] = {
    "standard": (271, 2058),
    "hard": (262, 1941),
    "long-text": (63, 432),
}
"""Dialogues and turns of each subset as published (Table 2)."""

IDS: Final = ("origin_id", "ID")
"""The two names that a dialogue's identifier goes by; the second is Long-Text's."""

PATTERN: Final = "评测能力"
PERSONA: Final = "用户角色"
TURNS: Final = "会话内容"
NUMBER: Final = "轮次"
QUERY: Final = "用户query"
ACT: Final = "言语行为"
STRATEGY: Final = "难度设计方法"
DRAFT_REPLY: Final = "预设回复"
"""What the authors' generator imagined as the reply; no model and no judge is ever shown it."""

REPLY: Final = "模型回复"
SYNTHESIS: Final = "统筹能力"
ADAPTABILITY: Final = "适应能力"
REASONS: Final = "评分理由"
TURN_SCORE: Final = "本轮评分"
DIALOGUE_SCORE: Final = "整体评分"

PATTERNS: Final = {
    "用户反馈应对": "Feedback Handling",
    "新旧知识整合": "Information Integration",
    "上文记忆保持": "Context Tracking",
    "跨话题灵活性": "Topic Transition",
}
"""Speech act patterns (Table 1)."""

ACTS: Final = {
    "初始问题": "Initial Query",
    "补充": "Supplementation",
    "反馈": "Feedback",
    "话题转移": "Topic Shift",
    "建议": "Suggestion",
    "修改": "Modification",
    "追问": "Follow-up",
}
"""Speech acts (Table 1); several in one turn are joined by a plus sign."""

STRATEGIES: Final = {
    "A": "Global Constraints",
    "B": "Omission",
    "C": "Vagueness",
    "D": "Synthesis",
}
"""Conversational challenge strategies of the Hard subset (Table 3)."""

PERSONAS: Final = {
    "张梅": "Ms.Zhang",
    "朵朵": "Duoduo",
    "陈旭": "Mr.Chen",
    "齐业": "Mr.Qi",
    "Tina": "Tina",
    "小刘": "Mr.Liu",
    "雅婷": "Yating",
    "王刚": "Mr.Wang",
}
"""The paper's eight personas (Table 9); a file may have others, which go by their own names."""
