"""Lists of what a file can set, from the models that read it: names, values, meanings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import click
from pydantic import BaseModel

from mmconv.cli.shared.run_options import SHORT_FORMS
from mmconv.cli.shared.table_output import terminal_width
from mmconv.report.tables.text import fold

Entry: TypeAlias = tuple[str, ...]
"""A name, and the texts that stand beside it below each other."""

WIDEST = 100
"""Lines are no longer than that however wide the terminal is, so that they can be read."""

PREFIX = "options."
"""What the names of options begin with in run files, for a benchmark, and in model files."""

_SHORT = {field.removeprefix(PREFIX): option for option, field in SHORT_FORMS.items()}
_BOUNDS = {"minimum": "from {}", "exclusiveMinimum": "above {}", "maximum": "to {}"}
_PLAIN = {"boolean": "true or false", "integer": "a whole number", "number": "a number"}


def print_sections(sections: Iterable[tuple[str, Sequence[Entry]]]) -> None:
    """Print headings, and below each its entries."""
    width = min(terminal_width(), WIDEST)
    for number, (heading, entries) in enumerate(sections):
        click.echo("\n" * (number > 0) + "\n".join(fold(heading, width)))
        for line in _listed(entries, width):
            click.echo(line)


def tell_fields(kind: type[BaseModel], prefix: str = "") -> list[Entry]:
    """Each field with its meaning, which is its docstring, and facts; those needed come first.

    `prefix` goes before the names.
    """
    schema = kind.model_json_schema()
    fields = sorted(_fields(schema, schema.get("$defs", {}), prefix), key=lambda field: field[0])
    return [entry for _, entry in fields]


def _listed(entries: Sequence[Entry], width: float) -> Iterator[str]:
    """Names on the left, and beside them what is told of each, text under text."""
    margin = max((len(name) for name, *_ in entries), default=0) + 4
    for name, *texts in entries:
        lines = [line for text in texts for line in fold(text, width - margin)]
        for place, line in enumerate(lines):
            yield f"{'' if place else f'  {name}':<{margin}}{line}"


def _fields(
    schema: Mapping[str, Any], groups: Mapping[str, Any], prefix: str
) -> Iterator[tuple[bool, Entry]]:
    """Each field with its meaning and facts, and whether it may be left out.

    Groups of fields are taken apart, but for those that may be left out as a whole.
    """
    needed = schema.get("required", ())
    for field, told in schema["properties"].items():
        name = prefix + field
        if "$ref" in told:
            group = groups[told["$ref"].rpartition("/")[2]]
            yield from _fields(group, groups, f"{name}.")
            continue
        facts = [f"--{_SHORT[name].replace('_', '-')}"] if name in _SHORT else []
        facts.append(_values(told))
        facts.append("needed" if field in needed else f"default: {_default(told.get('default'))}")
        yield field not in needed, (name, told.get("description", "-"), f"[{'; '.join(facts)}]")


def _values(told: Mapping[str, Any]) -> str:
    """What may be given, from the field's JSON schema."""
    if "anyOf" in told:
        return " or ".join(_values(each) for each in told["anyOf"] if each.get("type") != "null")
    if "enum" in told:
        return "|".join(told["enum"])
    if "$ref" in told:
        return "a mapping"
    match told["type"]:
        case "array":
            return f"a list, each {_values(told['items'])}"
        case "object" if told["additionalProperties"] is True:
            return "a mapping"
        case "object":
            keys = told.get("propertyNames", {"type": "string"})
            values = told["additionalProperties"]
            return f"a mapping from {_values(keys)} to {_values(values)}"
        case "string":
            return "a path" if told.get("format") == "path" else "a text"
    bounds = [text.format(told[bound]) for bound, text in _BOUNDS.items() if bound in told]
    return " ".join([_PLAIN[told["type"]], *bounds])


def _default(value: Any) -> str:
    """A default as it would be typed; what may be left out and has none is not set."""
    if value is None or value == "":
        return "not set"
    if value == []:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
