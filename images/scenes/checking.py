"""Checks an answer about a scene against the reference, fact by fact, whatever its wording.

A fact is a thing, with the verdict right behind it ("red circle, yes") or the group that it belongs
to ("red circle, large"), or a number, a colour, a size, a place or a "nothing" on its own. Nothing
else counts: neither style nor truth beyond the reference is judged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from itertools import product
from typing import Final

from images.scenes.scene import COLOURS, SHAPES, SIZES
from images.scenes.turns import plural

_OTHER_COLOURS = ("pink", "white", "grey", "brown", "cyan", "magenta", "gold", "silver", "teal")
_OTHER_SHAPES = ("rectangle", "oval", "ellipse", "pentagon", "hexagon", "octagon", "heart", "ring")
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

_COLOURS: Final[Mapping[str, str]] = {
    **{name: name for name in (*COLOURS, *_OTHER_COLOURS)},
    "gray": "grey",
    "violet": "purple",
}
_SHAPES: Final[Mapping[str, str]] = {
    **{name: name for name in (*SHAPES, *_OTHER_SHAPES)},
    **{plural(name): name for name in (*SHAPES, *_OTHER_SHAPES)},
    "disc": "circle",
    "discs": "circle",
    "rhombus": "diamond",
    "rhombi": "diamond",
}
_SIZES: Final[Mapping[str, str]] = {
    **{name: name for name in SIZES},
    "big": "large",
    "little": "small",
    "tiny": "small",
}
_PLACES: Final[Mapping[str, str]] = {
    "upper": "upper",
    "top": "upper",
    "lower": "lower",
    "bottom": "lower",
    "left": "left",
    "right": "right",
    "others": "others",
    "rest": "others",
}
_OTHERS: Final[Mapping[str, str]] = {
    "nothing": "nothing",
    "none": "nothing",
    "equal": "equal",
    "equally": "equal",
    "same": "equal",
}

_ANSWERS: Final[Mapping[str, str]] = {"yes": "yes", "no": "no", "not": "no", **_COLOURS}
_LINKS = ("is", "are", "does", ":")
_END = "."
_OPPOSITES = (("yes", "no"), SIZES, ("upper", "lower"), ("left", "right"))

_ORDERED = "from left to right"
_FILLED = re.compile(r"from (?:the )?left to (?:the )?right|(?:is|are) left\b(?! of)")
_DESCRIBED_AFTER = re.compile(
    rf"\b({'|'.join(_SHAPES)})\s+(?:is|are)\s+(?:an?\s+)?({'|'.join(_COLOURS)})\b"
)
_TOKEN = re.compile(r"[a-z]+|\d+|[.,:;!?]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """An answer's facts, `right` or `wrong`, and those `missing` from it."""

    right: tuple[str, ...]
    missing: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether all facts are there and no other."""
        return not self.missing and not self.wrong

    @property
    def share(self) -> float:
        """Right facts among all that were expected or stated, 0 to 1; 1 only if exact."""
        stated = len(self.right) + len(self.missing) + len(self.wrong)
        return len(self.right) / stated if stated else 1.0


def check(answer: str, reference: str, instruction: str) -> Check:
    """Compare the facts of `answer` with those of `reference`.

    Their order counts where the instruction asks for one ("from left to right"). A reference of
    several lines wants as many.
    """
    expected, stated = facts_of(reference), facts_of(answer)
    lines = len(_lines(reference))
    if lines > 1:
        expected.append(f"{lines} lines")
        stated.append(f"{len(_lines(answer))} lines")
    if _ORDERED in instruction:
        return _in_order(expected, stated)
    both = Counter(expected) & Counter(stated)
    return Check(
        right=tuple(both.elements()),
        missing=tuple((Counter(expected) - both).elements()),
        wrong=tuple((Counter(stated) - both).elements()),
    )


def facts_of(text: str) -> list[str]:
    """The facts of a text, in its order."""
    plain = _FILLED.sub(" ", text.casefold())
    reader = _Reader()
    tokens = _TOKEN.findall(_DESCRIBED_AFTER.sub(r"\2 \1", plain))
    return [fact for token in [*tokens, _END] for fact in reader.read(token)]


@cache
def falsify(reference: str, instruction: str) -> str:
    """The reference with its facts changed: as few as possible stay right.

    Colours, shapes, sizes, places, verdicts and numbers are replaced by others of their kind.
    """
    shifts = product(range(1, 4), range(3), (1, -1))
    falsified = [_changed(reference, *shift) for shift in shifts]
    return min(falsified, key=lambda text: check(text, reference, instruction).share)


def _changed(text: str, colours: int, shapes: int, number: int) -> str:
    """The text with its words replaced, and its numbers a number greater."""
    plurals = tuple(map(plural, SHAPES))
    words = {other: one for pair in _OPPOSITES for one, other in (pair, pair[::-1])}
    for names, shift in ((COLOURS, colours), (SHAPES, shapes), (plurals, shapes)):
        words |= dict(zip(names, names[shift:] + names[:shift], strict=True))

    def replaced(match: re.Match[str]) -> str:
        word = match[0]
        if word.isdecimal():
            return str(max(0, int(word) + number) or 2)
        new = words.get(word.lower(), word)
        return new.capitalize() if word[0].isupper() else new

    # the order that an instruction asked for is not a fact
    parts = re.split(f"({_ORDERED})", text)
    return "".join(
        part if part == _ORDERED else re.sub(r"[A-Za-z]+|\d+", replaced, part) for part in parts
    )


class _Reader:
    """Makes facts of the tokens of a text, one after another.

    `group` is the last heading ("large:"), `thing` may still get a verdict, `owner` is
    its size or group. `number`, `size` and `colour` wait for the shape that they belong to.
    """

    def __init__(self) -> None:
        self.group = self.thing = self.owner = ""
        self.number = self.size = self.colour = ""

    def read(self, token: str) -> Iterator[str]:
        """The facts that are complete with `token`."""
        if self.thing:
            if token in _LINKS:
                return
            verdict = (
                _ANSWERS.get(token) or _SIZES.get(token) or _PLACES.get(token) or _number(token)
            )
            yield ", ".join(filter(None, (self.thing, verdict or self.owner)))
            self.thing = ""
            if verdict:
                return
        if token in _SHAPES:
            self._name(_SHAPES[token])
        elif not self._describes(token):
            yield from self._close(token)

    def _name(self, shape: str) -> None:
        counted = "" if self.number == "1" and self.colour else self.number
        self.thing = " ".join(filter(None, (counted, self.colour, shape)))
        self.owner = self.size or self.group
        self.number = self.size = self.colour = ""

    def _describes(self, token: str) -> bool:
        """Whether the token describes a shape that may follow; if so, keep it."""
        if token in _COLOURS:
            self.colour = _COLOURS[token]
        elif token in _SIZES:
            self.size = _SIZES[token]
        elif token == "one" and (self.colour or self.size):
            return True  # "the red one": a pronoun, no number
        elif _number(token):
            self.number = _number(token)
        else:
            return False
        return True

    def _close(self, token: str) -> Iterator[str]:
        """Words without a shape are facts of their own; a size or colour then heads a group."""
        yield from filter(None, (self.number, self.size, self.colour))
        self.group = self.size or self.colour or self.group
        self.number = self.size = self.colour = ""
        if token in _PLACES:
            self.group = _PLACES[token]
            yield self.group
        elif token in _OTHERS:
            yield _OTHERS[token]


def _number(token: str) -> str:
    """A number in digits, whether written so or as a word; empty for other words."""
    if token.isdecimal():
        return token.lstrip("0") or "0"
    return str(_NUMBERS.index(token)) if token in _NUMBERS else ""


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _in_order(expected: Sequence[str], stated: Sequence[str]) -> Check:
    matcher = SequenceMatcher(None, expected, stated, autojunk=False)
    blocks = matcher.get_matching_blocks()
    kept = {block.a + step for block in blocks for step in range(block.size)}
    met = {block.b + step for block in blocks for step in range(block.size)}
    return Check(
        right=tuple(fact for place, fact in enumerate(expected) if place in kept),
        missing=tuple(fact for place, fact in enumerate(expected) if place not in kept),
        wrong=tuple(fact for place, fact in enumerate(stated) if place not in met),
    )
