"""ConvBench's prompts: the slots of each file, and one made-up sample that fills them."""

from __future__ import annotations

from judges.template import Slot
from mmconv.core.types import Image, Ref

TURNS = ("1", "2", "3")
CONVERSATIONS = frozenset(
    {"caption"} | {f"{name}_{turn}" for name in ("instruction", "a", "b") for turn in TURNS}
)
GRADED = frozenset(
    {"caption"}
    | {f"{name}_{turn}" for name in ("instruction", "answer", "reference") for turn in TURNS}
)
INSTRUCTIONS = frozenset(f"instruction_{turn}" for turn in TURNS)
JUDGEMENTS = frozenset(f"judgement_{turn}" for turn in TURNS)

JUDGE_SLOTS: dict[str, frozenset[str]] = {
    f"{scheme}_{name}": slots | extra
    for scheme, slots in (("pairwise", CONVERSATIONS), ("direct", GRADED))
    for name, extra in {
        "turn_1": frozenset[str](),
        "turn_2": frozenset[str](),
        "turn_3": frozenset({"focus_points"}),
        "turn_3_without_focus_points": frozenset[str](),
        "overall": JUDGEMENTS,
        "overall_without_judgements": frozenset[str](),
    }.items()
} | {"pairwise_skipped_turn": frozenset({"human"})}
EXTRACTION_SLOTS = dict.fromkeys(("pairwise_extract", "direct_extract"), frozenset({"judgement"}))

SLOTS: dict[str, dict[str, frozenset[str]]] = {
    "convbench_reference": JUDGE_SLOTS,
    "convbench": JUDGE_SLOTS
    | EXTRACTION_SLOTS
    | {
        "annotate_describe": frozenset({"image"}),
        "annotate_caption": INSTRUCTIONS | {"image", "description"},
        "annotate_answers": frozenset({"caption", "image", "instruction_1"}),
        "annotate_focus_points": INSTRUCTIONS | {"image", "caption", "reference_3"},
        "annotate_categories": INSTRUCTIONS | {f"categories_{turn}" for turn in TURNS},
    },
}
"""The slots that each shipped prompt has, and that a benchmark fills."""

PICTURE = Image(sha256="ab" * 32, media_type="image/png", width=640, height=480)

VALUES: dict[str, Slot] = {
    "image": PICTURE,
    "caption": "Three red kites and one blue kite fly over a beach. A sign reads “NO DOGS”.",
    "description": "Some kites fly over a beach. There is a sign.",
    "instruction_1": "How many kites are there, and what does the sign say?",
    "instruction_2": "Why might the beach be a good place for kites?",
    "instruction_3": "Write a two-line slogan for a kite festival on this beach.",
    "a_1": "Four kites, three red and one blue. The sign says NO DOGS.",
    "a_2": "Wind off the sea meets nothing that slows it down.",
    "a_3": "Four kites, one wind, no leash:\ncome and hold on to the sky.",
    "b_1": Ref(call="turn_1"),
    "b_2": Ref(call="turn_2"),
    "b_3": Ref(call="turn_3"),
    "answer_1": Ref(call="turn_1"),
    "answer_2": Ref(call="turn_2"),
    "answer_3": Ref(call="turn_3"),
    "reference_1": "Four kites, three red and one blue. The sign says NO DOGS.",
    "reference_2": "Wind off the sea meets nothing that slows it down.",
    "reference_3": "Four kites, one wind, no leash:\ncome and hold on to the sky.",
    "focus_points": "1. Does the slogan mention kites?\n2. Does it have two lines?",
    "judgement_1": "(not judged: in this setting the turn is the human reference)",
    "judgement_2": Ref(call="judge_2"),
    "judgement_3": Ref(call="judge_3"),
    "judgement": Ref(call="judge_1"),
    "human": "A",
    "categories_1": "Counting\nOCR",
    "categories_2": "Weather\nPhysics",
    "categories_3": "Slogan\nPoem",
}
