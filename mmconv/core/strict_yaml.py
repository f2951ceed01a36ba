"""YAML by its own rule that a mapping has each key once, and with no number to base 8 or 60.

No file is read here.
"""

from __future__ import annotations

from typing import Any

import yaml


class Misleading(yaml.YAMLError):
    """A mapping has one key twice, or a number is another than the one that is written."""


class _Loader(yaml.SafeLoader):
    """The library's, which takes the last value of a key."""

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

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        number: int = super().construct_yaml_int(node)
        digits = node.value.lstrip("+-").replace("_", "")
        if ":" in digits or (digits.isdecimal() and int(digits) != abs(number)):
            raise _misread(node, number)
        return number

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        number: float = super().construct_yaml_float(node)
        if ":" in node.value:
            raise _misread(node, number)
        return number


def _misread(node: yaml.ScalarNode, number: float) -> Misleading:
    written = node.value
    return Misleading(
        f"line {node.start_mark.line + 1}: YAML reads {written} as {number}; write '{written}' for "
        "the text, or the number without zeros in front"
    )


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)


def parse_yaml(text: str) -> Any:
    """The document; raises `yaml.YAMLError`, and `Misleading` with the line."""
    return yaml.load(text, _Loader)
