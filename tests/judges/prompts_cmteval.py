"""CMT-Eval's prompts: the slots of each file, and one made-up sample that fills them."""

from __future__ import annotations

from judges.template import Slot
from mmconv.core.types import Ref

SLOTS: dict[str, dict[str, frozenset[str]]] = {
    "cmteval": {
        "judge_dialogue": frozenset({"conversation"}),
        "judge_long_text": frozenset({"summary", "qa_pairs", "conversation"}),
    }
}
"""The slots that each shipped prompt has, and that a benchmark fills."""

VALUES: dict[str, Slot] = {
    "summary": "文章介绍了一座海边小城如何用旧渔网做成风筝，并因此有了风筝节。",
    "qa_pairs": '[{"question": "风筝是用什么做的？", "answer": "旧渔网和竹条。"}]',
    "conversation": (
        "轮次 1 - 用户: 风筝是用什么zuo的？\n模型: ",
        Ref(call="turn_1"),
        "\n言语行为: 初始问题",
        "\n轮次 2 - 用户: 说得太长了，能短一点吗？再说说风筝节什么时候办。\n模型: ",
        Ref(call="turn_2"),
        "\n言语行为: 建议+追问",
    ),
}
