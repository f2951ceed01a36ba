"""Words for people who write JSON: not Python's, as pydantic's are, and not the command line's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

WORDS: Mapping[str, str] = {
    "bool_type": "true or false is needed",
    "dict_type": "an object is needed",
    "float_type": "a number is needed",
    "frozen_set_type": "a list is needed",
    "int_type": "a whole number is needed",
    "list_type": "a list is needed",
    "mapping_type": "an object is needed",
    "missing": "is needed and not there",
    "model_attributes_type": "an object is needed",
    "model_type": "an object is needed",
    "none_required": "not supported here: leave it out",
    "set_type": "a list is needed",
    "string_type": "a text is needed",
    "string_unicode": "a text is needed",
    "tuple_type": "a list is needed",
}
"""Pydantic's error -> ours; where it has no line here, pydantic's own words do."""

NEEDED = " is needed"

COMMANDS = (
    (r" \(--(?:judge|set) [^)]*\)", ""),
    (r"--(generate-only|skip-bad-records|allow-drafts)\b", r"options.\1"),
    (r" \(--conditions\)", " (conditions)"),
    (r"[:;] (?:run it without|leave out) --prompts", "; this server has prompts of its own"),
    (r" or raise the limit\b", ""),
    (r"give another template in the model's options\.chat_template, or (?=go without)", ""),
    (r"; give another template in the model's options\.chat_template", ""),
    (r": leave `system` out of the model's file, and in a run", "; in a run"),
    (r" \(it starts with b.{0,40}?\)(?=;)", ""),
)
"""What the engine says to whoever types a command -> what is said to a client."""


def without_commands(message: str) -> str:
    """The engine's message without what only a command line, or a programmer, can use."""
    for told, instead in COMMANDS:
        message = re.sub(told, instead, message)
    return re.sub(r"\boptions\.[a-z-]+", lambda found: found[0].replace("-", "_"), message)


def without_runs(message: str) -> str:
    """A message of a model, for who does not run a benchmark, without what only a run can set."""
    return re.sub(r"; in a run of \w+ set \S+", "", message)


def in_one(told: Sequence[str]) -> str:
    """What one value may be, where each says a kind that is needed; else the first of them."""
    kinds = dict.fromkeys(each.removesuffix(NEEDED) for each in told if each.endswith(NEEDED))
    return f"{', or '.join(kinds)}{NEEDED}" if told[0].endswith(NEEDED) else told[0]


def plainly(problem: Mapping[str, Any]) -> str:
    """One of pydantic's errors in plain words, without its place."""
    kind, told = problem["type"], problem.get("ctx", {})
    if kind == "too_long":
        most = told["max_length"]
        return f"at most {most} may be given" if most else "not supported here: leave it out"
    if kind == "too_short":
        return f"at least {told['min_length']} must be given"
    if kind in ("literal_error", "enum"):
        several = re.search(r"(,| or) ", told["expected"])
        return f"{'one of ' if several else ''}{told['expected']} is needed"
    if kind == "union_tag_invalid":
        return f"{told['discriminator']} must be one of {told['expected_tags']}"
    if kind == "union_tag_not_found":
        return f"{told['discriminator']} is needed and not there"
    message = str(problem["msg"])
    for python in ("Value error, ", "Assertion failed, ", "Input ", "String "):
        message = message.removeprefix(python)
    return WORDS.get(kind, message)
