"""Messages for tests."""

from collections.abc import Sequence
from typing import TypeAlias

from mmconv.core.types import Message, Part, Role, Text

Messages: TypeAlias = Sequence[Message]


def message(role: Role, *parts: str | Part) -> Message:
    """A message; strings are its texts."""
    return Message(
        role=role, parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts)
    )


def user(*parts: str | Part) -> Message:
    return message("user", *parts)
