"""Crowds: marks to be counted by kind. Harder ones have more marks and kinds, nearer each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

from images.drawn.canvas import INK, WHITE, Canvas, Colour, Point
from images.drawn.truth import Drawing, Fact, Name, Number, Problem
from images.drawn.words import COLOURS, SHAPES, Term, Text, coloured, joined

_GROUNDS: tuple[Colour, ...] = (WHITE, (246, 242, 232), (236, 242, 246), (240, 240, 240))
_PAINTS = [term for term in COLOURS if term.en not in ("grey", "brown", "pink")]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the ladder: kinds, marks of a kind, their radius, and how far they may overlap."""

    kinds: int
    least: int
    most: int
    radius: float
    overlap: float


def step(level: int) -> Step:
    """The step of a level from 1 to 10."""
    return Step(
        kinds=(1, 2, 2, 3, 3, 4, 4, 5, 5, 6)[level - 1],
        least=2 if level <= 3 else 3,
        most=(4, 5, 7, 7, 9, 10, 12, 13, 15, 16)[level - 1],
        radius=34 - 2.2 * level,
        overlap=0.0 if level <= 4 else 0.06 * (level - 4),
    )


class Crowds:
    """The family of crowds."""

    name = "crowds"

    def draw(self, random: Random, level: int) -> Drawing:
        """Marks of some colours and shapes; the facts are how many there are of each kind."""
        plan = step(level)
        colours = random.sample(_PAINTS, min(3, plan.kinds))
        shapes = random.sample(SHAPES, min(3, plan.kinds))
        every = [*product(colours, shapes)]
        kinds = random.sample(every, plan.kinds)
        counts = [random.randint(plan.least, plan.most) for _ in kinds]
        ground = random.choice(_GROUNDS)
        canvas = Canvas(random.choice((640, 720, 800)), random.choice((520, 600)), ground)
        marks = [kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)]
        random.shuffle(marks)
        places = _places(random, canvas, len(marks), plan)
        for place, (colour, shape) in zip(places, marks, strict=True):
            radius = plan.radius * random.uniform(0.8, 1.0)
            canvas.mark(shape.en, place, radius * 0.8, COLOURS[colour], INK)
        facts = tuple(
            Fact(coloured(*kind), Number(count)) for kind, count in zip(kinds, counts, strict=True)
        )
        return Drawing(
            image=canvas.finish(),
            question=random.choice(_QUESTIONS),
            facts=facts,
            problem=_problem(random, kinds, counts, facts),
            guess=1 / (plan.most - plan.least + 1),
            others=tuple(coloured(*kind) for kind in every if kind not in kinds),
        )


_QUESTIONS = (
    Text(
        "How many marks are there of each kind? One line for each colour and shape that occurs: "
        "“colour shape: number”.",
        "每种图形各有多少个？对出现的每种颜色和形状写一行：“颜色形状: 数量”。",
    ),
    Text(
        "Count the marks by colour and shape, one kind a line, as “colour shape: number”.",
        "请按颜色和形状数出图形的数量，每种一行，格式为“颜色形状: 数量”。",
    ),
)


def _places(random: Random, canvas: Canvas, count: int, plan: Step) -> list[Point]:
    """Middles that are apart from each other; the distance shrinks until there is room."""
    edge = plan.radius * 1.2
    apart, places = 2.1 * plan.radius * (1 - plan.overlap), list[Point]()
    while len(places) < count:
        for _ in range(200):
            place = (
                random.uniform(edge, canvas.width - edge),
                random.uniform(edge, canvas.height - edge),
            )
            if all(math.dist(place, other) >= apart for other in places):
                places.append(place)
                break
        else:
            apart *= 0.95
    return places


def _problem(
    random: Random,
    kinds: Sequence[tuple[Term, Term]],
    counts: Sequence[int],
    facts: Sequence[Fact],
) -> Problem:
    listing = joined(
        [
            Term(f"{count} of {fact.subject.en}", f"{fact.subject.zh}{count}个")
            for count, fact in zip(counts, facts, strict=True)
        ]
    )
    steps = Text("There are {listing}.", "有{listing}。").fill(listing=listing)
    total = sum(counts)
    tasks = ["boxes"] if len(kinds) == 1 else ["boxes", "gap", "colour"]
    if len({*counts}) == len(counts) > 2:
        tasks.append("most")
    task = random.choice(tasks)
    if task == "boxes":
        size = random.choice((2, 3))
        question = Text(
            "All marks are packed into boxes of {size}. How many boxes are needed?",
            "把所有图形装进每盒{size}个的盒子，至少需要几个盒子？",
        )
        return Problem(task, question.fill(size=size), steps, Number(-(-total // size)), 0.3)
    if task == "gap":
        question = Text(
            "How many more marks has the most frequent kind than the rarest?",
            "数量最多的一种比最少的一种多几个？",
        )
        return Problem(task, question, steps, Number(max(counts) - min(counts)), 0.18)
    if task == "colour":
        colour = random.choice(kinds)[0]
        found = sum(count for kind, count in zip(kinds, counts, strict=True) if kind[0] == colour)
        question = Text("How many marks are not {colour}?", "不是{colour}的图形有多少个？").fill(
            colour=colour
        )
        return Problem(task, question, steps, Number(total - found), 0.07)
    second = sorted(range(len(counts)), key=lambda place: -counts[place])[1]
    question = Text("Which kind is the second most frequent?", "哪一种的数量第二多？")
    names = tuple(fact.subject for fact in facts)
    return Problem(task, question, steps, Name(names[second], names), 1 / len(names))
