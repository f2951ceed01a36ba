"""A dialogue about a scene: perception, reasoning and creation, each built on the turn before."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from images.scenes.scene import Scene, Thing, sample_scene
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
