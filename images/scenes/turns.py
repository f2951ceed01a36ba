"""The three turns of a dialogue about a scene: every question that it allows, with its answer.

Perception asks what only the picture answers. Its answer names things with colour and shape, in one
order or in two groups. Reasoning asks about just these things, so that the answer before it is
enough: a verdict on each, then a number. Creation asks for a short text that names all things and
the number; how well it is written is not judged, so its focus points ask only what can be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from images.scenes.scene import Scene, Thing


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a dialogue: its task, the task's category in ConvBench's list, both texts."""

    task: str
    category: str
    instruction: str
    reference: str


@dataclass(frozen=True, slots=True)
class Property:
    """A colour or a shape, which some things have and others lack."""

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
        """The things that have it, in the plural: "red ones", "circles"."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Some of the things that an answer named, and their names in questions.

    `called` follows "more", `gone` follows "if", `word` is the group's own; `things` run from left
    to right.
    """

    word: str
    called: str
    gone: str
    things: tuple[Thing, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A first turn: the things that its answer names, and its groups, if any."""

    turn: Turn
    things: tuple[Thing, ...]
    groups: tuple[Group, ...] = ()


PerceptionTask: TypeAlias = Callable[[Scene], list[Seen]]


def _list(scene: Scene) -> list[Seen]:
    answer = f"{capital(all_a(scene.things))}."
    questions = (
        "List the objects from left to right.",
        "Which objects are in the picture, from left to right?",
    )
    return [
        Seen(turn=Turn("list", "Shape Recognition", question, answer), things=scene.things)
        for question in questions
    ]


def _colours(scene: Scene) -> list[Seen]:
    colours = dict.fromkeys(thing.colour for thing in scene.things)
    return [seen for colour in colours for seen in _coloured(scene, colour)]


def _coloured(scene: Scene, colour: str) -> list[Seen]:
    """Questions about the things of a colour and the others."""
    having = tuple(thing for thing in scene.things if thing.colour == colour)
    others = tuple(thing for thing in scene.things if thing.colour != colour)
    return _grouped(
        ("colour", "Color Recognition"),
        Group(word=colour, called=f"{colour} ones", gone=f"the {colour} ones are", things=having),
        Group(word="others", called="others", gone="the others are", things=others),
        f"{capital(colour)}: {all_a(having)}. Others: {all_a(others)}.",
        f"Which objects are {colour}, and which are the others?",
        f"Name the {colour} objects and then the others.",
    )


def _sizes(scene: Scene) -> list[Seen]:
    large = tuple(thing for thing in scene.things if thing.size == "large")
    small = tuple(thing for thing in scene.things if thing.size == "small")
    return _grouped(
        ("count", "Object Counting"),
        Group(word="large", called="large ones", gone="the large ones are", things=large),
        Group(word="small", called="small ones", gone="the small ones are", things=small),
        f"{number_is(len(large))} large: {all_a(large)}. "
        f"{number_is(len(small))} small: {all_a(small)}.",
        "How many objects are large and how many are small? Name them.",
        "Count and name the large and the small objects.",
    )


def _halves(scene: Scene) -> list[Seen]:
    upper = tuple(thing for thing in scene.things if thing.upper)
    lower = tuple(thing for thing in scene.things if not thing.upper)
    return _grouped(
        ("position", "Position Description"),
        Group(word="upper", called="in the upper half", gone="the upper half is", things=upper),
        Group(word="lower", called="in the lower half", gone="the lower half is", things=lower),
        f"In the upper half: {all_a(upper)}. In the lower half: {all_a(lower)}.",
        "Which objects are in the upper half and which in the lower half?",
        "What is in the upper half of the picture, and what in the lower half?",
    )


def _sides(scene: Scene) -> list[Seen]:
    """Questions about the things on either side of one thing; it is not itself in the answer."""
    if len(scene.things) < 3:
        return []
    turns = []
    for place, thing in enumerate(scene.things):
        anchor, left, right = the_thing(thing), scene.things[:place], scene.things[place + 1 :]
        turns += _grouped(
            ("relation", "Spatial Relationship Understanding"),
            Group(word="left", called="on the left", gone="the left side is", things=left),
            Group(word="right", called="on the right", gone="the right side is", things=right),
            f"On the left: {all_a(left)}. On the right: {all_a(right)}.",
            f"What is left of {anchor}, and what is right of it?",
            f"Which objects are on the left of {anchor} and which on the right?",
        )
    return turns


def _grouped(
    kind: tuple[str, str], first: Group, second: Group, answer: str, *questions: str
) -> list[Seen]:
    """Turns of a task and category (`kind`), whose questions have one answer in two groups."""
    things = first.things + second.things
    return [
        Seen(turn=Turn(*kind, question, answer), things=things, groups=(first, second))
        for question in questions
    ]


PERCEPTION: Mapping[str, PerceptionTask] = {
    "list": _list,
    "colour": _colours,
    "count": _sizes,
    "position": _halves,
    "relation": _sides,
}
"""Task -> every first turn of its kind that a scene allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoned:
    """A second turn, and the number that it found about the things."""

    turn: Turn
    things: tuple[Thing, ...]
    number: int


ReasoningTask: TypeAlias = Callable[[Seen], list[Reasoned]]


def _count(seen: Seen) -> list[Reasoned]:
    return [
        _yes_or_no(
            ("count", "Object Counting Reasoning"),
            f"Check each one: how many are {shared.adjective}?",
            seen.things,
            _having(seen.things, shared),
        )
        for shared in _properties(seen.things)
    ]


def _remove(seen: Seen) -> list[Reasoned]:
    gone = [(group.gone, group.things) for group in seen.groups if group.things]
    gone += [
        (f"the {shared.noun} are", _having(seen.things, shared))
        for shared in _properties(seen.things)
    ]
    return [
        _yes_or_no(
            ("what if some are removed", "Counterfactual Examples"),
            f"Check each one: which remain if {named} taken away?",
            seen.things,
            tuple(thing for thing in seen.things if thing not in things),
        )
        for named, things in gone
    ]


def _odd_one(seen: Seen) -> list[Reasoned]:
    odd = tuple(thing for thing in seen.things if _stands_out(seen.things, thing))
    if len(seen.things) < 3 or len(odd) != 1:
        return []
    kind = ("odd one out", "Visual Commonsense Reasoning")
    return [
        _yes_or_no(kind, question, seen.things, odd)
        for question in (
            "Check each one: which is the odd one out?",
            "Check each one: which does not fit?",
        )
    ]


def _stands_out(things: tuple[Thing, ...], odd: Thing) -> bool:
    """Whether all things but `odd` share a property that it lacks."""
    rest = tuple(thing for thing in things if thing is not odd)
    return any(
        _having(rest, shared) == rest and not shared.holds(odd) for shared in _properties(rest[:1])
    )


def _double(seen: Seen) -> list[Reasoned]:
    turns = []
    for shared in _properties(seen.things):
        every = f"{shared.value} one" if shared.kind == "colour" else shared.value
        times = [2 if shared.holds(thing) else 1 for thing in seen.things]
        question = f"Check each one: how many are there if every {every} comes twice?"
        verdicts = [str(time) for time in times]
        answer = _go_through(seen.things, verdicts, str(sum(times)))
        turn = Turn("arithmetic", "Math Reasoning", question, answer)
        turns.append(Reasoned(turn=turn, things=seen.things, number=sum(times)))
    return turns


def _compare(seen: Seen) -> list[Reasoned]:
    if not seen.groups:
        return []
    one, other = seen.groups
    more, less = (one, other) if len(one.things) > len(other.things) else (other, one)
    by = len(more.things) - len(less.things)
    question = (
        f"Check each one: are there more {one.called} or more {other.called}, and by how many?"
    )
    verdicts = [one.word if thing in one.things else other.word for thing in seen.things]
    end = f"more {more.word}, by {by}" if by else "equal, by 0"
    answer = _go_through(seen.things, verdicts, end)
    turn = Turn("compare", "Count Reasoning", question, answer)
    return [Reasoned(turn=turn, things=seen.things, number=by)]


def _yes_or_no(
    kind: tuple[str, str], question: str, things: tuple[Thing, ...], yes: tuple[Thing, ...]
) -> Reasoned:
    verdicts = ["yes" if thing in yes else "no" for thing in things]
    answer = _go_through(things, verdicts, str(len(yes)))
    return Reasoned(turn=Turn(*kind, question, answer), things=things, number=len(yes))


def _go_through(things: tuple[Thing, ...], verdicts: list[str], end: str) -> str:
    parts = [f"{the_thing(thing)} {word}" for thing, word in zip(things, verdicts, strict=True)]
    return f"{capital(listed(parts))}: {end}."


def _having(things: tuple[Thing, ...], shared: Property) -> tuple[Thing, ...]:
    return tuple(thing for thing in things if shared.holds(thing))


def _properties(things: tuple[Thing, ...]) -> list[Property]:
    """Colour and shape of every thing; frequent ones come as often as they occur."""
    colours = [Property("colour", thing.colour) for thing in things]
    return colours + [Property("shape", thing.shape) for thing in things]


REASONING: Mapping[str, ReasoningTask] = {
    "count": _count,
    "compare": _compare,
    "odd one out": _odd_one,
    "what if some are removed": _remove,
    "arithmetic": _double,
}
"""Task -> every second turn of its kind that a first turn allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """A third turn and its focus points, one question each."""

    turn: Turn
    focus_points: tuple[str, ...]


CreationTask: TypeAlias = Callable[[Reasoned], Created]


def _caption(reasoned: Reasoned) -> Created:
    question = "Write a caption that names them all and your number."
    answer = f"A quiet picture of {all_a(reasoned.things)}, with the number {reasoned.number}."
    turn = Turn("caption", "Caption Generation", question, answer)
    return Created(turn=turn, focus_points=_points("caption", reasoned))


def _slogan(reasoned: Reasoned) -> Created:
    question = "Write a slogan that names them all and your number."
    answer = f"Simply the best: {all_a(reasoned.things)}, {reasoned.number} times!"
    turn = Turn("slogan", "Slogan Generation", question, answer)
    return Created(turn=turn, focus_points=_points("slogan", reasoned))


def _story(reasoned: Reasoned) -> Created:
    question = "Tell a story of two lines that names them all and your number."
    answer = f"Once upon a time we met {all_a(reasoned.things)}.\n"
    answer += f"We counted to {reasoned.number} and danced until the morning."
    turn = Turn("two-line story", "Story Writing", question, answer)
    points = (*_points("story", reasoned), "Is the story two lines long?")
    return Created(turn=turn, focus_points=points)


def _points(text: str, reasoned: Reasoned) -> tuple[str, ...]:
    named = [f"Does the {text} name {the_thing(thing)}?" for thing in reasoned.things]
    number = f"Does it give the number {reasoned.number}?"
    return (*named, f"Does the {text} name no other object?", number)


CREATION: Mapping[str, CreationTask] = {
    "caption": _caption,
    "slogan": _slogan,
    "two-line story": _story,
}
"""Task -> the third turn of its kind about what was found."""
