"""A dialogue about a scene: perception, reasoning and creation, each built on the turn before."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import Final

from images.scenes import creation, perception, reasoning
from images.scenes.perception import Seen
from images.scenes.reasoning import Reasoned
from images.scenes.sampling import sample_scene
from images.scenes.values import COLOURS, SHAPES, SIZES, Difficulty, Scene, Thing
from images.scenes.wording import Turn, a_thing, listed

_DESCRIBED: Final = re.compile(
    rf"\b({'|'.join(COLOURS)}) ({'|'.join(SHAPES)}) \(({'|'.join(SIZES)}), in the (upper|lower)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """Three turns about one scene, what the picture shows, and what the third turn must hold."""

    turns: tuple[Turn, Turn, Turn]
    caption: str
    focus_points: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A scene with a dialogue about it."""

    scene: Scene
    dialogue: Dialogue


def draw_sample(series: str, seed: int, number: int, difficulty: Difficulty = "normal") -> Sample:
    """Sample `number` of the series that a name and a seed stand for.

    Every sample has a stream of random numbers of its own, so that series of different names or
    seeds have samples in common only by chance.
    """
    random = Random(f"scenes/{series}/{seed}/{number}")
    scene = sample_scene(random, difficulty)
    return Sample(scene=scene, dialogue=write_dialogue(scene, random))


def write_dialogue(scene: Scene, random: Random) -> Dialogue:
    """Three turns about `scene`, their tasks drawn by lot."""
    seen = _look(scene, random)
    reasoned = _reason(seen, random)
    created = creation.TASKS[random.choice(tuple(creation.TASKS))](reasoned)
    return Dialogue(
        turns=(seen.turn, reasoned.turn, created.turn),
        caption=describe(scene.things, scene.ground),
        focus_points=created.focus_points,
    )


def _look(scene: Scene, random: Random) -> Seen:
    while True:
        found = perception.TASKS[random.choice(tuple(perception.TASKS))](scene)
        if found:
            return random.choice(found)


def _reason(seen: Seen, random: Random) -> Reasoned:
    while True:
        found = reasoning.TASKS[random.choice(tuple(reasoning.TASKS))](seen)
        if found:
            return random.choice(found)


def describe(things: tuple[Thing, ...], ground: str) -> str:
    """All that is in a picture, in one sentence."""
    told = [
        f"{a_thing(thing)} ({thing.size}, in the {'upper' if thing.upper else 'lower'} half)"
        for thing in things
    ]
    return f"On a plain {ground} ground there is, from left to right, {listed(told)}."


def read_description(caption: str) -> Scene:
    """The scene that `describe` told of, as far as questions go: nothing in it can be drawn.

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

    Raises `ValueError` where caption or instructions are not in the language of scenes.
    """
    scene = read_description(caption)
    for seen in (each for task in perception.TASKS.values() for each in task(scene)):
        if seen.turn.instruction != instructions[0]:
            continue
        for reasoned in (each for task in reasoning.TASKS.values() for each in task(seen)):
            if reasoned.turn.instruction != instructions[1]:
                continue
            for task in creation.TASKS.values():
                created = task(reasoned)
                if created.turn.instruction == instructions[2]:
                    first, second = seen.turn.reference, reasoned.turn.reference
                    return first, second, created.turn.reference
    raise ValueError("the instructions are not such as scenes ask of this picture")
