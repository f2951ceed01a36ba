"""Replies in the manner of real models, written by hand: one text file a family.

A block begins with "=== OUTCOME" or "=== OUTCOME QUESTION". The outcome is what the author meant:
right, wrong or unread. Without a question the reply states the facts of the first turn. Those in
`held_out.txt` name the family before the question; the checker was not changed after they were
written.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from images.drawn.checks import Rule, avoids, gives, ordered, sentences, states
from images.drawn.reading import check_answer, check_facts
from images.drawn.truth import Duration, Fact, Name, Number, Time, Value, square
from images.drawn.words import (
    COLOURS,
    GOODS,
    HALVES,
    MONTHS,
    PEOPLE,
    PLACES,
    PUMPS,
    SHAPES,
    SIZES,
    TOWERS,
    Term,
    Text,
    coloured,
    named,
    road,
)

Checker: TypeAlias = Callable[[str], str]
"""Reply -> outcome."""


def facts(values: Sequence[Fact], *others: Term) -> Checker:
    return lambda reply: check_facts(reply, values, others).outcome


def answer(value: Value) -> Checker:
    return lambda reply: check_answer(reply, value).outcome


def note(*rules: Rule) -> Checker:
    return lambda reply: "right" if all(each.holds(reply) for each in rules) else "wrong"


def piece(kind: str) -> Term:
    colour, shape = kind.split()
    return coloured(named([*COLOURS], colour), named(SHAPES, shape))


def pieces(*kinds: str) -> tuple[Term, ...]:
    return tuple(piece(kind) for kind in kinds)


OSLO, LIMA, CAIRO, QUITO, PERTH = (PLACES[place] for place in (0, 1, 2, 4, 10))
COFFEE, BREAD, TOMATO, HONEY, PASTA, PEPPER = (
    named(GOODS, name) for name in ("Coffee", "Bread", "Tomato", "Honey", "Pasta", "Pepper")
)
RED, BLUE, GREEN, YELLOW = pieces("red star", "blue circle", "green triangle", "yellow star")
CROSS = piece("green cross")
JAN, FEB, MAY = MONTHS[0], MONTHS[1], MONTHS[4]
WAYS = road(OSLO, LIMA), road(LIMA, CAIRO), road(OSLO, CAIRO)

CHART = Fact(JAN, Number(34)), Fact(FEB, Number(12)), Fact(MAY, Number(58))
CHART_OTHERS = (MONTHS[2], MONTHS[3], *MONTHS[5:])
PIE = tuple(
    Fact(PEOPLE[place], Number(share, unit=Text("%", "%")))
    for place, share in ((0, 41), (1, 25), (4, 34))
)
MARKS = tuple(
    Fact(place, Number(value, within=1.5))
    for place, value in zip(PLACES, (40, 65, 15), strict=False)
)
CITIES = Fact(OSLO, Time(10 * 60 + 35)), Fact(LIMA, Time(3 * 60 + 30)), Fact(CAIRO, Time(5))
GAUGES = tuple(
    Fact(pump, Number(value, within=1.5)) for pump, value in zip(PUMPS, (35, 70, 5), strict=False)
)
PIECES = Fact(RED, square("B3")), Fact(BLUE, square("D1")), Fact(GREEN, square("A4"))
BILL = tuple(
    Fact(good, Number(price, digits=2))
    for good, price in ((COFFEE, 11.50), (BREAD, 2.40), (TOMATO, 0.99))
)
CROWD = Fact(RED, Number(12)), Fact(BLUE, Number(7)), Fact(CROSS, Number(3))
ROADS = tuple(Fact(way, Number(length)) for way, length in zip(WAYS, (24, 9, 41), strict=True))
THINGS = tuple(
    Fact(thing, Name(HALVES[place], HALVES)) for thing, place in ((RED, 0), (BLUE, 1), (GREEN, 1))
)
SIZED = tuple(
    Fact(thing, Name(SIZES[place], SIZES)) for thing, place in ((RED, 0), (BLUE, 1), (GREEN, 1))
)
OTHER_THINGS = tuple(
    term
    for term in (coloured(colour, shape) for colour in COLOURS for shape in SHAPES)
    if term not in (RED, BLUE, GREEN)
)
STACK = tuple(Fact(tower, Number(n)) for tower, n in zip(TOWERS, (3, 5, 1), strict=False))

QUESTIONS: dict[str, dict[str, Checker]] = {
    "boards": {
        "facts": facts(PIECES, *pieces("red circle", "yellow star")),
        "moves": answer(Number(4)),
        "nearest": answer(Name(GREEN, (RED, BLUE, GREEN))),
        "highest": answer(Name(RED, (RED, BLUE, GREEN))),
        "right": answer(Number(1)),
        "note": note(states((PIECES[0], PIECES[2])), gives(Number(4)), sentences(3)),
    },
    "charts": {
        "facts": facts(CHART, *CHART_OTHERS),
        "pie": facts(PIE, PEOPLE[2]),
        "read": facts(MARKS, QUITO),
        "gap": answer(Number(46)),
        "rank": answer(Name(MAY, (JAN, FEB, MAY))),
        "sum": answer(Number(80)),
        "note": note(
            states(CHART[:2]), gives(Number(46)), sentences(3), avoids(Text("image", "图片"))
        ),
    },
    "clocks": {
        "facts": facts(CITIES, PERTH, QUITO),
        "gauges": facts(GAUGES, PUMPS[3]),
        "later": answer(Time(4 * 60 + 10)),
        "until": answer(Duration(95)),
        "place": answer(Name(LIMA, (OSLO, LIMA, CAIRO))),
        "note": note(
            states(CITIES[:2], Time(4 * 60 + 10)),
            gives(Time(4 * 60 + 10)),
            sentences(2),
            ordered((OSLO, LIMA)),
        ),
    },
    "crowds": {
        "facts": facts(CROWD, *pieces("red circle", "blue star")),
        "boxes": answer(Number(8)),
        "gap": answer(Number(9)),
        "second": answer(Name(BLUE, (RED, BLUE, CROSS))),
        "note": note(states((CROWD[0], CROWD[2])), gives(Number(8)), sentences(3)),
    },
    "maps": {
        "facts": facts(ROADS, road(PERTH, LIMA)),
        "route": answer(Number(33)),
        "hub": answer(Name(LIMA, (OSLO, LIMA, CAIRO))),
        "reach": answer(Number(2)),
        "note": note(states((ROADS[0], ROADS[2])), gives(Number(33)), sentences(3)),
    },
    "receipts": {
        "facts": facts(BILL, HONEY, PASTA),
        "total": answer(Number(14.89, digits=2)),
        "change": answer(Number(5.11, digits=2)),
        "paid": answer(Number(20.55, digits=2)),
        "rank": answer(Name(BREAD, (COFFEE, BREAD, TOMATO))),
        "note": note(states(BILL[:2]), gives(Number(14.89, digits=2)), sentences(3)),
    },
    "shapes": {
        "facts": facts(THINGS, *OTHER_THINGS),
        "sizes": facts(SIZED, *OTHER_THINGS),
        "price": answer(Number(8)),
        "twice": answer(Number(4)),
        "gap": answer(Number(1)),
        "note": note(states((THINGS[0], THINGS[2])), gives(Number(8)), sentences(3)),
    },
    "stacks": {
        "facts": facts(STACK, *TOWERS[3:]),
        "total": answer(Number(9)),
        "fill": answer(Number(6)),
        "highest": answer(Name(TOWERS[1], TOWERS[:3])),
        "note": note(states((STACK[0], STACK[2])), gives(Number(9)), sentences(3)),
    },
}
"""Family -> question -> what checks its replies."""

_HEAD = re.compile(r"^=== (right|wrong|unread)((?: \w+)*)\n", re.MULTILINE)


@dataclass(frozen=True)
class Meant:
    """A reply and what its author meant; `read` is what the checker says."""

    family: str
    question: str
    outcome: str
    text: str

    @property
    def read(self) -> str:
        return QUESTIONS[self.family][self.question](self.text)


def replies(family: str | None = None) -> Iterator[Meant]:
    """The replies of a family, or the held-out ones of all families."""
    path = Path(__file__).with_name(f"{family or 'held_out'}.txt")
    _, *parts = _HEAD.split(path.read_text(encoding="utf-8"))
    for outcome, words, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        named, question = ([family] if family else []) + words.split(), "facts"
        if len(named) > 1:
            question = named[1]
        yield Meant(named[0], question, outcome, text.strip("\n"))
