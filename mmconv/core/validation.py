"""What is wrong with the fields of a document, in plain words, and which name was meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

_NUMBERS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
}
"""Pydantic's name of a problem -> what is wanted there."""


def tell_problems(error: ValidationError, kind: type[BaseModel]) -> list[str]:
    """All that is wrong with a document of this kind, field by field, in plain words."""
    return [_problem_line(problem, kind) for problem in error.errors()]


def _problem_line(problem: Mapping[str, Any], kind: type[BaseModel]) -> str:
    """One problem in plain words: the field, what is wrong with it, and the nearest right name."""
    place = [str(step) for step in problem["loc"]]
    name = ".".join(place)
    if problem["type"] == "missing":
        return f"{name} is needed and not set"
    if problem["type"] == "extra_forbidden":
        return f"{name} is no field here{nearest(place[-1], _fields_at(kind, place[:-1]))}"
    if problem["type"] == "model_type":
        own = ", ".join(_fields_at(kind, place))
        return f"{name} is no single value: it has the fields {own}"
    if problem["type"] == "tuple_type" and isinstance(problem["input"], str):
        return f"{name} is a list: write [{problem['input']}]"
    if problem["type"] in _NUMBERS and isinstance(problem["input"], str):
        return f"{name} is the text {problem['input']!r}, not {_NUMBERS[problem['type']]}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{name}: {message}" if name else message


def _fields_at(kind: type[BaseModel], place: Sequence[str]) -> list[str]:
    """The fields that a document of this kind has at a place; none where that is no model's."""
    found: Any = kind
    for step in place:
        found = _without_none(_type_below(found, step))
    return list(getattr(found, "model_fields", ()))


def _type_below(annotation: Any, step: str) -> Any:
    """The type of a model's field, or of what a mapping or list holds; None where there is none."""
    if hasattr(annotation, "model_fields"):
        field = annotation.model_fields.get(step)
        return None if field is None else field.annotation
    # The last of Mapping[str, X] and tuple[X, ...], the dots left out, is X.
    held = [each for each in get_args(annotation) if each is not ...]
    return held[-1] if held else None


def _without_none(annotation: Any) -> Any:
    """X where the type is X or None, any other type as it is."""
    members = get_args(annotation)
    if NoneType not in members:
        return annotation
    return next(each for each in members if each is not NoneType)


def nearest(word: str, known: Sequence[str]) -> str:
    """What to add to a message about an unknown name: the nearest known one, or all of them."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; there are: {', '.join(known)}" if 0 < len(known) <= 30 else ""
