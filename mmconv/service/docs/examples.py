"""Short requests that work, for the OpenAPI document and the page of it.

They name models as `configs/serve.yaml` does: `echo` answers with what it is told, `judge` judges.
A test sends them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DIALOGUE = [
    {"user": "How many legs has a spider?", "assistant": "Eight."},
    {"user": "And two of them together?", "assistant": "Sixteen."},
]

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "POST /v1/chat/completions": {
        "a question": {
            "model": "echo",
            "messages": [{"role": "user", "content": "What is a scree slope?"}],
        },
        "a picture and two turns": {
            "model": "echo",
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What colour is this?"},
                        {
                            "type": "image_url",
                            "image_url": {
                                "url": "data:image/gif;base64,"
                                "R0lGODdhAQABAIAAAP8AAAAAACwAAAAAAQABAAACAkQBADs="
                            },
                        },
                    ],
                },
                {"role": "assistant", "content": "Red."},
                {"role": "user", "content": "Name a fruit of that colour."},
            ],
            "max_tokens": 64,
        },
    },
    "POST /v1/dialogues": {
        "two turns": {
            "model": "echo",
            "turns": [
                {"instruction": "How many legs has a spider?"},
                {"instruction": "And two of them together?"},
            ],
        },
        "freely, then with the first answer given, and judged": {
            "model": "echo",
            "turns": [
                {"instruction": "How many legs has a spider?", "reference": "Eight."},
                {"instruction": "And two of them together?", "reference": "Sixteen."},
            ],
            "conditions": [0, 1],
            "judge": "judge",
            "gradings": ["direct"],
        },
    },
    "POST /v1/judgements": {
        "ConvBench: turn 1 rated against the human's answer": {
            "benchmark": "convbench",
            "prompt": "direct_turn_1",
            "judge": "judge",
            "caption": "A red kite over a beach.",
            "turns": [
                {
                    "user": "What is in the sky?",
                    "assistant": "A red bird.",
                    "reference": "A red kite.",
                },
                {
                    "user": "What is the weather like?",
                    "assistant": "Windy.",
                    "reference": "Windy and dry.",
                },
                {
                    "user": "Write a line about it.",
                    "assistant": "The bird holds the wind.",
                    "reference": "A red kite holds the wind.",
                },
            ],
        },
        "MT-Bench-101: the last answer, by the criteria of context memory": {
            "benchmark": "mtbench101",
            "prompt": "CM",
            "judge": "judge",
            "turns": _DIALOGUE,
        },
        "CMT-Eval: every turn, with the user's speech acts": {
            "benchmark": "cmteval",
            "prompt": "judge_dialogue",
            "judge": "judge",
            "turns": [
                {**turn, "act": act}
                for turn, act in zip(_DIALOGUE, ("初始问题", "追问"), strict=True)
            ],
        },
        "BotChat: which of two dialogues is a machine's": {
            "benchmark": "botchat",
            "prompt": "paireval",
            "judge": "judge",
            "utterances": ["Hi, how was the match?", "As an assistant, I watch none."],
            "other": ["Hi, how was the match?", "Wet. We lost, of course."],
        },
        "FB-Bench: an answer after feedback, by a checklist": {
            "benchmark": "fbbench",
            "prompt": "judge",
            "judge": "judge",
            "scenario": "Error Correction",
            "turns": [
                {"user": "Name the capital of Australia.", "assistant": "Sydney."},
                {"user": "No, that is its largest city.", "assistant": "You are right: Canberra."},
            ],
            "checklist": [
                {"text": "Names Canberra.", "weight": 0.7},
                {"text": "Owns the mistake.", "weight": 0.3},
            ],
        },
    },
    "POST /v1/runs": {
        "ten samples of a data set": {
            "data": "convbench",
            "seats": {"candidate": "echo", "judge": "judge"},
            "limit": 10,
        },
    },
}
"""Operation -> title -> body."""
