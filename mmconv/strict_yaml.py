"""YAML by its own rule that a mapping has each key once. No file is read here."""

from __future__ import annotations

from typing import Any

import yaml


class RepeatedKey(yaml.YAMLError):
    """A mapping has one key twice."""


class _Loader(yaml.SafeLoader):
    """The library's, which takes the last value of a key."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        mapping = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in mapping.value:
            if isinstance(key, yaml.ScalarNode):
                name, line = (key.tag, key.value), key.start_mark.line + 1
                if name in lines:
                    raise RepeatedKey(
                        f"line {line}: {key.value!r} stands on line {lines[name]} too"
                    )
                lines[name] = line
        return mapping


def parse_yaml(text: str) -> Any:
    """The document; raises `yaml.YAMLError`, and `RepeatedKey` with both lines."""
    return yaml.load(text, _Loader)
