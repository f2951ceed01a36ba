"""BotChat's prompts: the slots of each file, and one made-up dialogue that fills them."""

from __future__ import annotations

from judges.template import Slot
from mmconv.benchmarks.botchat.dialogues import HumanDialogue, Participant, as_lines, conversation

PAIR = frozenset({"conversation_1", "conversation_2"})

SLOTS: dict[str, dict[str, frozenset[str]]] = {
    "botchat": {
        "generate": frozenset(),
        "generate_with_document": frozenset({"title", "text"}),
        "unieval": frozenset({"conversation"}),
        "paireval": PAIR,
        "gteval": PAIR,
    }
}
"""The slots that each shipped prompt has, and that a benchmark fills."""

HUMAN = (
    "Have you seen my umbrella? It was by the door.",
    "The green one? Anna took it this morning.",
    "Great. And it's pouring.",
    "Take mine. I'm staying in anyway.",
)

SAMPLE = HumanDialogue(id="1", human=HUMAN)
GENERATED = Participant(name="", role="candidate").lines(SAMPLE, 4)

VALUES: dict[str, Slot] = {
    "title": "Umbrellas left behind",
    "text": "About 80,000 umbrellas are handed in as lost property every year.",
    "conversation": conversation(GENERATED),
    "conversation_1": conversation(GENERATED),
    "conversation_2": conversation(as_lines(HUMAN)),
}
