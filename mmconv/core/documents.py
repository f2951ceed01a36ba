"""Documents that people write: strict YAML, checked fields, errors in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, TypeAlias, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from mmconv.core.errors import ConfigError

Spec = TypeVar("Spec", bound=BaseModel)

Place: TypeAlias = Sequence[int | str]
"""Where in a document a value is: names of fields, and positions in lists from 0."""

_NUMBERS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
}


def read_document(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds a mapping; raises `ConfigError` naming the file."""
    document = read_yaml(path)
    if not isinstance(document, dict):
        kind = "nothing" if document is None else f"a {type(document).__name__}"
        raise ConfigError(f"{path}: expected a mapping of fields (name: value), found {kind}")
    return document


def read_yaml(path: Path) -> Any:
    """Read a YAML file; raises `ConfigError` with the file and the line."""
    try:
        return parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path} line {line}: not UTF-8; save the file as UTF-8") from error
    except Misleading as error:
        raise ConfigError(f"{path} {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error


def validate(kind: type[Spec], document: Mapping[str, Any], where: str) -> Spec:
    """Validate a mapping as a spec; a `ConfigError` lists every field that is wrong."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        lines = [f"  {problem}" for problem in describe_problems(error, kind)]
        raise ConfigError("\n".join([f"{where}: wrong configuration", *lines])) from error


def describe_problems(error: ValidationError, kind: type[BaseModel]) -> list[str]:
    """All problems of a document of this kind, one line per field."""
    return [_problem_line(problem, kind) for problem in error.errors()]


def _problem_line(problem: Mapping[str, Any], kind: type[BaseModel]) -> str:
    place = [str(step) for step in problem["loc"]]
    name = ".".join(place)
    if problem["type"] == "missing":
        return f"{name} is needed and not set"
    if problem["type"] == "extra_forbidden":
        return f"{name} is not a field here{nearest(place[-1], _fields_at(kind, place[:-1]))}"
    if problem["type"] == "model_type":
        names = ", ".join(_fields_at(kind, place))
        return f"{name} is not a single value: it has the fields {names}"
    if problem["type"] == "tuple_type" and isinstance(problem["input"], str):
        return f"{name} is a list: write [{problem['input']}]"
    if problem["type"] in _NUMBERS and isinstance(problem["input"], str):
        return f"{name} is the text {problem['input']!r}, not {_NUMBERS[problem['type']]}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{name}: {message}" if name else message


def _fields_at(kind: type[BaseModel], place: Sequence[str]) -> list[str]:
    annotation: Any = kind
    for step in place:
        if hasattr(annotation, "model_fields"):
            field = annotation.model_fields.get(step)
            annotation = None if field is None else field.annotation
        else:
            # X is the last argument of Mapping[str, X], and of tuple[X, ...] without the dots
            arguments = [argument for argument in get_args(annotation) if argument is not ...]
            annotation = arguments[-1] if arguments else None
        if NoneType in get_args(annotation):
            annotation = next(each for each in get_args(annotation) if each is not NoneType)
    return list(getattr(annotation, "model_fields", ()))


def name_place(place: Place, *, first: int) -> str:
    """The place as text, items of lists counted from `first`: `history[2].user`."""
    steps = (f"[{step + first}]" if isinstance(step, int) else f".{step}" for step in place)
    return "".join(steps).removeprefix(".")


def nearest(word: str, known: Sequence[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; there are: {', '.join(known)}" if 0 < len(known) <= 30 else ""


class Misleading(yaml.YAMLError):
    """A mapping has a key twice, of which YAML would take the last."""


class _Loader(yaml.SafeLoader):
    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        mapping = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in mapping.value:
            if isinstance(key, yaml.ScalarNode):
                name, line = (key.tag, key.value), key.start_mark.line + 1
                if name in lines:
                    raise Misleading(f"line {line}: {key.value!r} stands on line {lines[name]} too")
                lines[name] = line
        return mapping


def parse_yaml(text: str) -> Any:
    """The document; raises `yaml.YAMLError`, and `Misleading` with the line."""
    return yaml.load(text, _Loader)
