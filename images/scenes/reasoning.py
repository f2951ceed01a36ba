"""The second turn: questions about the things that the first answer named.

Every answer can be worked out from the first one alone, and names the things that it is about; the
third turn is about these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import TypeAlias

from images.scenes.perception import Group, Seen
from images.scenes.values import Thing
from images.scenes.wording import Property, Turn, all_the, capital


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoned:
    """What a second turn found: the things that its answer names, at least one."""

    turn: Turn
    subjects: tuple[Thing, ...]


Task: TypeAlias = Callable[[Seen], list[Reasoned]]


def _count(seen: Seen) -> list[Reasoned]:
    return [_counted(seen.things, asked) for asked in _properties(seen.things)]


def _counted(things: tuple[Thing, ...], asked: Property) -> Reasoned:
    found = _having(things, asked)
    turn = Turn(
        task="count",
        category="Object Counting Reasoning",
        instruction=f"How many of them are {asked.adjective}? Name them.",
        reference=f"{capital(all_the(found))}: {len(found)} of them.",
    )
    return Reasoned(turn=turn, subjects=found)


def _compare(seen: Seen) -> list[Reasoned]:
    pairs = [seen.groups] if seen.groups else _kinds(seen.things)
    return [_compared(one, other) for one, other in pairs]


def _compared(one: Group, other: Group) -> Reasoned:
    more, less = (one, other) if len(one.things) > len(other.things) else (other, one)
    counts = f"{len(more.things)} to {len(less.things)}"
    if len(one.things) == len(other.things):
        subjects, told = one.things + other.things, f"Equal, {counts}"
    else:
        subjects, told = more.things, f"More {more.called}, {counts}"
    turn = Turn(
        task="compare",
        category="Count Reasoning",
        instruction=f"Are there more {one.called} or more {other.called}? Name them.",
        reference=f"{told}: {all_the(subjects)}.",
    )
    return Reasoned(turn=turn, subjects=subjects)


def _odd_one(seen: Seen) -> list[Reasoned]:
    found = [(thing, shared) for thing in seen.things for shared in _without(seen.things, thing)]
    if len(seen.things) < 3 or len(found) != 1:
        return []
    [(odd, shared)] = found
    told = f"{capital(all_the([odd]))}: the others are {shared.adjective}."
    return [
        Reasoned(
            turn=Turn(
                task="odd one out",
                category="Visual Commonsense Reasoning",
                instruction=asked,
                reference=told,
            ),
            subjects=(odd,),
        )
        for asked in (
            "Which of them is the odd one out, and why?",
            "Which one does not fit, and why?",
        )
    ]


def _without(things: tuple[Thing, ...], odd: Thing) -> list[Property]:
    """What all things but `odd` share, and it has not."""
    rest = tuple(thing for thing in things if thing is not odd)
    return [
        shared
        for shared in _properties(rest[:1])
        if _having(rest, shared) == rest and not shared.holds(odd)
    ]


def _remove(seen: Seen) -> list[Reasoned]:
    choices = list(seen.groups)
    if not seen.groups:
        choices = [
            Group(called="", gone="the first one is", things=seen.things[:1]),
            Group(called="", gone="the last one is", things=seen.things[-1:]),
        ]
    choices += [
        Group(called="", gone=f"the {asked.noun} are", things=_having(seen.things, asked))
        for asked in _properties(seen.things)
    ]
    return [
        _removed(seen.things, gone) for gone in choices if 0 < len(gone.things) < len(seen.things)
    ]


def _removed(things: tuple[Thing, ...], gone: Group) -> Reasoned:
    left = tuple(thing for thing in things if thing not in gone.things)
    turn = Turn(
        task="what if one is removed",
        category="Counterfactual Examples",
        instruction=f"Which of them remain if {gone.gone} taken away?",
        reference=f"{capital(all_the(left))}: {len(left)} in all.",
    )
    return Reasoned(turn=turn, subjects=left)


def _double(seen: Seen) -> list[Reasoned]:
    return [_doubled(seen.things, asked) for asked in _properties(seen.things)]


def _doubled(things: tuple[Thing, ...], asked: Property) -> Reasoned:
    twice = _having(things, asked)
    every = f"{asked.value} one" if asked.kind == "colour" else asked.value
    total = f"{len(things)} plus {len(twice)} is {len(things) + len(twice)}"
    turn = Turn(
        task="arithmetic",
        category="Math Reasoning",
        instruction=f"How many would there be if every {every} came twice? Name what is doubled.",
        reference=f"{capital(all_the(twice))}: {total}.",
    )
    return Reasoned(turn=turn, subjects=twice)


def _having(things: tuple[Thing, ...], asked: Property) -> tuple[Thing, ...]:
    return tuple(thing for thing in things if asked.holds(thing))


def _properties(things: tuple[Thing, ...]) -> list[Property]:
    """Colour and shape of every thing; frequent ones come as often as they occur."""
    colours = [Property("colour", thing.colour) for thing in things]
    return colours + [Property("shape", thing.shape) for thing in things]


def _kinds(things: tuple[Thing, ...]) -> list[tuple[Group, ...]]:
    """Pairs of groups that differ in colour, or in shape."""
    kinds = list(dict.fromkeys(_properties(things)))
    return [
        tuple(Group(called=each.noun, gone="", things=_having(things, each)) for each in pair)
        for pair in permutations(kinds, 2)
        if pair[0].kind == pair[1].kind
    ]


TASKS: Mapping[str, Task] = {
    "count": _count,
    "compare": _compare,
    "odd one out": _odd_one,
    "what if one is removed": _remove,
    "arithmetic": _double,
}
"""Task -> every second turn of its kind that what was seen allows."""

WEIGHTS: Mapping[str, int] = {"what if one is removed": 2}
"""Tasks that are asked more often than others: removal hangs on the most of the first answer."""
