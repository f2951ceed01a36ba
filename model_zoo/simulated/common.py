"""What models without weights share: options, counted replies, and the offline judges' prompts.

These are the prompts of `judges/prompts/convbench_reference`: the system message names the task,
each user message is the name of a slot, a line break, and its value.
"""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from mmconv.core.errors import ConfigError, Refused
from mmconv.core.keys import hash_bytes
from mmconv.core.types import Message, Reply, Sampling, SeenImage

_NAME = re.compile(r"(direct|pairwise) (?:turn ([123])|overall)(?: without .+)?")


class Offline:
    """The base of backends without a connection."""

    async def aclose(self) -> None:
        """Nothing needs closing."""


def counted(
    text: str, prompt: Iterable[str], messages: Sequence[Message], seconds: float = 0.0
) -> Reply:
    """A reply whose tokens are words, and that has seen every image as it is."""
    return Reply(
        text=text,
        input_tokens=sum(len(line.split()) for line in prompt),
        output_tokens=len(text.split()),
        seconds=seconds,
        seen=tuple(
            SeenImage(sha256=image.sha256, width=image.width, height=image.height)
            for message in messages
            for image in message.images
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a prompt requests: in which grading, of which turns (1-3), with which texts by slot."""

    grading: Literal["direct", "pairwise"]
    turns: tuple[int, ...]
    texts: Mapping[str, str]


def read_task(messages: Sequence[Message]) -> Task:
    """The task of a prompt; raises `ValueError` for other messages."""
    names = [message.text for message in messages if message.role == "system"]
    match = _NAME.fullmatch(names[0]) if len(names) == 1 else None
    if match is None:
        raise ValueError("no system message names a task that it knows")
    slots = (message.text.partition("\n") for message in messages if message.role == "user")
    return Task(
        grading="direct" if match[1] == "direct" else "pairwise",
        turns=(int(match[2]),) if match[2] else (1, 2, 3),
        texts={name: value for name, _, value in slots},
    )


def draw_side(task: Task) -> str:
    """A or B for two sides that are equally good: the one whose texts have the smaller SHA-256.

    So swapping the sides swaps the verdict. Identical texts go to A or B by the hash's last bit.
    """
    a, b = (
        hash_bytes("\n".join(task.texts[f"{side}_{turn}"] for turn in task.turns).encode())
        for side in "ab"
    )
    if a == b:
        return "AB"[int(a, 16) % 2]
    return "A" if a < b else "B"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineJudge(Offline, ABC):
    """A backend that judges tasks without a model; `name` and `advice` are for its errors."""

    name: ClassVar[str]
    advice: ClassVar[str]
    max_concurrency: int

    @abstractmethod
    def judge(self, task: Task) -> str:
        """The verdict; raises `KeyError` for a missing slot, `ValueError` for other texts."""

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Judge once, whatever the sampling; raises `Refused` for messages that are not a task."""
        start = time.perf_counter()
        try:
            # in a thread: long answers take tens of milliseconds, and others share the loop
            text = await asyncio.to_thread(self.judge, read_task(messages))
        except KeyError as error:
            raise Refused("rejected", self._problem(f"slot {error} is missing")) from error
        except ValueError as error:
            raise Refused("rejected", self._problem(error)) from error
        return Reply(text=text, seconds=time.perf_counter() - start)

    @classmethod
    def check_prompt(cls, messages: Sequence[Message]) -> None:
        """Raise `ConfigError` for messages that are not a task, filled or not."""
        try:
            read_task(messages)
        except ValueError as error:
            raise ConfigError(cls._problem(error)) from error

    @classmethod
    def _problem(cls, problem: object) -> str:
        return f"{cls.name} cannot read these messages: {problem}. {cls.advice}"
