"""Crowds: marks to be counted by kind. Harder ones have more marks and kinds, nearer each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import product
from random import Random

from images.drawn.canvas import INK, Canvas, Point
from images.drawn.truth import Draft, Drawing, Fact, Number, Problem, Step, one_of, ranked
from images.drawn.words import CLEAR_COLOURS, COLOURS, SHAPES, Term, coloured


def draw(draft: Draft) -> Drawing:
    """Marks of some colours and shapes; the facts are how many there are of each kind."""
    random, plan = draft.random, draft.plan
    colours = random.sample(CLEAR_COLOURS, min(3, plan.kinds))
    shapes = random.sample(SHAPES, min(3, plan.kinds))
    every = [*product(colours, shapes)]
    kinds = random.sample(every, plan.kinds)
    counts = [random.randint(plan.least, plan.most) for _ in kinds]
    ground = draft.pick("grounds")
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
        png=canvas.finish(),
        question=draft.question(),
        facts=facts,
        problem=_problem(draft, kinds, facts),
        guess=1 / (plan.most - plan.least + 1),
        others=tuple(coloured(*kind) for kind in every if kind not in kinds),
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


def _problem(draft: Draft, kinds: Sequence[tuple[Term, Term]], facts: Sequence[Fact]) -> Problem:
    random = draft.random
    counts = [fact.number for fact in facts]
    tasks = ["boxes"] if len(kinds) == 1 else ["boxes", "gap", "colour"]
    if len({*counts}) == len(counts) > 2:
        tasks.append("most")
    task = random.choice(tasks)
    ask = partial(draft.problem, task, listing=draft.items(facts))
    if task == "boxes":
        size = random.choice((2, 3))
        return ask(Number(-(-sum(counts) // size)), size=size)
    if task == "gap":
        return ask(Number(max(counts) - min(counts)))
    if task == "colour":
        colour = random.choice(kinds)[0]
        others = [count for kind, count in zip(kinds, counts, strict=True) if kind[0] != colour]
        return ask(Number(sum(others)), colour=colour)
    return ask(one_of(ranked(facts)[1], facts))
