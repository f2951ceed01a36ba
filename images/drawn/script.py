"""English dialogues about shapes of level 1: the sentences that the model `pocket` was trained on.

Perception asks what only the image answers. Its answer names things, in one order or in two groups.
Reasoning asks about just these things: a verdict on each, then a number. Creation asks for a short
text that names all of them and the number. The sentences are in `script.toml`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from images.drawn.reading import bindings, masked, plain
from images.drawn.truth import Check, Dialogue, Name, Number, Outcome, Turn
from images.drawn.words import COLOURED, HALVES, SIZES, find_terms, latin, listed, load_table

if TYPE_CHECKING:
    from images.drawn.shapes import Scene, Thing

Things: TypeAlias = "tuple[Thing, ...]"
Ask: TypeAlias = tuple[str, list[str], str, int]
"""A question of reasoning, the verdict on each thing, the end of the answer, and its number."""
GUESS: Final = 1 / (2 * len(COLOURED))
"""The chance to guess a thing and its size or half."""
_YES, _TIMES = ("yes", "no"), ("2", "1")
_ALIASES = {
    term.en: term for term in (*SIZES, *HALVES, latin("no", "not"), latin("others", "rest"))
}
_SCRIPT: Final = load_table("script")


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
        facts = [*Number(0).find(rest)]
        pairs: list[tuple[str, str]] = []
        if self.verdicts:
            terms = tuple(_ALIASES.get(word) or latin(word) for word in self.verdicts)
            kind = Number(0) if self.verdicts == _TIMES else Name(terms[0], terms)
            pairs = [(name, _written(value)) for name, value in bindings(text, COLOURED, kind)]
            facts += kind.find(rest) if isinstance(kind, Name) else ()
        said = Counter(f"{name}: {value}" for name, value in pairs)
        said += Counter(names) - Counter(name for name, _ in pairs)
        said += Counter(_written(fact.value) for fact in facts) - Counter(v for _, v in pairs)
        if "from left to right" in self.instruction and names:
            said[f"order: {', '.join(names)}"] += 1
        lines = [each for each in reply.splitlines() if each.strip()]
        if "\n" in self.reference and lines:
            said[f"{len(lines)} lines"] += 1
        return said


def _written(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


class _Group(NamedTuple):
    """Some things that an answer named. `called` follows "more", `gone` follows "if"."""

    word: str
    called: str
    gone: str
    things: Things


def write_script(scene: Scene, random: Random) -> Dialogue:
    """Three turns about `scene`, their tasks drawn by lot."""
    seen, line, things, groups = _look(scene.things, random)
    reason, conclusion, number = _reason(things, groups, random)
    create = random.choice([*_SCRIPT["creation"]])
    words = _SCRIPT["creation"][create]
    creation = Line(words["question"], words["answer"].format(all=_all(things), number=number))
    each, *others = words["demands"]
    demands = [each.format(thing=f"the {thing.name}") for thing in things]
    parts = [f"{_a(thing)} ({thing.size}, in the {thing.half} half)" for thing in scene.things]
    everything = listed(parts, "en")
    return Dialogue(
        turns=(
            _turn(scene, "perception", seen, line, things, GUESS ** len(scene.things)),
            # a verdict on each; the number follows from them
            _turn(scene, "reasoning", reason, conclusion, things, 0.5 ** len(things)),
            _turn(scene, "creation", create, creation, things),
        ),
        caption=f"On a plain {scene.ground} ground there is, from left to right, {everything}.",
        answer=conclusion.reference.rpartition(": ")[2].rstrip("."),
        demands=(*demands, *(demand.format(number=number) for demand in others)),
    )


def _turn(
    scene: Scene, level: str, task: str, line: Line, things: Things, chance: float | None = None
) -> Turn:
    """A turn about `things`; its mistake calls the first one by another shape's name."""
    names, first, right = {thing.name for thing in scene.things}, things[0], line.reference
    others = (term.en for term in COLOURED if term.en not in names)
    wrong = next(name for name in others if name.startswith(f"{first.colour} "))
    mistake, category = right.replace(first.name, wrong), _SCRIPT[level][task]["category"]
    return Turn(task, line.instruction, right, right, mistake, line.check, chance, category)


def _look(things: Things, random: Random) -> tuple[str, Line, Things, list[_Group]]:
    """A task of perception, the things that its answer names, and their groups, if any."""
    splits: list[tuple[str, Things, Things]] = []
    while not splits:
        task = random.choice([*_SCRIPT["perception"]])
        splits = _splits(task, things)
    words = _SCRIPT["perception"][task]
    questions = [(question, split) for split in splits for question in words["questions"]]
    question, (which, one, other) = random.choice(questions)
    slots = {"which": which, "one": _all(one), "other": _all(other)}
    answer = words["answer"].format(**slots, ones=_number(one), others=_number(other))
    groups = [
        _Group(word.format(which=which), called.format(which=which), gone.format(which=which), part)
        for (word, called, gone), part in zip(words.get("groups", ()), (one, other), strict=False)
    ]
    verdicts = tuple(group.word for group in groups)
    return task, Line(question.format(which=which), _capital(answer), verdicts), one + other, groups


def _splits(task: str, things: Things) -> list[tuple[str, Things, Things]]:
    """Each way in which a task splits the things in two, with what the question names."""
    if task == "list":
        return [("", things, ())]
    if task == "relation":
        places = range(len(things)) if len(things) >= 3 else ()
        return [(f"the {things[n].name}", things[:n], things[n + 1 :]) for n in places]
    key = {"colour": "colour", "count": "size", "position": "half"}[task]
    values = {"size": ["large"], "half": ["upper"]}.get(key, [thing.colour for thing in things])
    splits = [(value, _having(things, key, value)) for value in dict.fromkeys(values)]
    return [(value, part, _without(things, part)) for value, part in splits]


def _reason(things: Things, groups: list[_Group], random: Random) -> tuple[str, Line, int]:
    """A task of reasoning about the things of an answer, and the number that it finds."""
    asks: list[Ask] = []
    while not asks:
        task = random.choice([*_SCRIPT["reasoning"]])
        asks = _compare(groups, things) if task == "compare" else _picks(task, things, groups)
    question, verdicts, end, number = random.choice(asks)
    kinds = {"compare": tuple(group.word for group in groups), "arithmetic": _TIMES}
    parts = [f"the {thing.name} {word}" for thing, word in zip(things, verdicts, strict=True)]
    answer = f"{_capital(listed(parts, 'en'))}: {end}."
    return task, Line(question, answer, kinds.get(task, _YES)), number


def _compare(groups: list[_Group], things: Things) -> list[Ask]:
    """Which of two groups has more things, and by how many."""
    if not groups:
        return []
    one, other = groups
    less, more = sorted(groups, key=lambda group: len(group.things))
    by = len(more.things) - len(less.things)
    question = _SCRIPT["reasoning"]["compare"]["groups"].format(one=one.called, other=other.called)
    verdicts = [one.word if thing in one.things else other.word for thing in things]
    return [(question, verdicts, f"more {more.word}, by {by}" if by else "equal, by 0", by)]


def _picks(task: str, things: Things, groups: list[_Group]) -> list[Ask]:
    """The questions of a task that pick some of the things, which are counted."""
    words = _SCRIPT["reasoning"][task]
    picks: list[tuple[str, Things]] = []
    if task == "odd one out":
        odd = tuple(thing for thing in things if _stands_out(things, thing))
        is_one = len(things) >= 3 and len(odd) == 1
        picks = [(question, odd) for question in words["questions"] if is_one]
    else:
        for key, value in _properties(things):
            plural = f"{value}es" if value[-1] == "s" else f"{value}s"
            question = words[key].format(value=value, plural=plural)
            picks.append((question, _having(things, key, value)))
    if task == "what if some are removed":
        gone = [(words["groups"].format(gone=group.gone), group.things) for group in groups]
        removed = [*(pick for pick in gone if pick[1]), *picks]
        picks = [(question, _without(things, taken)) for question, taken in removed]
    (yes, no), more = (_TIMES, len(things)) if task == "arithmetic" else (_YES, 0)
    asks = []
    for question, picked in picks:
        number, verdicts = len(picked) + more, [yes if one in picked else no for one in things]
        asks.append((question, verdicts, str(number), number))
    return asks


def _stands_out(things: Things, odd: Thing) -> bool:
    """Whether all things but `odd` share a property that it lacks."""
    rest = _without(things, (odd,))
    shared = [each for each in _properties(rest[:1]) if _having(rest, *each) == rest]
    return any(not _having((odd,), *each) for each in shared)


def _properties(things: Things) -> list[tuple[str, str]]:
    """Colour and shape of every thing; frequent ones come as often as they occur."""
    return [(key, getattr(thing, key)) for key in ("colour", "shape") for thing in things]


def _having(things: Things, key: str, value: str) -> Things:
    return tuple(thing for thing in things if getattr(thing, key) == value)


def _without(things: Things, taken: Things) -> Things:
    return tuple(thing for thing in things if thing not in taken)


def _a(thing: Thing) -> str:
    return f"{'an' if thing.name[0] in 'aeio' else 'a'} {thing.name}"


def _all(things: Things) -> str:
    return listed([_a(thing) for thing in things], "en") if things else "nothing"


def _number(things: Things) -> str:
    return f"{len(things)} {'is' if len(things) == 1 else 'are'}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
