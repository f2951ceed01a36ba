"""What a simulated candidate says, and how its answers are told from a person's.

Whatever does not carry the mark was written by somebody else, and is taken to be right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mmconv.keys import hash_json
from mmconv.values import Message

LEVELS = ("perception", "reasoning", "creation")

_MARK = re.compile(r"\(simulated (?:perception|reasoning|creation): (right|wrong)\)")
_RESOLUTION = 16**13  # 52 bits of a hash: as many as a float holds exactly


def write_answer(level: int, *, wrong: bool) -> str:
    """The answer of turn `level` (1-3)."""
    state = "wrong" if wrong else "right"
    return f"This answer is {state}. (simulated {LEVELS[level - 1]}: {state})"


def read_answer(text: str) -> bool | None:
    """Whether a simulated answer is wrong; None if the text is somebody else's."""
    found = _MARK.search(text)
    return None if found is None else found[1] == "wrong"


def draw(*name: str | int) -> float:
    """A number from 0 up to 1, even over names and always the same for one."""
    return int(hash_json(name)[:13], 16) / _RESOLUTION


def texts(messages: Iterable[Message], role: str) -> list[str]:
    """The texts of all messages of a role."""
    return [message.text for message in messages if message.role == role]
