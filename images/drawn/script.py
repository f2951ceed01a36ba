"""English dialogues about shapes of level 1: the sentences that the model `pocket` was trained on.

Perception asks what only the image answers. Its answer names things, in one order or in two groups.
Reasoning asks about just these things: a verdict on each, then a number. Creation asks for a short
text that names all of them and the number. The sentences are in `script.toml`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from images.drawn.reading import bindings, masked, plain
from images.drawn.truth import Check, Dialogue, Name, Number, Outcome, Turn
from images.drawn.words import COLOURED, HALVES, SIZES, find_terms, latin, listed, load_table

if TYPE_CHECKING:
    from images.drawn.shapes import Scene, Thing

Things: TypeAlias = "tuple[Thing, ...]"
GUESS: Final = 1 / (2 * len(COLOURED))
"""The chance to guess a thing and its size or half."""
_YES, _TIMES = ("yes", "no"), ("2", "1")
_ALIASES = {
    term.en: term for term in (*SIZES, *HALVES, latin("no", "not"), latin("others", "rest"))
}
_SCRIPT: Final[dict[str, dict[str, dict[str, Any]]]] = load_table("script")


@dataclass(frozen=True, slots=True)
class Line:
    """What is asked and answered; `verdicts` are words or numbers of which each thing gets one."""

    instruction: str
    reference: str
    verdicts: tuple[str, ...] = ()

    def check(self, reply: str) -> Check:
        """Compare what a reply says with the reference: names, verdicts, numbers, order, lines."""
        expected, stated = self._read(self.reference), self._read(reply)
        missed = (*(expected - stated).elements(), *(stated - expected).elements())
        share = (expected & stated).total() / (expected | stated).total()
        outcome: Outcome = "right" if not missed else "wrong" if stated else "unread"
        return Check(outcome, share, bool(stated), missed)

    def _read(self, reply: str) -> Counter[str]:
        """Each thing with its verdict, if any, and what else is said."""
        text = re.sub(r"(?<=\d):", " :", plain(reply))
        named = [*find_terms(COLOURED, text)]
        names = [str(each.value) for each in named]
        rest = re.sub(r"\b1 (?=\x00)", "", masked(text, named))  # "one red circle" does not count
        facts = [f"{mention.value:g}" for mention in Number(0).find(rest)]
        pairs: list[tuple[str, str]] = []
        if self.verdicts:
            terms = tuple(_ALIASES.get(word) or latin(word) for word in self.verdicts)
            kind = Number(0) if self.verdicts == _TIMES else Name(terms[0], terms)
            values = bindings(text, COLOURED, kind)
            pairs = [(name, f"{v:g}" if isinstance(v, float) else v) for name, v in values]
            if isinstance(kind, Name):
                facts += [str(mention.value) for mention in kind.find(rest)]
        said = Counter(f"{name}: {value}" for name, value in pairs)
        said += Counter(names) - Counter(name for name, _ in pairs)
        said += Counter(facts) - Counter(value for _, value in pairs)
        if "from left to right" in self.instruction and names:
            said[f"order: {', '.join(names)}"] += 1
        lines = [each for each in reply.splitlines() if each.strip()]
        if "\n" in self.reference and lines:
            said[f"{len(lines)} lines"] += 1
        return said


class _Group(NamedTuple):
    """Some things that an answer named. `called` follows "more", `gone` follows "if"."""

    word: str
    called: str
    gone: str
    things: Things


def write_script(scene: Scene, random: Random) -> Dialogue:
    """Three turns about `scene`, their tasks drawn by lot."""
    task, line, things, groups = _look(scene.things, random)
    first = _turn(scene, "perception", task, line, things)
    task, line, number = _reason(things, groups, random)
    second = _turn(scene, "reasoning", task, line, things)
    task = random.choice(tuple(_SCRIPT["creation"]))
    words = _SCRIPT["creation"][task]
    text = words["answer"].format(all=_all(things), number=number)
    third = _turn(scene, "creation", task, Line(words["question"], text), things)
    each, *others = words["demands"]
    demands = [each.format(thing=f"the {thing.name}") for thing in things]
    return Dialogue(
        turns=(first, second, third),
        caption=_describe(scene),
        answer=second.reference.rpartition(": ")[2].rstrip("."),
        demands=(*demands, *(demand.format(number=number) for demand in others)),
    )


def _turn(scene: Scene, level: str, task: str, line: Line, things: Things) -> Turn:
    """A turn about `things`; its mistake calls the first one by another shape's name."""
    names = {thing.name for thing in scene.things}
    name, colour = things[0].name, things[0].colour
    wrong = next(
        term.en for term in COLOURED if term.en.startswith(f"{colour} ") and term.en not in names
    )
    chances = {
        "perception": GUESS ** len(scene.things),
        "reasoning": 0.5 ** len(things),  # a verdict on each; the number follows from them
    }
    return Turn(
        task=task,
        category=_SCRIPT[level][task]["category"],
        instruction=line.instruction,
        truth=line.reference,
        reference=line.reference,
        mistake=re.sub(
            rf"(?i)\b{name}\b",
            lambda match: _capital(wrong) if match[0][0].isupper() else wrong,
            line.reference,
        ),
        check=line.check,
        chance=chances.get(level),
    )


def _look(things: Things, random: Random) -> tuple[str, Line, Things, list[_Group]]:
    """A task of perception, the things that its answer names, and their groups, if any."""
    splits: list[tuple[str, Things, Things]] = []
    while not splits:
        task = random.choice(tuple(_SCRIPT["perception"]))
        splits = _splits(task, things)
    words = _SCRIPT["perception"][task]
    questions = [(question, split) for split in splits for question in words["questions"]]
    question, (which, one, other) = random.choice(questions)
    answer = words["answer"].format(
        which=which, one=_all(one), other=_all(other), ones=_number(one), others=_number(other)
    )
    groups = [
        _Group(word.format(which=which), called.format(which=which), gone.format(which=which), part)
        for (word, called, gone), part in zip(words.get("groups", ()), (one, other), strict=False)
    ]
    verdicts = tuple(group.word for group in groups)
    line = Line(question.format(which=which), _capital(answer), verdicts)
    return task, line, one + other, groups


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


def _reason(things: Things, groups: list[_Group], random: Random) -> tuple[str, Line, int]:
    """A task of reasoning about the things of an answer, and the number that it finds."""
    questions: list[tuple[str, list[str], str, int]] = []
    while not questions:
        task = random.choice(tuple(_SCRIPT["reasoning"]))
        words, kinds = _SCRIPT["reasoning"][task], _TIMES if task == "arithmetic" else _YES
        if task != "compare":
            picks = _picks(task, words, things, groups)
            questions = [(ask, *_verdicts(kinds, things, picked)) for ask, picked in picks]
        elif groups:
            kinds = groups[0].word, groups[1].word
            questions = [_compare(words["groups"], things, *groups)]
    question, verdicts, end, number = random.choice(questions)
    parts = [f"the {thing.name} {word}" for thing, word in zip(things, verdicts, strict=True)]
    return task, Line(question, f"{_capital(_listed(parts))}: {end}.", kinds), number


def _compare(
    question: str, things: Things, one: _Group, other: _Group
) -> tuple[str, list[str], str, int]:
    """The question, the verdict on each thing, the end of the answer, and its number."""
    more, less = (one, other) if len(one.things) > len(other.things) else (other, one)
    by = len(more.things) - len(less.things)
    verdicts = [one.word if thing in one.things else other.word for thing in things]
    end = f"more {more.word}, by {by}" if by else "equal, by 0"
    return question.format(one=one.called, other=other.called), verdicts, end, by


def _verdicts(kinds: Sequence[str], things: Things, picked: Things) -> tuple[list[str], str, int]:
    """The verdict on each thing, the end of the answer, and its number."""
    yes, no = kinds
    number = len(picked) + (len(things) if kinds == _TIMES else 0)
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
