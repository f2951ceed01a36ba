"""Shapes: coloured things on a plain ground. Harder ones are more, smaller, shaded and hidden.

Level 1 has the scenes and, in English, the sentences of `images.scenes`, which the model `pocket`
was trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from images.drawn.truth import (
    Drawing,
    Fact,
    Name,
    Number,
    Problem,
    problem,
    question,
    shown,
    step,
    text,
)
from images.drawn.words import COLOURS, HALVES, SHAPES, SIZES, coloured, joined
from images.scenes import Plan, Thing, paint, sample_scene, write_dialogue

_SIDE = 512
_COLOURS = {term.en: term for term in COLOURS}
_SHAPES = {term.en: term for term in SHAPES}
_EVERY = tuple(coloured(colour, shape) for colour in COLOURS for shape in SHAPES)


def draw(random: Random, level: int) -> Drawing:
    """Things whose colours and shapes differ; the facts are the half or the size of each."""
    scene = sample_scene(random, step(Plan, "shapes", level))
    script = write_dialogue(scene, random) if level == 1 else None
    asked = random.choice(("sizes", "halves"))
    facts = tuple(_fact(thing, asked) for thing in scene.things)
    return Drawing(
        image=paint(scene) if level == 1 else paint(scene, 2 * _SIDE).reduce(2),
        question=question("shapes", random, asked),
        facts=facts,
        problem=_problem(random, level, scene.things, facts),
        guess=1 / (2 * len(_EVERY)),
        others=tuple(term for term in _EVERY if term not in [fact.subject for fact in facts]),
        script=script,
    )


def _fact(thing: Thing, asked: str) -> Fact:
    subject = coloured(_COLOURS[thing.colour], _SHAPES[thing.shape])
    if asked == "sizes":
        return Fact(subject, Name(SIZES[thing.size == "small"], SIZES))
    return Fact(subject, Name(HALVES[not thing.upper], HALVES))


def _problem(random: Random, level: int, things: Sequence[Thing], facts: Sequence[Fact]) -> Problem:
    """A number of things that are left, added, compared or paid."""
    values = [fact.value.say("en") for fact in facts]
    colour, shape = random.choice(things).colour, random.choice(things).shape
    group = random.choice(values)
    inside = [value == group for value in values]
    numbers = {
        "gap": abs(2 * sum(inside) - len(things)),
        "twice": len(things) + sum(thing.shape == shape for thing in things),
        "left": sum(
            is_inside and thing.colour != colour and thing.shape != shape
            for thing, is_inside in zip(things, inside, strict=True)
        ),
        "price": 2 * len(things) + sum(inside) + sum(thing.colour == colour for thing in things),
    }
    task = random.choice(("gap", "twice") if level <= 3 else ("twice", "left", "price"))
    return problem(
        "shapes",
        task,
        level,
        Number(numbers[task]),
        listing=joined([shown(fact) for fact in facts]),
        colour=_COLOURS[colour],
        shape=_SHAPES[shape],
        group=text("shapes", group),
    )
