"""Words that families draw and ask about, in English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import Literal, TypeAlias, get_args

from images.drawn.canvas import Colour

Language: TypeAlias = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


@dataclass(frozen=True, slots=True)
class Text:
    """The same sentence in both languages; `{name}` are slots."""

    en: str
    zh: str

    def __getitem__(self, language: Language) -> str:
        return self.zh if language == "zh" else self.en

    def fill(self, **values: Text | Term | str | float) -> Text:
        """The sentence with its slots filled; terms and sentences in their language."""
        return Text(*(self._filled(language, values) for language in LANGUAGES))

    def _filled(self, language: Language, values: Mapping[str, Text | Term | str | float]) -> str:
        words = {
            name: value[language] if isinstance(value, Text | Term) else value
            for name, value in values.items()
        }
        return self[language].format(**words)


@dataclass(frozen=True, slots=True)
class Term:
    """A name in both languages, and what else a reply may call it."""

    en: str
    zh: str
    also: tuple[str, ...] = ()

    def __getitem__(self, language: Language) -> str:
        return self.zh if language == "zh" else self.en

    @property
    def aliases(self) -> tuple[str, ...]:
        """Every spelling, whatever the language."""
        return tuple(dict.fromkeys((self.en, self.zh, *self.also)))


def latin(name: str, *also: str) -> Term:
    """A name that is the same in both languages, since the image shows it."""
    return Term(name, name, also)


def listed(names: Sequence[str], language: Language) -> str:
    """Names as a list in a sentence."""
    if language == "zh":
        return "、".join(names[:-1]) + ("和" if len(names) > 1 else "") + names[-1]
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


def _plural(noun: str) -> tuple[str, ...]:
    return noun, f"{noun}s", f"{noun}es"


COLOURS: dict[Term, Colour] = {
    Term("red", "红色", ("红",)): (208, 46, 48),
    Term("blue", "蓝色", ("蓝",)): (44, 96, 190),
    Term("green", "绿色", ("绿",)): (46, 148, 74),
    Term("orange", "橙色", ("橙", "橘色", "橘黄色")): (240, 138, 28),
    Term("purple", "紫色", ("紫", "violet")): (128, 62, 160),
    Term("yellow", "黄色", ("黄",)): (240, 200, 40),
    Term("brown", "棕色", ("棕", "褐色")): (126, 82, 48),
    Term("pink", "粉色", ("粉红色", "粉红")): (240, 128, 172),
    Term("black", "黑色", ("黑",)): (36, 36, 40),
    Term("grey", "灰色", ("gray", "灰")): (140, 144, 150),
}
"""Colours that people name alike on a light ground."""

SHAPES = (
    Term("circle", "圆形", ("圆圈", "圆", "disc", "dot")),
    Term("square", "方块", ("正方形", "方形")),
    Term("triangle", "三角形", ("三角",)),
    Term("diamond", "菱形", ("rhombus",)),
    Term("star", "星形", ("五角星", "星星", "星")),
    Term("cross", "十字", ("十字形", "plus sign", "plus")),
)
"""The marks that a canvas draws."""


def coloured(colour: Term, shape: Term) -> Term:
    """A mark of a colour, in the singular and the plural."""
    en = [
        f"{one} {form}"
        for one in colour.aliases
        for name in shape.aliases
        for form in (name, f"{name}s", f"{name}es", "rhombi")
        if one.isascii() and name.isascii()
    ]
    zh = [
        f"{one}{of}{name}"
        for one in colour.aliases
        for name in shape.aliases
        for of in ("", "的")
        if not one.isascii() and not name.isascii()
    ]
    return Term(f"{colour.en} {shape.en}", f"{colour.zh}{shape.zh}", (*en, *zh))


def road(one: Term, other: Term) -> Term:
    """The road between two places, in either direction."""
    one, other = sorted((one, other), key=lambda place: place.en)
    signs = ("-", "–", "—", "→", "↔", "/", "到", "至", "和", "与", "、")
    between = (*signs, *(f" {sign} " for sign in (*signs[:5], "to", "and")))
    ways = [f"{a.en}{sign}{b.en}" for sign in between for a, b in ((one, other), (other, one))]
    return Term(f"{one.en}-{other.en}", f"{one.en}-{other.en}", tuple(ways))


_MONTHS = "January February March April May June July August September October November December"
_CHINESE_NUMBERS = "一 二 三 四 五 六 七 八 九 十 十一 十二"
_PLACES = "Oslo Lima Cairo Delhi Quito Paris Milan Kyoto Tunis Accra Perth Dakar"
_PEOPLE = "Anna Boris Chloe David Emma Felix Grace Henry Irene Jonas Karin Leo"
MONTHS = tuple(
    Term(name[:3], f"{number}月", (name, f"{zh}月", f"{name[:3]}."))
    for number, (name, zh) in enumerate(
        zip(_MONTHS.split(), _CHINESE_NUMBERS.split(), strict=True), start=1
    )
)
PLACES = tuple(latin(name) for name in _PLACES.split())
PEOPLE = tuple(latin(name) for name in _PEOPLE.split())
GOODS = tuple(
    Term(en, zh, _plural(en.lower()))
    for en, zh in (
        ("Apple", "苹果"),
        ("Bread", "面包"),
        ("Cheese", "奶酪"),
        ("Lemon", "柠檬"),
        ("Coffee", "咖啡"),
        ("Honey", "蜂蜜"),
        ("Butter", "黄油"),
        ("Tomato", "番茄"),
        ("Onion", "洋葱"),
        ("Pepper", "辣椒"),
        ("Carrot", "胡萝卜"),
        ("Yogurt", "酸奶"),
        ("Pasta", "意面"),
        ("Olives", "橄榄"),
    )
)


PUMPS = tuple(latin(f"P{number}", f"pump {number}", f"P-{number}") for number in range(1, 10))

TOWERS = tuple(Term(f"Tower {name}", f"{name}塔", (f"塔{name}", name)) for name in "ABCDEFGHK")

_VOCABULARIES = (
    MONTHS,
    PLACES,
    PEOPLE,
    GOODS,
    PUMPS,
    TOWERS,
    tuple(coloured(*kind) for kind in product(COLOURS, SHAPES)),
    tuple(road(*ends) for ends in combinations(PLACES, 2)),
)


def vocabulary_of(terms: Sequence[Term]) -> tuple[Term, ...]:
    """All terms of the kind of these: one pattern finds them all."""
    for terms_of_a_kind, names in _known():
        if names.issuperset(term.en for term in terms):
            return terms_of_a_kind
    return tuple(terms)


@cache
def _known() -> list[tuple[tuple[Term, ...], frozenset[str]]]:
    return [(terms, frozenset(term.en for term in terms)) for terms in _VOCABULARIES]


def joined(terms: Sequence[Term]) -> Text:
    """Terms as a list in a sentence of either language."""
    return Text(*(listed([term[language] for term in terms], language) for language in LANGUAGES))
