"""The third turn: a short text that must name the things which the second answer was about.

How well it is written is not judged anywhere here; its focus points ask only what can be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from images.scenes.values import Thing
from images.scenes.wording import Turn, all_a, the_thing


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """A third turn and its focus points, one question each."""

    turn: Turn
    focus_points: tuple[str, ...]


Task: TypeAlias = Callable[[tuple[Thing, ...]], Created]


def _caption(things: tuple[Thing, ...]) -> Created:
    turn = Turn(
        task="caption",
        category="Caption Generation",
        instruction="Write a caption for what you just named.",
        reference=f"A quiet picture of {all_a(things)}.",
    )
    return Created(turn=turn, focus_points=_named("caption", things))


def _slogan(things: tuple[Thing, ...]) -> Created:
    turn = Turn(
        task="slogan",
        category="Slogan Generation",
        instruction="Write a slogan for what you just named.",
        reference=f"Simply the best: {all_a(things)}!",
    )
    return Created(turn=turn, focus_points=_named("slogan", things))


def _story(things: tuple[Thing, ...]) -> Created:
    danced = "It danced" if len(things) == 1 else f"All {len(things)} danced"
    turn = Turn(
        task="two-line story",
        category="Story Writing",
        instruction="Tell a story of two lines about what you just named.",
        reference=f"Once upon a time we met {all_a(things)}.\n{danced} until the morning.",
    )
    points = [*_named("story", things), "Is the story two lines long?"]
    if len(things) > 1:
        points.append(f"Does the story say that there are {len(things)}?")
    return Created(turn=turn, focus_points=tuple(points))


def _named(what: str, things: tuple[Thing, ...]) -> tuple[str, ...]:
    named = [f"Does the {what} name {the_thing(thing)}?" for thing in things]
    return (*named, f"Does the {what} name no other object?")


TASKS: Mapping[str, Task] = {"caption": _caption, "slogan": _slogan, "two-line story": _story}
"""Task -> the third turn of its kind about some things."""
