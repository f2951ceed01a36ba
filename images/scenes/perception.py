"""The first turn: questions that only the picture answers, and what their answers bring up.

Each answer names things with colour and shape, in one order or in two groups; the second turn asks
about just these things, so that whoever reads the answer needs the picture no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from images.scenes.values import Scene, Thing
from images.scenes.wording import Turn, all_a, capital, number_is, the_thing


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Some of the things that an answer named, and how questions call them.

    `called` follows "more", `gone` follows "if", `word` is the group's own; `things` run from left
    to right.
    """

    word: str
    called: str
    gone: str
    things: tuple[Thing, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a first turn brought up: the things that its answer names, and its groups, if any."""

    turn: Turn
    things: tuple[Thing, ...]
    groups: tuple[Group, ...] = ()


Task: TypeAlias = Callable[[Scene], list[Seen]]


def _list(scene: Scene) -> list[Seen]:
    told = f"{capital(all_a(scene.things))}."
    asked = (
        "List the objects from left to right.",
        "Which objects are in the picture, from left to right?",
    )
    return [
        Seen(turn=_turn("list", "Shape Recognition", each, told), things=scene.things)
        for each in asked
    ]


def _colours(scene: Scene) -> list[Seen]:
    colours = dict.fromkeys(thing.colour for thing in scene.things)
    return [seen for colour in colours for seen in _coloured(scene, colour)]


def _coloured(scene: Scene, colour: str) -> list[Seen]:
    """Questions about what has a colour and what has not."""
    having = tuple(thing for thing in scene.things if thing.colour == colour)
    others = tuple(thing for thing in scene.things if thing.colour != colour)
    told = f"{capital(colour)}: {all_a(having)}. Others: {all_a(others)}."
    groups = (
        Group(word=colour, called=f"{colour} ones", gone=f"the {colour} ones are", things=having),
        Group(word="others", called="others", gone="the others are", things=others),
    )
    asked = (
        f"Which objects are {colour}, and which are the others?",
        f"Name the {colour} objects and then the others.",
    )
    return [_grouped(_turn("colour", "Color Recognition", each, told), groups) for each in asked]


def _sizes(scene: Scene) -> list[Seen]:
    large = tuple(thing for thing in scene.things if thing.size == "large")
    small = tuple(thing for thing in scene.things if thing.size == "small")
    told = f"{number_is(len(large))} large: {all_a(large)}. "
    told += f"{number_is(len(small))} small: {all_a(small)}."
    groups = (
        Group(word="large", called="large ones", gone="the large ones are", things=large),
        Group(word="small", called="small ones", gone="the small ones are", things=small),
    )
    asked = (
        "How many objects are large and how many are small? Name them.",
        "Count and name the large and the small objects.",
    )
    return [_grouped(_turn("count", "Object Counting", each, told), groups) for each in asked]


def _halves(scene: Scene) -> list[Seen]:
    upper = tuple(thing for thing in scene.things if thing.upper)
    lower = tuple(thing for thing in scene.things if not thing.upper)
    told = f"In the upper half: {all_a(upper)}. In the lower half: {all_a(lower)}."
    groups = (
        Group(word="upper", called="in the upper half", gone="the upper half is", things=upper),
        Group(word="lower", called="in the lower half", gone="the lower half is", things=lower),
    )
    asked = (
        "Which objects are in the upper half and which in the lower half?",
        "What is in the upper half of the picture, and what in the lower half?",
    )
    return [
        _grouped(_turn("position", "Position Description", each, told), groups) for each in asked
    ]


def _sides(scene: Scene) -> list[Seen]:
    if len(scene.things) < 3:
        return []
    return [seen for place in range(len(scene.things)) for seen in _beside(scene, place)]


def _beside(scene: Scene, place: int) -> list[Seen]:
    """Questions about what stands on either side of one thing; it is not asked about itself."""
    anchor = the_thing(scene.things[place])
    left, right = scene.things[:place], scene.things[place + 1 :]
    told = f"On the left: {all_a(left)}. On the right: {all_a(right)}."
    groups = (
        Group(word="left", called="on the left", gone="the left side is", things=left),
        Group(word="right", called="on the right", gone="the right side is", things=right),
    )
    asked = (
        f"What is left of {anchor}, and what is right of it?",
        f"Which objects are on the left of {anchor} and which on the right?",
    )
    return [
        _grouped(_turn("relation", "Spatial Relationship Understanding", each, told), groups)
        for each in asked
    ]


def _turn(task: str, category: str, asked: str, told: str) -> Turn:
    return Turn(task=task, category=category, instruction=asked, reference=told)


def _grouped(turn: Turn, groups: tuple[Group, Group]) -> Seen:
    return Seen(turn=turn, things=groups[0].things + groups[1].things, groups=groups)


TASKS: Mapping[str, Task] = {
    "list": _list,
    "colour": _colours,
    "count": _sizes,
    "position": _halves,
    "relation": _sides,
}
"""Task -> every first turn of its kind that a scene allows."""
