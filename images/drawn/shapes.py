"""Shapes: coloured things on a plain ground. Harder ones are more, smaller, shaded and hidden.

Their order from left to right, their halves and their sizes are never in doubt to a careful eye.
The model `pocket` was trained on level 1, whose English dialogues are in `script`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import cos, dist, pi, sin
from random import Random
from typing import Final, TypeAlias

from PIL import Image, ImageDraw

from images.drawn import words
from images.drawn.canvas import Point, png
from images.drawn.script import GUESS, write_script
from images.drawn.truth import Draft, Drawing, Fact, Facts, Name, Number, Problem, Step
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
Look: TypeAlias = tuple[str, ...]
"""Colour and shape."""
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
    scene = sample_scene(draft.random, draft.level)
    script = write_script(scene, draft.random) if draft.level == 1 else None
    asked, key, among = draft.random.choice((("sizes", "size", SIZES), ("halves", "half", HALVES)))
    facts = tuple(
        Fact(named(COLOURED, thing.name), Name(named(among, getattr(thing, key)), among))
        for thing in scene.things
    )
    image = paint(scene) if draft.level == 1 else paint(scene, 4 * SIDE).reduce(2)
    problem = draft.question(asked), facts, _problem(draft, scene.things, facts)
    return Drawing(png(image), *problem, GUESS, COLOURED, script)


def _problem(draft: Draft, things: Sequence[Thing], facts: Facts) -> Problem:
    """A number of things that are left, added, compared or paid."""
    random = draft.random
    values = [fact.value["en"] for fact in facts]
    colour, shape = random.choice(things).colour, random.choice(things).shape
    group = random.choice(values)
    inside = [thing for thing, value in zip(things, values, strict=True) if value == group]
    numbers = {
        "gap": abs(2 * len(inside) - len(things)),
        "twice": len(things) + sum(thing.shape == shape for thing in things),
        "left": sum(thing.colour != colour and thing.shape != shape for thing in inside),
        "price": 2 * len(things) + len(inside) + sum(thing.colour == colour for thing in things),
    }
    task = random.choice(("gap", "twice") if draft.level <= 3 else ("twice", "left", "price"))
    return draft.problem(
        task,
        Number(numbers[task]),
        listing=draft.items(facts),
        colour=named([*words.COLOURS], colour),
        shape=named(words.SHAPES, shape),
        group=TEXTS["shapes"][group],
    )


def sample_scene(random: Random, level: int = 1) -> Scene:
    """A scene; the same state of `random` gives the same scene."""
    plan = Draft("shapes", level, random).plan
    count = random.randint(*plan.things)
    things: list[Thing] = []
    for place, look in enumerate(_looks(random, count)):
        things.append(_place(random, plan, look, (place + 0.5, count), things))
    front = list(range(count))
    random.shuffle(front)
    return Scene(
        things=tuple(things),
        ground=random.choice(tuple(GROUNDS)),
        noise=random.uniform(*plan.noise),
        grain=random.getrandbits(32),
        front=tuple(front),
    )


def _looks(random: Random, count: int) -> Sequence[Look]:
    """Distinct pairs of colour and shape; few of either, so that there is something to count."""
    if 3 <= count <= len(SHAPES) and random.random() < _THEMED:
        # all things share a shape (or a colour), but for one
        step = 1 if random.random() < 0.5 else -1
        varied, shared = (COLOURS, SHAPES)[::step]
        common, other = random.sample(shared, 2)
        looks = random.sample(varied, count)
        odd = random.randrange(count)
        pairs = [(look, other if n == odd else common) for n, look in enumerate(looks)]
        return [pair[::step] for pair in pairs]
    colours = random.sample(COLOURS, random.randint(2, 4))
    shapes = random.sample(SHAPES, random.randint(2, 4))
    few = [*product(colours, shapes)]
    # the rest is for the places that a small palette cannot fill
    rest = [pair for pair in product(COLOURS, SHAPES) if pair not in few]
    picked = random.sample(few, min(count, len(few)))
    return picked + random.sample(rest, max(count - len(few), 0))


def _place(
    random: Random, plan: Step, look: Look, column: tuple[float, int], others: list[Thing]
) -> Thing:
    """A thing in its column (middle, of how many), clear of the others as far as tries go."""
    tried: list[tuple[float, Thing]] = []
    for _ in range(_TRIES):
        size = random.choice(tuple(_RADII))
        radius = random.uniform(*_RADII[size]) * plan.scale
        x = column[0] / column[1] + random.uniform(-0.22, 0.22) / column[1]
        y = random.uniform(radius + 0.01, 0.42)
        thing = Thing(
            shape=look[1],
            colour=look[0],
            size=size,
            x=min(max(x, radius + 0.01), 0.99 - radius),
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
    return dist((one.x, one.y), (other.x, other.y)) / (one.radius + other.radius)


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
    across, down = radius * cos(angle), radius * sin(angle)
    outline = _OUTLINES[thing.shape]
    pen.polygon([(x + u * across - v * down, y + u * down + v * across) for u, v in outline], ink)


_STAR = ((turn * pi / 5, 0.46 if turn % 2 else 1.15) for turn in range(10))
_OUTLINES: dict[str, list[Point]] = load_table("outlines")["things"] | {
    "star": [(reach * sin(angle), -reach * cos(angle)) for angle, reach in _STAR]
}
"""Corners in units of the radius, y downwards."""
