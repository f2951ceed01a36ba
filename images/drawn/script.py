"""English dialogues about shapes of level 1: the sentences that the model `pocket` was trained on.

Perception asks what only the image answers. Its answer names things, in one order or in two groups.
Reasoning asks about just these things: a verdict on each, then a number. Creation asks for a short
text that names all of them and the number. The sentences are in `texts.toml`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from images.drawn.reading import Check, Outcome, bindings, masked, plain
from images.drawn.truth import Name, Number, Value, find_terms
from images.drawn.words import COLOURED, HALVES, SIZES, TEXTS, Term, latin, listed

if TYPE_CHECKING:
    from images.drawn.shapes import Scene, Thing

Things: TypeAlias = "tuple[Thing, ...]"
_YES, _TIMES = ("yes", "no"), ("2", "1")
_SCRIPT: Final[dict[str, dict[str, dict[str, Any]]]] = TEXTS["script"]


@dataclass(frozen=True, slots=True)
class Line:
    """A turn: its task, the task's category in ConvBench's list, both texts.

    `verdicts` are the words or numbers one of which the answer gives each of the `things`, if any.
    """

    task: str
    category: str
    instruction: str
    reference: str
    things: Things
    verdicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Three turns about one scene, a caption of the image, and what the third turn must contain."""

    turns: tuple[Line, Line, Line]
    caption: str
    demands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Group:
    """Some things that an answer named. `called` follows "more", `gone` follows "if"."""

    word: str
    called: str
    gone: str
    things: Things


def write_script(scene: Scene, random: Random) -> Script:
    """Three turns about `scene`, their tasks drawn by lot."""
    first, groups = _look(scene.things, random)
    second, number = _reason(first.things, groups, random)
    task = random.choice(tuple(_SCRIPT["creation"]))
    words, things = _SCRIPT["creation"][task], first.things
    answer = words["answer"].format(all=_all(things), number=number)
    each, *others = words["demands"]
    demands = [each.format(thing=f"the {thing.name}") for thing in things]
    return Script(
        turns=(first, second, Line(task, words["category"], words["question"], answer, things)),
        caption=_describe(scene),
        demands=(*demands, *(demand.format(number=number) for demand in others)),
    )


def _look(things: Things, random: Random) -> tuple[Line, list[_Group]]:
    """A question of perception, and the groups of its answer, if any."""
    splits: list[tuple[str, Things, Things]] = []
    while not splits:
        task = random.choice(tuple(_SCRIPT["perception"]))
        splits = _splits(task, things)
    words = _SCRIPT["perception"][task]
    questions = [(question, split) for split in splits for question in words["questions"]]
    question, (which, *parts) = random.choice(questions)
    one, other = parts
    answer = words["answer"].format(
        which=which, one=_all(one), other=_all(other), ones=_number(one), others=_number(other)
    )
    groups = [
        _Group(word.format(which=which), called.format(which=which), gone.format(which=which), part)
        for (word, called, gone), part in zip(words.get("groups", ()), parts, strict=False)
    ]
    verdicts, things = tuple(group.word for group in groups), one + other
    asked = question.format(which=which)
    return Line(task, words["category"], asked, _capital(answer), things, verdicts), groups


def _splits(task: str, things: Things) -> list[tuple[str, Things, Things]]:
    """Each way in which a task splits the things in two, with what the question names."""
    if task == "list":
        return [("", things, ())]
    if task == "relation":
        places = range(len(things)) if len(things) >= 3 else ()
        return [(f"the {things[n].name}", things[:n], things[n + 1 :]) for n in places]
    key, values = {
        "colour": ("colour", [*dict.fromkeys(thing.colour for thing in things)]),
        "count": ("size", ["large"]),
        "position": ("half", ["upper"]),
    }[task]
    return [
        (value, _having(things, key, value), _having(things, key, value, lack=True))
        for value in values
    ]


def _reason(things: Things, groups: list[_Group], random: Random) -> tuple[Line, int]:
    """A question of reasoning about the things of an answer, and the number that it finds."""
    questions: list[tuple[str, list[str], str, int]] = []
    while not questions:
        task = random.choice(tuple(_SCRIPT["reasoning"]))
        words = _SCRIPT["reasoning"][task]
        if task == "compare":
            questions = [_compare(words["groups"], things, *groups)] if groups else []
        else:
            questions = [
                (question, *_verdicts(task, things, picked))
                for question, picked in _picks(task, words, things, groups)
            ]
    question, verdicts, end, number = random.choice(questions)
    parts = [f"the {thing.name} {word}" for thing, word in zip(things, verdicts, strict=True)]
    answer = f"{_capital(_listed(parts))}: {end}."
    kinds = (
        tuple(group.word for group in groups)
        if task == "compare"
        else _TIMES
        if task == "arithmetic"
        else _YES
    )
    return Line(task, words["category"], question, answer, things, kinds), number


def _compare(
    question: str, things: Things, one: _Group, other: _Group
) -> tuple[str, list[str], str, int]:
    """The question, the verdict on each thing, the end of the answer, and its number."""
    more, less = (one, other) if len(one.things) > len(other.things) else (other, one)
    by = len(more.things) - len(less.things)
    verdicts = [one.word if thing in one.things else other.word for thing in things]
    end = f"more {more.word}, by {by}" if by else "equal, by 0"
    return question.format(one=one.called, other=other.called), verdicts, end, by


def _verdicts(task: str, things: Things, picked: Things) -> tuple[list[str], str, int]:
    """The verdict on each thing, the end of the answer, and its number."""
    counts_twice = task == "arithmetic"
    yes, no = _TIMES if counts_twice else _YES
    number = len(picked) + (len(things) if counts_twice else 0)
    return [yes if thing in picked else no for thing in things], str(number), number


def _picks(
    task: str, words: dict[str, Any], things: Things, groups: list[_Group]
) -> list[tuple[str, Things]]:
    """Each question of a task with the things that it is about."""
    if task == "odd one out":
        odd = tuple(thing for thing in things if _stands_out(things, thing))
        is_one = len(things) >= 3 and len(odd) == 1
        return [(question, odd) for question in words["questions"]] if is_one else []
    shared = [
        (
            words[key].format(
                value=value, plural=f"{value}es" if value[-1] == "s" else f"{value}s"
            ),
            _having(things, key, value),
        )
        for key, value in _properties(things)
    ]
    if task != "what if some are removed":
        return shared
    gone = [(words["groups"].format(gone=group.gone), group.things) for group in groups]
    removed = [*(pick for pick in gone if pick[1]), *shared]
    return [
        (question, tuple(thing for thing in things if thing not in taken))
        for question, taken in removed
    ]


def _stands_out(things: Things, odd: Thing) -> bool:
    """Whether all things but `odd` share a property that it lacks."""
    rest = tuple(thing for thing in things if thing is not odd)
    return any(
        _having(rest, *shared) == rest and not _having((odd,), *shared)
        for shared in _properties(rest[:1])
    )


def _properties(things: Things) -> list[tuple[str, str]]:
    """Colour and shape of every thing; frequent ones come as often as they occur."""
    return [(key, getattr(thing, key)) for key in ("colour", "shape") for thing in things]


def _having(things: Things, key: str, value: str, *, lack: bool = False) -> Things:
    return tuple(thing for thing in things if (getattr(thing, key) == value) is not lack)


def _describe(scene: Scene) -> str:
    """All things of an image, in one sentence."""
    names = [f"{_a(thing)} ({thing.size}, in the {thing.half} half)" for thing in scene.things]
    return f"On a plain {scene.ground} ground there is, from left to right, {_listed(names)}."


def _a(thing: Thing) -> str:
    return f"{'an' if thing.name[0] in 'aeio' else 'a'} {thing.name}"


def _all(things: Sequence[Thing]) -> str:
    return _listed([_a(thing) for thing in things])


def _listed(names: Sequence[str]) -> str:
    return listed(names, "en") if names else "nothing"


def _number(things: Things) -> str:
    return f"{len(things)} {'is' if len(things) == 1 else 'are'}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def misname(line: Line, others: Sequence[Term]) -> str:
    """The answer with one thing called by the name of another shape that is not in the image."""
    thing = line.things[0]
    wrong = next(other.en for other in others if other.en.startswith(f"{thing.colour} "))
    return re.sub(
        rf"(?i)\b{thing.name}\b",
        lambda m: wrong.capitalize() if m[0][0].isupper() else wrong,
        line.reference,
    )


def check_line(reply: str, line: Line) -> Check:
    """Compare what a reply says with the reference: names, verdicts, numbers, order and lines."""
    expected, stated = (_read(text, line) for text in (line.reference, reply))
    missed = (*(expected - stated).elements(), *(stated - expected).elements())
    share = (expected & stated).total() / (expected | stated).total()
    outcome: Outcome = "right" if not missed else "wrong" if stated else "unread"
    return Check(outcome, share, bool(stated), missed)


def _read(reply: str, line: Line) -> Counter[str]:
    """Each thing with its verdict, if any, and what else is said."""
    text = re.sub(r"(?<=\d):", " :", plain(reply))
    named = [*find_terms(COLOURED, text)]
    names = [str(each.value) for each in named]
    rest = re.sub(r"\b1 (?=\x00)", "", masked(text, named))  # "one red circle" does not count
    facts = [f"{mention.value:g}" for mention in Number(0).find(rest)]
    pairs: list[tuple[str, str]] = []
    if line.verdicts:
        kind = _kind(line.verdicts)
        values = bindings(text, COLOURED, kind)
        pairs = [(name, f"{v:g}" if isinstance(v, float) else v) for name, v in values]
        if isinstance(kind, Name):
            facts += [str(mention.value) for mention in kind.find(rest)]
    said = Counter(f"{name}: {value}" for name, value in pairs)
    said += Counter(names) - Counter(name for name, _ in pairs)
    said += Counter(facts) - Counter(value for _, value in pairs)
    if "from left to right" in line.instruction and names:
        said[f"order: {', '.join(names)}"] += 1
    lines = [each for each in reply.splitlines() if each.strip()]
    if "\n" in line.reference and lines:
        said[f"{len(lines)} lines"] += 1
    return said


def _kind(verdicts: tuple[str, ...]) -> Value:
    """The kind of value that a thing gets: a number, or one of some words."""
    if verdicts == _TIMES:
        return Number(0)
    terms = tuple(_ALIASES.get(word) or latin(word) for word in verdicts)
    return Name(terms[0], terms)


_ALIASES = {term.en: term for term in (*SIZES, *HALVES)} | {
    "no": latin("no", "not"),
    "others": latin("others", "rest"),
}
