"""A dialogue about a scene: perception, reasoning and creation, each built on the turn before."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import Final

from images.scenes.scene import COLOURS, SHAPES, SIZES, Scene, Thing, sample_scene
from images.scenes.turns import (
    CREATION,
    PERCEPTION,
    REASONING,
    Reasoned,
    Seen,
    Turn,
    a_thing,
    listed,
)

_DESCRIBED: Final = re.compile(
    rf"\b({'|'.join(COLOURS)}) ({'|'.join(SHAPES)}) \(({'|'.join(SIZES)}), in the (upper|lower)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """Three turns about one scene, a caption of the image, and what the third turn must contain."""

    turns: tuple[Turn, Turn, Turn]
    caption: str
    focus_points: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A scene with a dialogue about it."""

    scene: Scene
    dialogue: Dialogue


def draw_sample(series: str, seed: int, number: int) -> Sample:
    """Sample `number` of the series with this name and seed.

    Every sample has its own stream of random numbers, so that series of different names or seeds
    share samples only by chance.
    """
    random = Random(f"scenes/{series}/{seed}/{number}")
    scene = sample_scene(random)
    return Sample(scene=scene, dialogue=write_dialogue(scene, random))


def write_dialogue(scene: Scene, random: Random) -> Dialogue:
    """Three turns about `scene`, their tasks drawn by lot."""
    seen = _look(scene, random)
    reasoned = _reason(seen, random)
    created = CREATION[random.choice(tuple(CREATION))](reasoned)
    return Dialogue(
        turns=(seen.turn, reasoned.turn, created.turn),
        caption=describe(scene.things, scene.ground),
        focus_points=created.focus_points,
    )


def _look(scene: Scene, random: Random) -> Seen:
    while True:
        turns = PERCEPTION[random.choice(tuple(PERCEPTION))](scene)
        if turns:
            return random.choice(turns)


def _reason(seen: Seen, random: Random) -> Reasoned:
    while True:
        turns = REASONING[random.choice(tuple(REASONING))](seen)
        if turns:
            return random.choice(turns)


def describe(things: tuple[Thing, ...], ground: str) -> str:
    """All things of an image, in one sentence."""
    names = [
        f"{a_thing(thing)} ({thing.size}, in the {'upper' if thing.upper else 'lower'} half)"
        for thing in things
    ]
    return f"On a plain {ground} ground there is, from left to right, {listed(names)}."


def read_description(caption: str) -> Scene:
    """The scene that `describe` described, without what is needed to draw it.

    Raises `ValueError` for a text that names no thing in that way.
    """
    things = tuple(
        Thing(
            colour=colour,
            shape=shape,
            size="large" if size == "large" else "small",
            x=0.0,
            y=0.25 if half == "upper" else 0.75,
            radius=0.0,
        )
        for colour, shape, size, half in _DESCRIBED.findall(caption)
    )
    if not things:
        raise ValueError("the description is not in the words of scenes")
    return Scene(things=things, ground="", noise=0.0, grain=0, front=())


def answer(caption: str, instructions: tuple[str, str, str]) -> tuple[str, str, str]:
    """The three true answers to a dialogue's instructions, worked out from its caption.

    Raises `ValueError` if caption or instructions are not in the language of scenes.
    """
    scene = read_description(caption)
    for seen in (turn for task in PERCEPTION.values() for turn in task(scene)):
        if seen.turn.instruction != instructions[0]:
            continue
        for reasoned in (turn for task in REASONING.values() for turn in task(seen)):
            if reasoned.turn.instruction != instructions[1]:
                continue
            for task in CREATION.values():
                created = task(reasoned)
                if created.turn.instruction == instructions[2]:
                    first, second = seen.turn.reference, reasoned.turn.reference
                    return first, second, created.turn.reference
    raise ValueError("the instructions are not questions of scenes about this image")
