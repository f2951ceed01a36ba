"""A JSON schema in a few words, as HTML: what a value may be, linked to types, and its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import orjson
from markupsafe import Markup

Schema: TypeAlias = Mapping[str, Any]

WORDS = {"object": "object", "string": "text", "null": "null"}
"""JSON's types, where the page says another word."""

FORMATS = {"date-time": "date and time", "binary": "bytes"}

_COUNTED = {"Items": "items", "Properties": "entries", "Length": "characters"}


def kind_of(schema: Schema) -> Markup:
    """What a value may be."""
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return Markup(" or ").join(kind_of(each) for each in schema[word])
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return Markup('<a href="#{}"><code>{}</code></a>').format(name, name)
    if "const" in schema:
        return _code(schema["const"])
    if "enum" in schema:
        return Markup(" or ").join(_code(each) for each in schema["enum"])
    if schema.get("type") == "array":
        return _list(schema)
    if schema.get("type") == "object":
        return _object(schema)
    kind = str(schema.get("type", "anything"))
    return Markup("{}").format(FORMATS.get(schema.get("format", ""), WORDS.get(kind, kind)))


def bounds_of(schema: Schema) -> Markup:
    """The limits of a value and what it is by default, as a paragraph; nothing where none are."""
    found = [bound for each in (schema, *schema.get("anyOf", ())) for bound in _bounds(each)]
    if schema.get("default") is not None:
        found.append(Markup("by default {}").format(_code(schema["default"])))
    if not found:
        return Markup("")
    return Markup("<p class='bounds'>{}</p>").format(Markup(", ").join(dict.fromkeys(found)))


def _bounds(schema: Schema) -> Iterator[Markup]:
    for word, words in (
        ("minimum", "at least"),
        ("exclusiveMinimum", "more than"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "less than"),
    ):
        if word in schema:
            yield Markup("{} {}").format(words, _number(schema[word]))
    for of, word in _COUNTED.items():
        least, most = schema.get(f"min{of}"), schema.get(f"max{of}")
        # An exact or an empty list says so where its kind stands.
        if most == 0 or "prefixItems" in schema:
            continue
        if most is not None:
            yield Markup("{} {}").format(f"{least} to {most}" if least else f"at most {most}", word)
        elif least is not None:
            yield Markup("not empty" if least == 1 else f"at least {least} {word}")
    if "pattern" in schema:
        yield Markup("of the form <code>{}</code>").format(schema["pattern"])


def _list(schema: Schema) -> Markup:
    if schema.get("maxItems") == 0:
        return Markup("empty list")
    if "prefixItems" in schema:
        kinds = [kind_of(each) for each in schema["prefixItems"]]
        if len(set(kinds)) == 1:
            return Markup("list of exactly {} {}").format(len(kinds), kinds[0])
        return Markup("list of exactly ") + Markup(", ").join(kinds)
    inner = schema.get("items", {})
    several = any(word in inner for word in ("anyOf", "oneOf", "enum"))
    return Markup("list of ({})" if several else "list of {}").format(kind_of(inner))


def _object(schema: Schema) -> Markup:
    if schema.get("maxProperties") == 0:
        return Markup("empty object")
    inner = schema.get("additionalProperties")
    if isinstance(inner, Mapping) and inner:
        return Markup("object of {} by name").format(kind_of(inner))
    if "properties" in schema:
        parts = (
            Markup("<code>{}</code>: {}").format(name, kind_of(each))
            for name, each in schema["properties"].items()
        )
        return Markup("object with ") + Markup(", ").join(parts)
    return Markup("object")


def _code(value: Any) -> Markup:
    """A value as JSON has it."""
    return Markup("<code>{}</code>").format(orjson.dumps(value).decode())


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) < 1e10 and value == int(value) else f"{value:g}"
