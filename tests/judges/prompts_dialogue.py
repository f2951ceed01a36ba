"""The prompts for a client's own dialogue: the slots of each file, and what fills them."""

from __future__ import annotations

from judges.template import Slot
from mmconv.core.types import Image, Ref

TURN = frozenset({"material", "number"})
WHOLE = frozenset({"material"})

SLOTS: dict[str, dict[str, frozenset[str]]] = {
    "dialogue": {
        "direct_turn": TURN,
        "direct_turn_without_reference": TURN,
        "direct_overall": WHOLE,
        "direct_overall_without_references": WHOLE,
        "pairwise_turn": TURN,
        "pairwise_overall": WHOLE,
        "description": frozenset({"before", "caption"}),
        "turn": frozenset({"before", "number", "instruction", "answer"}),
        "side": frozenset({"before", "side", "turns"}),
        "reference": frozenset({"before", "number", "reference"}),
        "focus_points": frozenset({"before", "number", "focus_points"}),
    }
}
"""The slots that each shipped prompt has, and that the benchmark fills."""

PICTURE = Image(sha256="ab" * 32, media_type="image/png", width=640, height=480)

VALUES: dict[str, Slot] = {
    "material": ("\n⟦instruction 1⟧\nHow many kites?\n⟦end of instruction 1⟧",),
    "before": (PICTURE, "\n⟦image description⟧\nKites over a beach.\n⟦end of image description⟧"),
    "caption": "Three red kites and one blue kite fly over a beach.",
    "number": "2",
    "instruction": "Why might the beach be a good place for kites?",
    "answer": Ref(call="turn_2"),
    "side": "A",
    "turns": ("\n⟦answer 1⟧\n", Ref(call="turn_1"), "\n⟦end of answer 1⟧"),
    "reference": "Wind off the sea meets nothing that slows it down.",
    "focus_points": "1. Does it name the wind?",
}
