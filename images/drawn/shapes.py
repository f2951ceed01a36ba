"""Shapes: coloured things on a plain ground. Harder ones are more, smaller, shaded and hidden.

Their order from left to right, their halves and their sizes are never in doubt to a careful eye.
The model `pocket` was trained on level 1, whose English dialogues are in `script`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import cos, pi, sin
from random import Random
from typing import Final

from PIL import Image, ImageDraw

from images.drawn import words
from images.drawn.canvas import Point, png
from images.drawn.script import GUESS, write_script
from images.drawn.truth import Draft, Drawing, Fact, Name, Number, Problem, Step
from images.drawn.words import (
    COLOURED,
    GROUNDS,
    HALVES,
    SIZES,
    TEXTS,
    TONES,
    Colour,
    load_table,
    named,
)

SHAPES: Final = ("circle", "square", "triangle", "star", "diamond", "cross")
COLOURS: Final = tuple(TONES)
SIDE = 256
"""Width and height of an image of level 1 in pixels."""

_RADII = {"small": (0.060, 0.075), "large": (0.110, 0.130)}
_THEMED = 0.35
"""The share of scenes in which one thing stands out."""
_TRIES = 60
_SHADE = 34
"""How far the strongest shade moves each channel."""
_GRAINS = 64
"""Grains per side: coarse enough to survive when a model's processor scales the picture down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """One drawn thing.

    `x`, `y` (the middle, from the top left) and `radius` are shares of the picture's side. `shade`
    moves the colour off its plain tone, -1 to 1; `turn` is a rotation in degrees.
    """

    shape: str
    colour: str
    size: str
    x: float
    y: float
    radius: float
    shade: float = 0.0
    turn: float = 0.0

    @property
    def name(self) -> str:
        """Colour and shape: no two things of a scene share both."""
        return f"{self.colour} {self.shape}"

    @property
    def half(self) -> str:
        """The half of the image in which the middle is: "upper" or "lower"."""
        return "upper" if self.y < 0.5 else "lower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Some things from left to right, their ground, and what makes them hard to see.

    `noise` is the share of grain in every pixel, 0 to 1; `grain` seeds it. `front` numbers the
    things from back to front: where two overlap, the later one hides the earlier.
    """

    things: tuple[Thing, ...]
    ground: str
    noise: float
    grain: int
    front: tuple[int, ...]


def draw(draft: Draft) -> Drawing:
    """Things whose colours and shapes differ; the facts are the half or the size of each."""
    random = draft.random
    scene = sample_scene(random, draft.level)
    script = write_script(scene, random) if draft.level == 1 else None
    asked = random.choice(("sizes", "halves"))
    facts = tuple(_fact(thing, asked) for thing in scene.things)
    return Drawing(
        png=png(paint(scene) if draft.level == 1 else paint(scene, 4 * SIDE).reduce(2)),
        question=draft.question(asked),
        facts=facts,
        problem=_problem(draft, scene.things, facts),
        guess=GUESS,
        pool=COLOURED,
        script=script,
    )


def _fact(thing: Thing, asked: str) -> Fact:
    value, among = (thing.size, SIZES) if asked == "sizes" else (thing.half, HALVES)
    return Fact(named(COLOURED, thing.name), Name(named(among, value), among))


def _problem(draft: Draft, things: Sequence[Thing], facts: Sequence[Fact]) -> Problem:
    """A number of things that are left, added, compared or paid."""
    random = draft.random
    values = [fact.value["en"] for fact in facts]
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
    task = random.choice(("gap", "twice") if draft.level <= 3 else ("twice", "left", "price"))
    return draft.problem(
        task,
        Number(numbers[task]),
        listing=draft.items(facts),
        colour=named(words.COLOURS, colour),
        shape=named(words.SHAPES, shape),
        group=TEXTS["shapes"][group],
    )


def sample_scene(random: Random, level: int = 1) -> Scene:
    """A scene; the same state of `random` gives the same scene."""
    plan = Draft("shapes", level, random).plan
    count = random.randint(*plan.things)
    things: list[Thing] = []
    for place, look in enumerate(_looks(random, count)):
        things.append(_place(random, plan, look, (place, count), things))
    front = list(range(count))
    random.shuffle(front)
    return Scene(
        things=tuple(things),
        ground=random.choice(tuple(GROUNDS)),
        noise=random.uniform(*plan.noise),
        grain=random.getrandbits(32),
        front=tuple(front),
    )


def _looks(random: Random, count: int) -> list[tuple[str, str]]:
    """Distinct pairs of colour and shape; few of either, so that there is something to count."""
    if 3 <= count <= len(SHAPES) and random.random() < _THEMED:
        return _with_odd_one(random, count)
    colours = random.sample(COLOURS, random.randint(2, 4))
    shapes = random.sample(SHAPES, random.randint(2, 4))
    pairs = [*product(colours, shapes)]
    # the rest is for the places that a small palette cannot fill
    rest = [pair for pair in product(COLOURS, SHAPES) if pair not in pairs]
    picked = random.sample(pairs, min(count, len(pairs)))
    return picked + random.sample(rest, max(count - len(pairs), 0))


def _with_odd_one(random: Random, count: int) -> list[tuple[str, str]]:
    """All things share a shape (or a colour), but for one."""
    by_shape = random.random() < 0.5
    common, other = random.sample(SHAPES if by_shape else COLOURS, 2)
    varied = random.sample(COLOURS if by_shape else SHAPES, count)
    odd = random.randrange(count)
    kinds = [other if place == odd else common for place in range(count)]
    return [*zip(varied, kinds, strict=True)] if by_shape else [*zip(kinds, varied, strict=True)]


def _place(
    random: Random, plan: Step, look: tuple[str, str], column: tuple[int, int], others: list[Thing]
) -> Thing:
    """A thing in its column (number, of how many), clear of the others as far as tries go."""
    tried: list[tuple[float, Thing]] = []
    for _ in range(_TRIES):
        size = random.choice(tuple(_RADII))
        radius = random.uniform(*_RADII[size]) * plan.scale
        middle = (column[0] + 0.5) / column[1] + random.uniform(-0.22, 0.22) / column[1]
        y = random.uniform(radius + 0.01, 0.42)
        thing = Thing(
            shape=look[1],
            colour=look[0],
            size=size,
            x=min(max(middle, radius + 0.01), 0.99 - radius),
            y=y if random.random() < 0.5 else 1 - y,
            radius=radius,
            shade=random.uniform(-plan.shade, plan.shade),
            turn=random.uniform(-plan.turn, plan.turn),
        )
        clear = min((_clearance(thing, other) for other in others), default=9.0)
        if clear >= plan.apart:
            return thing
        tried.append((clear, thing))
    return max(tried, key=lambda each: each[0])[1]


def _clearance(one: Thing, other: Thing) -> float:
    distance = ((one.x - other.x) ** 2 + (one.y - other.y) ** 2) ** 0.5
    return float(distance / (one.radius + other.radius))


def paint(scene: Scene, side: int = SIDE) -> Image.Image:
    """The scene as an RGB image, `side` pixels wide and high."""
    image = Image.new("RGB", (side, side), GROUNDS[scene.ground])
    pen = ImageDraw.Draw(image)
    for thing in (scene.things[number] for number in scene.front):
        shade = round(_SHADE * thing.shade)
        red, green, blue = (min(max(tone + shade, 0), 255) for tone in TONES[thing.colour])
        _stamp(pen, thing, side, (red, green, blue))
    if not scene.noise:
        return image
    grains = Random(scene.grain).randbytes(_GRAINS * _GRAINS * 3)
    grain = Image.frombytes("RGB", (_GRAINS, _GRAINS), grains)
    return Image.blend(image, grain.resize(image.size, Image.Resampling.BILINEAR), scene.noise)


def pixels(scene: Scene, side: int) -> bytes:
    """The scene's RGB values row by row, scaled down to `side` as image processors do (bicubic)."""
    return paint(scene).resize((side, side), Image.Resampling.BICUBIC).tobytes()


def label_map(scene: Scene, side: int) -> bytes:
    """Which thing each pixel shows, row by row: 0 for the ground, else its place from the left."""
    labels = Image.new("L", (side, side), 0)
    pen = ImageDraw.Draw(labels)
    for number in scene.front:
        _stamp(pen, scene.things[number], side, number + 1)
    return labels.tobytes()


def _stamp(pen: ImageDraw.ImageDraw, thing: Thing, side: int, ink: int | Colour) -> None:
    x, y, radius = thing.x * side, thing.y * side, thing.radius * side
    if thing.shape == "circle":
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=ink)
        return
    angle = thing.turn * pi / 180
    corners = [
        (
            x + radius * (u * cos(angle) - v * sin(angle)),
            y + radius * (u * sin(angle) + v * cos(angle)),
        )
        for u, v in _OUTLINES[thing.shape]
    ]
    pen.polygon(corners, fill=ink)


def _star() -> list[Point]:
    reaches = [1.15 if tip % 2 == 0 else 0.46 for tip in range(10)]
    return [
        (reach * sin(tip * pi / 5), -reach * cos(tip * pi / 5)) for tip, reach in enumerate(reaches)
    ]


_OUTLINES: dict[str, list[Point]] = {**load_table("outlines")["things"], "star": _star()}
