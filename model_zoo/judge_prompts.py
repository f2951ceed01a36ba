"""What the judges that are no models share: reading the prompts made for them, drawing lots.

The prompts are those of `judges/prompts/convbench_reference`: the system message names the task,
each user message is the name of a slot, a line break, and its value. Nothing is judged here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mmconv.errors import ConfigError, Refused
from mmconv.keys import hash_bytes
from mmconv.values import Message

_NAME = re.compile(r"(direct|pairwise) (?:turn ([123])|overall)(?: without .+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a prompt asks: in which grading, of which turns (1-3), with which texts by slot."""

    grading: Literal["direct", "pairwise"]
    turns: tuple[int, ...]
    texts: Mapping[str, str]


def read_task(messages: Sequence[Message]) -> Task:
    """The task that `messages` put; raises `ValueError` where they are no such prompt."""
    named = [message.text for message in messages if message.role == "system"]
    match = _NAME.fullmatch(named[0]) if len(named) == 1 else None
    if match is None:
        raise ValueError("no system message names a task that it knows")
    slots = (message.text.partition("\n") for message in messages if message.role == "user")
    return Task(
        grading="direct" if match[1] == "direct" else "pairwise",
        turns=(int(match[2]),) if match[2] else (1, 2, 3),
        texts={name: value for name, _, value in slots},
    )


def refuse_foreign(messages: Sequence[Message], judge: str, advice: str) -> None:
    """Raise `ConfigError` for messages that are no prompt of the judge's own, filled or not."""
    try:
        read_task(messages)
    except ValueError as error:
        raise ConfigError(str(foreign(judge, str(error), advice))) from error


def draw_side(task: Task) -> str:
    """A or B for two sides that are equally good, by the SHA-256 of their texts.

    The smaller hash wins, so that swapping the sides swaps the verdict; identical texts go to A or
    B by the hash's last bit.
    """
    a, b = (
        hash_bytes("\n".join(task.texts[f"{side}_{turn}"] for turn in task.turns).encode())
        for side in "ab"
    )
    if a == b:
        return "AB"[int(a, 16) % 2]
    return "A" if a < b else "B"


def foreign(judge: str, problem: str, advice: str) -> Refused:
    """The error of a judge for messages that are no filled prompt of its own."""
    return Refused("rejected", f"{judge} can't read these messages: {problem}. {advice}")
