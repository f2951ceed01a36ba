"""Words that families draw and ask about, in English and Chinese."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from images.drawn.canvas import Colour

Language: TypeAlias = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


class InBoth(Protocol):
    """What has a form in each language."""

    def __getitem__(self, language: Language) -> str: ...


Slot: TypeAlias = InBoth | str | float


@dataclass(frozen=True, slots=True)
class Text:
    """The same sentence in both languages; `{name}` are slots."""

    en: str
    zh: str

    def __getitem__(self, language: Language) -> str:
        return self.zh if language == "zh" else self.en

    def fill(self, **values: Slot) -> Text:
        """The sentence with its slots filled, each in its language."""
        return Text(*(self._filled(language, values) for language in LANGUAGES))

    def _filled(self, language: Language, values: Mapping[str, Slot]) -> str:
        words = {
            name: value if isinstance(value, str | float | int) else value[language]
            for name, value in values.items()
        }
        return self[language].format(**words)


@dataclass(frozen=True, slots=True)
class Term(Text):
    """A name in both languages, and what else a reply may call it."""

    also: tuple[str, ...] = ()

    @property
    def aliases(self) -> tuple[str, ...]:
        """Every spelling, whatever the language."""
        return tuple(dict.fromkeys((self.en, self.zh, *self.also)))


def named(terms: Iterable[Term], name: str) -> Term:
    """The term of an English name."""
    return next(term for term in terms if term.en == name)


def latin(name: str, *also: str) -> Term:
    """A name that is the same in both languages, since the image shows it."""
    return Term(name, name, also)


def listed(names: Sequence[str], language: Language) -> str:
    """Names as a list in a sentence."""
    if language == "zh":
        return "、".join(names[:-1]) + ("和" if len(names) > 1 else "") + names[-1]
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


def load_table(name: str) -> dict[str, Any]:
    """A TOML file of this folder."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))


def _frozen(entry: Any) -> Any:
    """The entry with tuples for lists: colours are tuples."""
    if isinstance(entry, dict):
        return {name: _frozen(value) for name, value in entry.items()}
    return tuple(map(_frozen, entry)) if isinstance(entry, list) else entry


_WORDS: Final = _frozen(load_table("words"))
TEXTS: Final = load_table("texts")
PATTERNS: Final = {
    name: re.compile("|".join([pattern] if isinstance(pattern, str) else pattern))
    for name, pattern in load_table("reading")["patterns"].items()
}
"""What is looked for in replies."""


def text(*keys: str | int) -> Text:
    """A sentence of `texts.toml`."""
    return Text(*_entry(keys))


def texts(*keys: str) -> list[Text]:
    """Sentences of `texts.toml`, one of which is drawn."""
    return [Text(*each) for each in _entry(keys)]


def _entry(keys: Sequence[str | int]) -> Any:
    entry: Any = TEXTS
    for key in keys:
        entry = entry[key]
    return entry


def _terms(kind: str) -> tuple[Term, ...]:
    return tuple(Term(en, zh, tuple(also)) for en, (zh, *also) in _WORDS[kind].items())


LOOKS: Final[dict[str, dict[str, tuple[Any, ...]]]] = _WORDS["looks"]
"""Family -> kind -> colours and captions, one of which is drawn."""
TONES: Final[dict[str, Colour]] = _WORDS["tones"]
GROUNDS: Final[dict[str, Colour]] = _WORDS["grounds"]
COLOURS: Final[dict[Term, Colour]] = {term: _WORDS["paints"][term.en] for term in _terms("colours")}
"""Colours that people name alike on a light ground."""
CLEAR_COLOURS: Final = [term for term in COLOURS if term.en not in ("brown", "grey", "pink")]
"""Those that small marks can have."""
SHAPES: Final = _terms("shapes")
"""The marks that a canvas draws."""
MONTHS: Final = _terms("months")
GOODS: Final = _terms("goods")
SIZES: Final = _terms("sizes")
HALVES: Final = _terms("halves")


def coloured(colour: Term, shape: Term) -> Term:
    """A mark of a colour."""
    return Term(f"{colour.en} {shape.en}", f"{colour.zh}{shape.zh}")


COLOURED = tuple(coloured(colour, shape) for colour in COLOURS for shape in SHAPES)


def road(one: Term, other: Term) -> Term:
    """The road between two places, in either direction."""
    return latin("-".join(sorted((one.en, other.en))))


_PLACES = "Oslo Lima Cairo Delhi Quito Paris Milan Kyoto Tunis Accra Perth Dakar"
_PEOPLE = "Anna Boris Chloe David Emma Felix Grace Henry Irene Jonas Karin Leo"
PLACES = tuple(latin(name) for name in _PLACES.split())
PEOPLE = tuple(latin(name) for name in _PEOPLE.split())
PUMPS = tuple(latin(f"P{number}", f"pump {number}", f"P-{number}") for number in range(1, 10))

TOWERS = tuple(Term(f"Tower {name}", f"{name}塔", (f"塔{name}", name)) for name in "ABCDEFGHK")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All terms of a kind, which one pattern finds; `spellings` give the place and the name."""

    names: frozenset[str]
    pattern: re.Pattern[str]
    spellings: Mapping[str, tuple[int, str]]
    sign: str = ""

    def name(self, match: re.Match[str]) -> str:
        """The English name of what the pattern found."""
        return self.sign.join(
            name
            for _, name in sorted(
                self.spellings[part.casefold()] for part in match.groups() if part
            )
        )


@cache
def _vocabulary(
    kinds: tuple[tuple[Term, ...], ...], between: str = "", reverse: str = "", sign: str = ""
) -> Vocabulary:
    """Terms of one name, or of two; `between` is found between these, `reverse` in reverse."""
    parts = [_any(terms) for terms in kinds]
    pattern = between.join(parts)
    if reverse:
        pattern += f"|{reverse.join(reversed(parts))}"
    spellings = {
        name.casefold(): (place, term.en)
        for place, terms in enumerate(kinds)
        for term in terms
        for name in term.aliases
    }
    names = frozenset(sign.join(term.en for term in terms) for terms in product(*kinds))
    return Vocabulary(names, re.compile(pattern, re.IGNORECASE), spellings, sign)


@cache
def _vocabularies() -> list[Vocabulary]:
    marks, between_marks = (tuple(COLOURS), SHAPES), PATTERNS["between_marks"].pattern
    return [
        *(_vocabulary((terms,)) for terms in (MONTHS, PLACES, PEOPLE, GOODS, PUMPS, TOWERS)),
        _vocabulary(marks, between_marks, r"(?:\s*[|(]\s*)", " "),
        _vocabulary((PLACES, PLACES), PATTERNS["between_places"].pattern, "", "-"),
    ]


def vocabulary_of(terms: Sequence[Term]) -> Vocabulary:
    """That of the kind of these terms, or one of these alone."""
    names = {term.en for term in terms}
    known = next((each for each in _vocabularies() if each.names >= names), None)
    return known or _vocabulary((tuple(terms),))


def _any(terms: Sequence[Term]) -> str:
    """A pattern for each spelling of each term, the longest first, and Latin plurals."""
    names = sorted({name for term in terms for name in term.aliases}, key=len, reverse=True)
    latin_ = "|".join(_latin(name) for name in names if name.isascii())
    han = "|".join(re.escape(name) for name in names if not name.isascii())
    return (
        rf"(?:(?<![A-Za-z\d])({latin_})(?:(?<=\w\w\w)e?s)?(?![A-Za-z\d])|(?<!\d)({han or '(?!)'}))"
    )


def _latin(name: str) -> str:
    """A pattern of a name; a single letter must be a capital and not the article, May no verb."""
    if name == "May":
        return "(?-i:May|MAY)"
    if len(name) > 1:
        return re.escape(name)
    return rf"(?-i:{name.upper()})(?! +(?:tower|block|total|single|few|stack|short|brief))"


def joined(terms: Sequence[InBoth]) -> Text:
    """Terms as a list in a sentence of either language."""
    return Text(*(listed([term[language] for term in terms], language) for language in LANGUAGES))
