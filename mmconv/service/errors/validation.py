"""What pydantic finds wrong with a request, as one problem that names its field.

Its words are for people who write JSON, not Python.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mmconv.service.errors.problems import Problem

DISCRIMINATORS = ("type", "role", "benchmark")
"""The fields by whose values a request's parts differ in kind."""

PARAMETERS = (("query",), ("path",), ("header",), ("cookie",))
"""What the locations of other parameters begin with."""

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


def validation_problem(errors: Sequence[Mapping[str, Any]], body: Any) -> Problem:
    """The telling one of pydantic's errors about a request, its field as OpenAI would write it.

    Locations are FastAPI's, which begin with "body" and the like, or steps of the body itself.

    Where a value may be of several kinds there is an error for each; the one that got furthest
    into the value is about the kind that was meant, and several at the same place are told as one.
    """
    placed = [(error, _place(error["loc"], body)) for error in errors]
    error, place = max(placed, key=lambda each: len(each[1]))
    if error["type"] == "json_invalid":
        return Problem(400, _not_json(error), code="invalid_json")
    param = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    param = param.removeprefix(".")
    if not param and error["type"] == "value_error":
        return Problem(400, plainly(error))
    if not param:
        return Problem(400, "a JSON object is needed (Content-Type: application/json)")
    if error["type"] == "extra_forbidden":
        return Problem(400, f"{param}: no such field", param=param, code="unknown_parameter")
    words = in_one([plainly(each) for each, its_place in placed if its_place == place])
    return Problem(400, f"{param}: {words}", param=param)


def _not_json(error: Mapping[str, Any]) -> str:
    """Where the body stops being JSON, as its reader tells it."""
    place, why = error["loc"][-1], error.get("ctx", {}).get("error")
    if not why or not isinstance(place, int):
        return "the body is not JSON"
    return f"the body is not JSON: {why} (at character {place + 1})"


def _place(location: tuple[Any, ...], body: Any) -> list[Any]:
    """The steps of pydantic's location that are fields of the request, not names of its types."""
    if location[:1] != ("body",):
        return list(location[1:] if location[:1] in PARAMETERS else location)
    steps: list[Any] = []
    tagged: Any = None
    for place, step in enumerate(location[1:], start=2):
        # The name of a kind: a part of type "text" has a field of that name as well.
        kinds = [body.get(name) for name in DISCRIMINATORS] if isinstance(body, dict) else []
        if step in kinds and body is not tagged and place < len(location):
            tagged = body
            continue
        try:
            body = body[step]
        except (LookupError, TypeError):
            # The name of a type, unless it is the field that is missing.
            if step is not location[-1] or not isinstance(body, dict):
                continue
        steps.append(step)
    return steps


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


def in_one(told: Sequence[str]) -> str:
    """What one value may be, where each says a kind that is needed; else the first of them."""
    kinds = dict.fromkeys(each.removesuffix(NEEDED) for each in told if each.endswith(NEEDED))
    return f"{', or '.join(kinds)}{NEEDED}" if told[0].endswith(NEEDED) else told[0]
