"""Words that families draw and ask about, in English and Chinese, and how they are found."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, get_args

Language: TypeAlias = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
Colour: TypeAlias = tuple[int, int, int]


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

        def filled(language: Language) -> str:
            plain = str | float | int
            words = {k: v if isinstance(v, plain) else v[language] for k, v in values.items()}
            return self[language].format(**words)

        return Text(*map(filled, LANGUAGES))


@dataclass(frozen=True, slots=True)
class Term(Text):
    """A name in both languages, and what else a reply may call it."""

    also: tuple[str, ...] = ()


def load_table(name: str, make: Callable[[list[Any]], Any] = tuple) -> dict[str, Any]:
    """A TOML file of this folder, with what `make` makes of each list of plain values."""

    def convert(entry: Any) -> Any:
        if isinstance(entry, dict):
            return {key: convert(value) for key, value in entry.items()}
        if not isinstance(entry, list):
            return entry
        return [*map(convert, entry)] if entry and isinstance(entry[0], list) else make(entry)

    path = Path(__file__).with_name(f"{name}.toml")
    table: dict[str, Any] = convert(tomllib.loads(path.read_text("utf-8")))
    return table


_WORDS: Final = load_table("words")
TEXTS: Final = load_table("texts", lambda pair: Text(*pair))
"""Family -> what it asks: a `Text`, or several of which one is drawn."""
READING: Final = load_table("reading")
PATTERNS: Final = {
    name: re.compile(pattern if isinstance(pattern, str) else "|".join(pattern))
    for name, pattern in READING["patterns"].items()
}
"""What is looked for in replies."""


def _terms(kind: str) -> tuple[Term, ...]:
    spellings = {en: others or (en,) for en, others in _WORDS[kind].items()}
    return tuple(Term(en, zh, tuple(also)) for en, (zh, *also) in spellings.items())


LOOKS: Final[dict[str, dict[str, Sequence[Any]]]] = _WORDS["looks"]
"""Family -> kind -> colours and captions, one of which is drawn."""
TONES: Final[dict[str, Colour]] = _WORDS["tones"]
GROUNDS: Final[dict[str, Colour]] = _WORDS["grounds"]
COLOURS: Final[dict[Term, Colour]] = {term: _WORDS["paints"][term.en] for term in _terms("colours")}
"""Colours that people name alike on a light ground."""
CLEAR_COLOURS: Final = [term for term in COLOURS if term.en not in ("brown", "grey", "pink")]
"""Those that small marks can have."""
SHAPES, MONTHS, GOODS, SIZES, HALVES = map(_terms, ("shapes", "months", "goods", "sizes", "halves"))
PLACES, PEOPLE, PUMPS, TOWERS = map(_terms, ("places", "people", "pumps", "towers"))


def coloured(colour: Term, shape: Term) -> Term:
    """A mark of a colour."""
    return Term(f"{colour.en} {shape.en}", f"{colour.zh}{shape.zh}")


COLOURED = tuple(coloured(colour, shape) for colour in COLOURS for shape in SHAPES)


def latin(name: str, *also: str) -> Term:
    """A name that is the same in both languages."""
    return Term(name, name, also)


def road(one: Term, other: Term) -> Term:
    """The road between two places, in either direction."""
    return latin("-".join(sorted((one.en, other.en))))


def named(terms: Sequence[Term], name: str) -> Term:
    """The term of an English name."""
    return next(term for term in terms if term.en == name)


def listed(names: Sequence[str], language: Language) -> str:
    """Names as a list in a sentence."""
    comma, last = ("、", "和") if language == "zh" else (", ", " and ")
    return comma.join(names[:-1]) + (last if len(names) > 1 else "") + names[-1]


def joined(terms: Sequence[InBoth]) -> Text:
    """Terms as a list in a sentence of either language."""
    return Text(*(listed([term[language] for term in terms], language) for language in LANGUAGES))


class Mention(NamedTuple):
    """Where a text mentions a value of some kind, and which."""

    start: int
    end: int
    value: float | str


class Vocabulary(NamedTuple):
    """All names of a kind, the pattern that finds them, and which name it found."""

    names: set[str]
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], str]


@cache
def _vocabulary(
    *kinds: tuple[Term, ...], between: str = "", reverse: str = "", sign: str = ""
) -> Vocabulary:
    """Terms of a kind, or pairs whose names `sign` joins; the longest alias counts."""
    parts = [_any(terms) for terms in kinds]
    pattern = between.join(parts) + (f"|{reverse.join(parts[::-1])}" if reverse else "")
    spellings = {
        name.casefold(): (place, term.en)
        for place, terms in enumerate(kinds)
        for term in terms
        for name in (term.en, term.zh, *term.also)
    }

    def read(match: re.Match[str]) -> str:
        found = sorted(spellings[part.casefold()] for part in match.groups() if part)
        return sign.join(name for _, name in found)

    names = {sign.join(term.en for term in terms) for terms in product(*kinds)}
    return Vocabulary(names, re.compile(pattern, re.IGNORECASE), read)


def _read_square(match: re.Match[str]) -> str:
    column, row = sorted(filter(None, match.groups()), reverse=True)
    return f"{column.upper()}{row}"


@cache
def _vocabularies() -> list[Vocabulary]:
    marks, roads = (PATTERNS[f"between_{kind}"].pattern for kind in ("marks", "places"))
    squares = {f"{letter}{number}" for letter in "ABCDEFGHIJ" for number in range(1, 11)}
    return [
        *map(_vocabulary, (MONTHS, PLACES, PEOPLE, GOODS, PUMPS, TOWERS)),
        _vocabulary(tuple(COLOURS), SHAPES, between=marks, reverse=r"(?:\s*[|(]\s*)", sign=" "),
        _vocabulary(PLACES, PLACES, between=roads, sign="-"),
        Vocabulary(squares, PATTERNS["square"], _read_square),
    ]


def find_kind(terms: Sequence[Term], text: str) -> Iterator[Mention]:
    """Every mention of a term of the same kind, by its English name, also of one not in `terms`."""
    names = {term.en for term in terms}
    known = next((each for each in _vocabularies() if each.names >= names), None)
    vocabulary = known or _vocabulary(tuple(terms))
    for match in vocabulary.pattern.finditer(text):
        yield Mention(*match.span(), vocabulary.read(match))


def find_terms(terms: Sequence[Term], text: str) -> Iterator[Mention]:
    """Every mention of a term."""
    wanted = {term.en for term in terms}
    return (each for each in find_kind(terms, text) if each.value in wanted)


def _any(terms: Sequence[Term]) -> str:
    """A pattern for each spelling of each term, the longest first, and Latin plurals."""
    every = {name for term in terms for name in (term.en, term.zh, *term.also)}
    names = sorted(every, key=len, reverse=True)
    latin_ = "|".join(_latin(name) for name in names if name.isascii())
    han = "|".join(re.escape(name) for name in names if not name.isascii()) or "(?!)"
    return rf"(?:(?<![A-Za-z\d])({latin_})(?:(?<=\w\w\w)e?s)?(?![A-Za-z\d])|(?<!\d)({han}))"


def _latin(name: str) -> str:
    """A pattern of a name; a single letter must be a capital and not the article, May no verb."""
    if name == "May":
        return "(?-i:May|MAY)"
    if len(name) > 1:
        return re.escape(name)
    return rf"(?-i:{name.upper()})(?! +(?:tower|block|total|single|few|stack|short|brief))"
