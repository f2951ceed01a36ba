"""MT-Bench-101's prompts: the slots of each file, and one made-up sample that fills them.

What the judge of each task reads in the end is under `tests/mmconv/benchmarks/mtbench101`.
"""

from __future__ import annotations

from judges.template import Slot
from mmconv.benchmarks.mtbench101 import TASKS
from mmconv.core.types import Ref

JUDGED = frozenset({"criteria", "history", "question", "answer"})
GUIDED = JUDGED | {"guidelines"}

SLOTS: dict[str, dict[str, frozenset[str]]] = {
    "mtbench101": {
        "judge": GUIDED,
        "judge_without_guidelines": JUDGED,
        "judge_with_reference": GUIDED | {"reference"},
        "judge_with_reference_without_guidelines": JUDGED | {"reference"},
        "turn": frozenset({"history", "user", "answer"}),
    }
    | {f"{part}_{task}": frozenset() for part in ("criteria", "guidelines") for task in TASKS}
}
"""The slots that each shipped prompt has, and that a benchmark fills."""

VALUES: dict[str, Slot] = {
    "criteria": "1. Count: every animal that was named is counted.\n2. Reason: the count is shown.",
    "guidelines": "- 1-3: Miscounted.\n- 4-6: Nearly.\n- 7-9: Counted.\n- 10: Counted and shown.",
    "history": "\n⟦user⟧\nI have two cats and a goose.\n⟦assistant⟧\nA lively home!",
    "user": "How many legs is that?",
    "question": "How many legs is that?",
    "answer": Ref(call="turn_2"),
    "reference": "2 x 4 + 2 = 10 legs.",
}
