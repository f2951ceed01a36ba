"""The third turn: a short text that takes up all things that were named, and the number found.

How well it is written is not judged anywhere here; its focus points ask only what can be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from images.scenes.reasoning import Reasoned
from images.scenes.wording import Turn, all_a, the_thing


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """A third turn and its focus points, one question each."""

    turn: Turn
    focus_points: tuple[str, ...]


Task: TypeAlias = Callable[[Reasoned], Created]


def _caption(found: Reasoned) -> Created:
    turn = Turn(
        task="caption",
        category="Caption Generation",
        instruction="Write a caption that names them all and your number.",
        reference=f"A quiet picture of {all_a(found.things)}, with the number {found.number}.",
    )
    return Created(turn=turn, focus_points=_points("caption", found))


def _slogan(found: Reasoned) -> Created:
    turn = Turn(
        task="slogan",
        category="Slogan Generation",
        instruction="Write a slogan that names them all and your number.",
        reference=f"Simply the best: {all_a(found.things)}, {found.number} times!",
    )
    return Created(turn=turn, focus_points=_points("slogan", found))


def _story(found: Reasoned) -> Created:
    turn = Turn(
        task="two-line story",
        category="Story Writing",
        instruction="Tell a story of two lines that names them all and your number.",
        reference=f"Once upon a time we met {all_a(found.things)}.\n"
        f"We counted to {found.number} and danced until the morning.",
    )
    points = (*_points("story", found), "Is the story two lines long?")
    return Created(turn=turn, focus_points=points)


def _points(what: str, found: Reasoned) -> tuple[str, ...]:
    named = [f"Does the {what} name {the_thing(thing)}?" for thing in found.things]
    last = f"Does the {what} name no other object?", f"Does it give the number {found.number}?"
    return (*named, *last)


TASKS: Mapping[str, Task] = {"caption": _caption, "slogan": _slogan, "two-line story": _story}
"""Task -> the third turn of its kind about what was found."""
