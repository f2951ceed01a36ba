"""Made-up verdicts in the form that a prompt asks for: what the fake judge closes its replies with.

A JSON schema is obeyed, whatever it describes. Without one the form is known by its marks in the
prompt: those of the five benchmarks' judges, and the plain `Rating: n`. Everything is drawn from
the `Random` that is handed in; what is judged plays no part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

import orjson

REMARK = "So it seems."
"""The reason that stands in every made-up verdict that needs one."""

RATING = "Rating: {rating}"
"""How a rating is closed."""

CHOICE = "Overall, Response {choice} is better."
"""How a comparison is closed."""

_TURN = re.compile(r"^轮次 (\d+) - 用户:", re.MULTILINE)
_CHAT_END = "<chat_end>"
_LOWEST, _HIGHEST = 1, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What ratings and choices are drawn from; both ends of the ratings belong to them."""

    lowest: int
    highest: int
    choices: tuple[str, ...]

    def fill(self, template: str, draw: Random) -> str:
        """The template with `{rating}` and `{choice}` drawn."""
        rating, choice = draw.randint(self.lowest, self.highest), draw.choice(self.choices)
        return template.replace("{rating}", str(rating)).replace("{choice}", choice)


Form: TypeAlias = Callable[[str, Scale, Random], str]
"""Writes a verdict for a prompt."""


def obey(schema: Mapping[str, Any], draw: Random) -> Any:
    """A value that the JSON schema allows: every property, one item per array, a number in range.

    An `enum`, a `const` and the options of `anyOf` are drawn from.
    """
    if "anyOf" in schema:
        return obey(draw.choice(schema["anyOf"]), draw)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw.choice(schema["enum"])
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {name: obey(value, draw) for name, value in properties.items()}
        case "array":
            return [obey(schema.get("items", {}), draw)]
        case "integer" | "number":
            return draw.randint(int(schema.get("minimum", 1)), int(schema.get("maximum", 10)))
        case "boolean":
            return draw.random() < 0.5
        case "null":
            return None
    return REMARK


def verdict(prompt: str, scale: Scale, draw: Random) -> str:
    """The verdict that the prompt asks for; "" if it asks for none that is known."""
    write = next((form for marks, form in _FORMS.items() if marks.search(prompt)), None)
    return "" if write is None else write(prompt, scale, draw)


def _by_turn(prompt: str, scale: Scale, draw: Random) -> str:
    """A JSON entry for each turn of the dialogue, as CMT-Eval asks for."""
    turns = max(map(int, _TURN.findall(prompt)), default=0)
    entries = [
        {
            "轮次": str(turn),
            "统筹能力": draw.randint(_LOWEST, _HIGHEST),
            "适应能力": draw.randint(_LOWEST, _HIGHEST),
            "评分理由": REMARK,
        }
        for turn in range(1, turns + 1)
    ]
    return orjson.dumps({"评估结果": entries}).decode()


def _first_machine(prompt: str, scale: Scale, draw: Random) -> str:
    """Which chat of the last conversation is a machine's first, or none, as UniEval asks."""
    chats = prompt.rpartition("Conversation:\n")[2].count(_CHAT_END)
    index = draw.randint(1, chats + 1)
    if index > chats:
        return f"Choice: No\nIndex: None\nReason: {REMARK}"
    return f"Choice: Yes\nIndex: {index}\nReason: {REMARK}"


def _machine(prompt: str, scale: Scale, draw: Random) -> str:
    """Which of two conversations is a machine's, as BotChat's comparisons ask."""
    choice = draw.choice(("Conversation 1", "Conversation 2", "Both", "Neither"))
    return f"Choice: {choice}\nReason: {REMARK}"


def _closing(template: str) -> Form:
    return lambda _, scale, draw: scale.fill(template, draw)


# The first whose marks a prompt has; the plain rating has the least of a mark and comes last.
_FORMS: Mapping[re.Pattern[str], Form] = {
    re.compile(r"\[\[n\]\]"): _closing("Rating: [[{rating}]]"),
    re.compile(r'"评估结果"'): _by_turn,
    re.compile(r"Choice: Conversation 1"): _machine,
    re.compile(r"Index: n"): _first_machine,
    re.compile(r"is better"): _closing(CHOICE),
    re.compile(r"(?i)\brating\b"): _closing(RATING),
}
