"""Requests of judgements, as tests send them."""

from typing import Any

KITES = {
    "instructions": ["What is in the sky?", "Why?", "Write a line about it."],
    "caption": "A red kite over a beach.",
    "references": ["A red kite.", "There is wind.", "A red kite holds the wind."],
}
REPLIES = {"turn_1": "A bird.", "turn_2": "It flies.", "turn_3": "The bird holds the wind."}

TURN: dict[str, Any] = {
    "benchmark": "convbench",
    "judge": "judge",
    "sample": KITES,
    "replies": REPLIES,
    "options": {"grading": ["direct"]},
    "calls": ["direct/turn_1"],
}
"""One call of the judge, without an image."""

SPIDERS: dict[str, Any] = {
    "benchmark": "mtbench101",
    "judge": "judge",
    "sample": {
        "task": "SI",
        "history": [
            {"user": "How many legs has a spider?", "bot": "Eight."},
            {"user": "And two of them?", "bot": "Sixteen."},
        ],
    },
    "replies": {"turn_1": "Eight.", "turn_2": "Sixteen."},
}
