"""Crowds: marks to be counted by kind. Harder ones have more marks and kinds, nearer each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from random import Random

from images.drawn.canvas import Canvas, Point
from images.drawn.truth import Draft, Drawing, Fact, Facts, Number, Problem, Step, one_of, ranked
from images.drawn.words import CLEAR_COLOURS, COLOURS, SHAPES, Term, coloured


def draw(draft: Draft) -> Drawing:
    """Marks of some colours and shapes; the facts are how many there are of each kind."""
    random, plan = draft.random, draft.plan
    colours = random.sample(CLEAR_COLOURS, min(3, plan.kinds))
    every = [*product(colours, random.sample(SHAPES, min(3, plan.kinds)))]
    kinds = random.sample(every, plan.kinds)
    counts = [random.randint(plan.least, plan.most) for _ in kinds]
    ground = draft.pick("grounds")
    canvas = Canvas(random.choice((640, 720, 800)), random.choice((520, 600)), ground)
    marks = [kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)]
    random.shuffle(marks)
    places = _places(random, canvas, len(marks), plan)
    for place, (colour, shape) in zip(places, marks, strict=True):
        radius = plan.radius * random.uniform(0.8, 1.0)
        canvas.mark(shape.en, place, radius * 0.8, COLOURS[colour])
    terms = {kind: coloured(*kind) for kind in every}
    facts = tuple(Fact(terms[kind], Number(n)) for kind, n in zip(kinds, counts, strict=True))
    problem = (draft.question(), facts, _problem(draft, kinds, facts))
    return Drawing(canvas.finish(), *problem, 1 / (plan.most - plan.least + 1), [*terms.values()])


def _places(random: Random, canvas: Canvas, count: int, plan: Step) -> list[Point]:
    """Middles that are apart from each other; the distance shrinks until there is room."""
    edge = plan.radius * 1.2
    apart, places = 2.1 * plan.radius * (1 - plan.overlap), list[Point]()
    while len(places) < count:
        for _ in range(200):
            sides = canvas.width, canvas.height
            x, y = (random.uniform(edge, side - edge) for side in sides)
            if all(math.dist((x, y), other) >= apart for other in places):
                places.append((x, y))
                break
        else:
            apart *= 0.95
    return places


def _problem(draft: Draft, kinds: Sequence[tuple[Term, Term]], facts: Facts) -> Problem:
    random = draft.random
    counts = [fact.number for fact in facts]
    tasks = ["boxes"] if len(kinds) == 1 else ["boxes", "gap", "colour"]
    if len({*counts}) == len(counts) > 2:
        tasks.append("most")
    task = random.choice(tasks)
    slots = {"listing": draft.items(facts)}
    if task == "boxes":
        size = random.choice((2, 3))
        return draft.problem(task, Number(-(-sum(counts) // size)), size=size, **slots)
    if task == "gap":
        return draft.problem(task, Number(max(counts) - min(counts)), **slots)
    if task == "colour":
        colour = random.choice(kinds)[0]
        others = [n for kind, n in zip(kinds, counts, strict=True) if kind[0] != colour]
        return draft.problem(task, Number(sum(others)), colour=colour, **slots)
    return draft.problem(task, one_of(ranked(facts)[1], facts), **slots)
