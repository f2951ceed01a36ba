"""FB-Bench's prompts: the slots of each file, and one made-up sample that fills them."""

from __future__ import annotations

from judges.parsers.fbbench import Criterion, draw_form, list_criteria
from judges.template import Slot
from mmconv.core.types import Ref

JUDGED = frozenset({"query", "first_answer", "feedback", "answer", "checklist", "form"})

SLOTS: dict[str, dict[str, frozenset[str]]] = {
    "fbbench": {"judge": JUDGED, "judge_with_reference": JUDGED | {"reference"}}
}
"""The slots that each shipped prompt has, and that a benchmark fills."""

CHECKLIST = (
    Criterion(text="回答是否承认第一轮回答的结果有误", weight=0.2),
    Criterion(text="回答是否给出正确结果 $\\frac{3}{4}$", weight=0.5),
    Criterion(text="回答是否写出通分的步骤", weight=0.3),
)

VALUES: dict[str, Slot] = {
    "query": "一块蛋糕，小明吃了二分之一，小红吃了四分之一，两人一共吃了多少？",
    "first_answer": "$\\frac{1}{2}+\\frac{1}{4}=\\frac{2}{6}$，所以一共吃了三分之一。",
    "feedback": "不对吧，两个人加起来怎么比小明一个人还少？",
    "answer": Ref(call="turn_2"),
    "reference": (
        "您说得对，我不该把分母直接相加。先通分：$\\frac{1}{2}=\\frac{2}{4}$，"
        "再相加：$\\frac{2}{4}+\\frac{1}{4}=\\frac{3}{4}$。两人一共吃了四分之三。"
    ),
    "checklist": list_criteria(CHECKLIST),
    "form": draw_form(CHECKLIST),
}
