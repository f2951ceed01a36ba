"""How the scene language puts things into words: names, lists, numbers. It decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from images.scenes.values import Thing


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a dialogue: the task's own name, its category in ConvBench's list, both texts."""

    task: str
    category: str
    instruction: str
    reference: str


@dataclass(frozen=True, slots=True)
class Property:
    """A colour or a shape, as what some things have and others have not."""

    kind: Literal["colour", "shape"]
    value: str

    def holds(self, thing: Thing) -> bool:
        """Whether `thing` has it."""
        return self.value == (thing.colour if self.kind == "colour" else thing.shape)

    @property
    def adjective(self) -> str:
        """After "are": "red", "circles"."""
        return self.value if self.kind == "colour" else plural(self.value)

    @property
    def noun(self) -> str:
        """What has it, in the plural: "red ones", "circles"."""
        return f"{self.value} ones" if self.kind == "colour" else plural(self.value)


def a_thing(thing: Thing) -> str:
    """The thing as it is first named: "an orange star"."""
    return f"{'an' if thing.name[0] in 'aeio' else 'a'} {thing.name}"


def the_thing(thing: Thing) -> str:
    """The thing as it is named again."""
    return f"the {thing.name}"


def listed(names: Sequence[str]) -> str:
    """Names as a list in a sentence; "nothing" if there are none."""
    if not names:
        return "nothing"
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def all_a(things: Sequence[Thing]) -> str:
    """A list of things named for the first time."""
    return listed([a_thing(thing) for thing in things])


def plural(shape: str) -> str:
    """More than one of a shape: "crosses"."""
    return f"{shape}es" if shape.endswith("s") else f"{shape}s"


def number_is(count: int) -> str:
    """A count with its verb: "1 is", "3 are"."""
    return f"{count} is" if count == 1 else f"{count} are"


def capital(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]
