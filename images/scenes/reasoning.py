"""The second turn: questions about the things that the first answer named.

Every answer goes through these things one by one, with a verdict on each, and ends with a number.
All of it follows from the first answer alone; the third turn takes up the things and the number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from images.scenes.perception import Group, Seen
from images.scenes.values import Thing
from images.scenes.wording import Property, Turn, capital, listed, the_thing


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoned:
    """What a second turn found about the things: a number."""

    turn: Turn
    things: tuple[Thing, ...]
    number: int


Task: TypeAlias = Callable[[Seen], list[Reasoned]]


def _count(seen: Seen) -> list[Reasoned]:
    return [
        _yes_or_no(
            "count",
            "Object Counting Reasoning",
            f"Check each one: how many are {asked.adjective}?",
            seen.things,
            _having(seen.things, asked),
        )
        for asked in _properties(seen.things)
    ]


def _remove(seen: Seen) -> list[Reasoned]:
    gone = [(group.gone, group.things) for group in seen.groups if group.things]
    gone += [
        (f"the {asked.noun} are", _having(seen.things, asked)) for asked in _properties(seen.things)
    ]
    return [
        _yes_or_no(
            "what if some are removed",
            "Counterfactual Examples",
            f"Check each one: which remain if {named} taken away?",
            seen.things,
            tuple(thing for thing in seen.things if thing not in things),
        )
        for named, things in gone
    ]


def _odd_one(seen: Seen) -> list[Reasoned]:
    odd = [thing for thing in seen.things if _stands_out(seen.things, thing)]
    if len(seen.things) < 3 or len(odd) != 1:
        return []
    return [
        _yes_or_no("odd one out", "Visual Commonsense Reasoning", asked, seen.things, tuple(odd))
        for asked in (
            "Check each one: which is the odd one out?",
            "Check each one: which does not fit?",
        )
    ]


def _stands_out(things: tuple[Thing, ...], odd: Thing) -> bool:
    """Whether all things but `odd` share a property that it has not."""
    rest = tuple(thing for thing in things if thing is not odd)
    return any(
        _having(rest, shared) == rest and not shared.holds(odd) for shared in _properties(rest[:1])
    )


def _double(seen: Seen) -> list[Reasoned]:
    return [_doubled(seen.things, asked) for asked in _properties(seen.things)]


def _doubled(things: tuple[Thing, ...], asked: Property) -> Reasoned:
    every = f"{asked.value} one" if asked.kind == "colour" else asked.value
    times = [2 if asked.holds(thing) else 1 for thing in things]
    return _checked(
        Turn(
            task="arithmetic",
            category="Math Reasoning",
            instruction=f"Check each one: how many are there if every {every} comes twice?",
            reference=_through(things, [str(time) for time in times], str(sum(times))),
        ),
        things,
        sum(times),
    )


def _compare(seen: Seen) -> list[Reasoned]:
    return [_compared(seen.things, *seen.groups)] if seen.groups else []


def _compared(things: tuple[Thing, ...], one: Group, other: Group) -> Reasoned:
    more, less = (one, other) if len(one.things) > len(other.things) else (other, one)
    by = len(more.things) - len(less.things)
    verdicts = [one.word if thing in one.things else other.word for thing in things]
    told = f"more {more.word}, by {by}" if by else "equal, by 0"
    return _checked(
        Turn(
            task="compare",
            category="Count Reasoning",
            instruction=f"Check each one: are there more {one.called} or more "
            f"{other.called}, and by how many?",
            reference=_through(things, verdicts, told),
        ),
        things,
        by,
    )


def _yes_or_no(
    task: str, category: str, asked: str, things: tuple[Thing, ...], yes: tuple[Thing, ...]
) -> Reasoned:
    verdicts = ["yes" if thing in yes else "no" for thing in things]
    turn = Turn(
        task=task,
        category=category,
        instruction=asked,
        reference=_through(things, verdicts, str(len(yes))),
    )
    return _checked(turn, things, len(yes))


def _checked(turn: Turn, things: tuple[Thing, ...], number: int) -> Reasoned:
    return Reasoned(turn=turn, things=things, number=number)


def _through(things: tuple[Thing, ...], verdicts: list[str], end: str) -> str:
    told = [f"{the_thing(thing)} {said}" for thing, said in zip(things, verdicts, strict=True)]
    return f"{capital(listed(told))}: {end}."


def _having(things: tuple[Thing, ...], asked: Property) -> tuple[Thing, ...]:
    return tuple(thing for thing in things if asked.holds(thing))


def _properties(things: tuple[Thing, ...]) -> list[Property]:
    """Colour and shape of every thing; frequent ones come as often as they occur."""
    colours = [Property("colour", thing.colour) for thing in things]
    return colours + [Property("shape", thing.shape) for thing in things]


TASKS: Mapping[str, Task] = {
    "count": _count,
    "compare": _compare,
    "odd one out": _odd_one,
    "what if some are removed": _remove,
    "arithmetic": _double,
}
"""Task -> every second turn of its kind that what was seen allows."""
