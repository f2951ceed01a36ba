"""Made-up verdicts in the form that a prompt asks for: how the fake judge ends its replies.

Everything is drawn from the `Random` that is passed in; what is judged plays no part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

import orjson

RATING = "Rating: {rating}"
CHOICE = "Overall, Response {choice} is better."

_REMARK = "So it seems."
_TURN = re.compile(r"轮次 (\d+) - 用户:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What ratings (both ends included) and choices are drawn from."""

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
    return _REMARK


def verdict(prompt: str, scale: Scale, draw: Random) -> str:
    """The verdict that the prompt asks for; "" if it asks for none that is known."""
    write = next((form for marks, form in _FORMS.items() if re.search(marks, prompt)), None)
    return "" if write is None else write(prompt, scale, draw)


def _turn_scores(prompt: str, scale: Scale, draw: Random) -> str:
    """A JSON entry for each turn of the dialogue, as CMT-Eval asks for."""
    turns = max(map(int, _TURN.findall(prompt)), default=0)
    entries = [
        {
            "轮次": str(turn),
            "统筹能力": draw.randint(1, 5),
            "适应能力": draw.randint(1, 5),
            "评分理由": _REMARK,
        }
        for turn in range(1, turns + 1)
    ]
    return orjson.dumps({"评估结果": entries}).decode()


def _filled_form(prompt: str, scale: Scale, draw: Random) -> str:
    """FB-Bench's form as the prompt shows it, with a result for each criterion."""
    try:
        form, _ = json.JSONDecoder().raw_decode(prompt, prompt.rfind("\n{\n") + 1)
    except ValueError:
        return ""
    for entry in form.values():
        entry |= {"评判理由": _REMARK, "评判结果": draw.choice("是否")}
    return orjson.dumps(form).decode()


def _first_machine(prompt: str, scale: Scale, draw: Random) -> str:
    """Which chat of the last conversation is a machine's first, or none, as UniEval asks."""
    chats = prompt.rpartition("Conversation:\n")[2].count("<chat_end>")
    index = draw.randint(1, chats + 1)
    choice, place = ("No", "None") if index > chats else ("Yes", index)
    return f"Choice: {choice}\nIndex: {place}\nReason: {_REMARK}"


def _machine(prompt: str, scale: Scale, draw: Random) -> str:
    """Which of two conversations is a machine's, as BotChat's comparisons ask."""
    choice = draw.choice(("Conversation 1", "Conversation 2", "Both", "Neither"))
    return f"Choice: {choice}\nReason: {_REMARK}"


# The first whose pattern a prompt has; a plain rating is the least specific and comes last.
_FORMS: Mapping[str, Form] = {
    r"\[\[n\]\]": lambda _, scale, draw: scale.fill("Rating: [[{rating}]]", draw),
    '"评估结果"': _turn_scores,
    '"评判结果": ""': _filled_form,
    "Choice: Conversation 1": _machine,
    "Index: n": _first_machine,
    "is better": lambda _, scale, draw: scale.fill(CHOICE, draw),
    r"(?i)\brating\b": lambda _, scale, draw: scale.fill(RATING, draw),
}
