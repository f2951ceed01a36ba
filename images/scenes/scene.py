"""What a scene is, how one is drawn by lot from a seed, and how it becomes pixels.

A scene is a few coloured things on a plain ground. Their order from left to right, their halves and
their sizes are never in doubt to a careful eye. Difficulty changes noise, overlap, shades and the
number of things. The same scene gives the same bytes; no text is drawn, and nothing that the scene
does not name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import cos, pi, sin
from random import Random
from typing import Final, Literal, TypeAlias

from PIL import Image, ImageDraw

Size: TypeAlias = Literal["small", "large"]

SHAPES: Final = ("circle", "square", "triangle", "star", "diamond", "cross")
COLOURS: Final = ("red", "orange", "yellow", "green", "blue", "purple", "black")
SIZES: Final[tuple[Size, ...]] = ("small", "large")
GROUNDS: Final = ("white", "grey", "beige", "mint")

_RADII: Mapping[Size, tuple[float, float]] = {"small": (0.060, 0.075), "large": (0.110, 0.130)}
_THEMED = 0.35
"""The share of scenes in which one thing stands out."""

_TRIES = 60

SIDE = 256
"""Width and height of a picture in pixels."""

_TONES: Mapping[str, tuple[int, int, int]] = {
    "red": (214, 34, 38),
    "orange": (245, 138, 22),
    "yellow": (246, 216, 36),
    "green": (44, 150, 62),
    "blue": (40, 92, 214),
    "purple": (134, 52, 160),
    "black": (28, 28, 30),
}
_GROUND_TONES: Mapping[str, tuple[int, int, int]] = {
    "white": (250, 250, 248),
    "grey": (208, 210, 214),
    "beige": (238, 224, 200),
    "mint": (208, 236, 222),
}
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
    size: Size
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
    def upper(self) -> bool:
        """Whether the middle is in the upper half."""
        return self.y < 0.5


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


@dataclass(frozen=True, slots=True)
class Plan:
    """What makes scenes hard; the default is what the pocket model was trained on.

    `things` are the fewest and the most. `apart` is the least distance of two middles, in sums of
    their radii: under 1 they overlap. `scale` changes all sizes.
    """

    things: tuple[int, int] = (2, 5)
    noise: tuple[float, float] = (0.05, 0.25)
    apart: float = 0.8
    shade: float = 0.6
    turn: float = 12.0
    scale: float = 1.0


def sample_scene(random: Random, plan: Plan = Plan()) -> Scene:
    """A scene; the same state of `random` gives the same scene."""
    count = random.randint(*plan.things)
    looks = _looks(random, count)
    things: list[Thing] = []
    for place, (colour, shape) in enumerate(looks):
        things.append(_place(random, plan, colour, shape, (place, count), things))
    front = list(range(count))
    random.shuffle(front)
    return Scene(
        things=tuple(things),
        ground=random.choice(GROUNDS),
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
    pairs = [(colour, shape) for colour in colours for shape in shapes]
    return random.sample(pairs, min(count, len(pairs))) + _more(random, pairs, count - len(pairs))


def _more(random: Random, taken: list[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """Pairs for the places that a small palette cannot fill."""
    rest = [(c, s) for c in COLOURS for s in SHAPES if (c, s) not in taken]
    return random.sample(rest, max(count, 0))


def _with_odd_one(random: Random, count: int) -> list[tuple[str, str]]:
    """All things share a shape (or a colour), but for one."""
    by_shape = random.random() < 0.5
    common, other = random.sample(SHAPES if by_shape else COLOURS, 2)
    varied = random.sample(COLOURS if by_shape else SHAPES, count)
    odd = random.randrange(count)
    kinds = [other if place == odd else common for place in range(count)]
    first, second = (varied, kinds) if by_shape else (kinds, varied)
    return list(zip(first, second, strict=True))


def _place(
    random: Random,
    plan: Plan,
    colour: str,
    shape: str,
    column: tuple[int, int],
    others: list[Thing],
) -> Thing:
    """A thing in its column (number, of how many), clear of the others as far as tries go."""
    place, count = column
    best: tuple[float, Thing] | None = None
    for _ in range(_TRIES):
        size = random.choice(SIZES)
        radius = random.uniform(*_RADII[size]) * plan.scale
        middle = (place + 0.5) / count + random.uniform(-0.22, 0.22) / count
        thing = Thing(
            shape=shape,
            colour=colour,
            size=size,
            x=min(max(middle, radius + 0.01), 0.99 - radius),
            y=_height(random, radius),
            radius=radius,
            shade=random.uniform(-plan.shade, plan.shade),
            turn=random.uniform(-plan.turn, plan.turn),
        )
        clear = min((_clearance(thing, other) for other in others), default=9.0)
        if clear >= plan.apart:
            return thing
        if best is None or clear > best[0]:
            best = clear, thing
    assert best is not None
    return best[1]


def _height(random: Random, radius: float) -> float:
    """A middle that is clearly in one half."""
    low, high = radius + 0.01, 0.42
    y = random.uniform(low, high)
    return y if random.random() < 0.5 else 1 - y


def _clearance(one: Thing, other: Thing) -> float:
    distance = ((one.x - other.x) ** 2 + (one.y - other.y) ** 2) ** 0.5
    return float(distance / (one.radius + other.radius))


def paint(scene: Scene, side: int = SIDE) -> Image.Image:
    """The scene as an RGB picture, `side` pixels wide and high."""
    picture = Image.new("RGB", (side, side), _GROUND_TONES[scene.ground])
    pen = ImageDraw.Draw(picture)
    for number in scene.front:
        thing = scene.things[number]
        _stamp(pen, thing, side, _tone(thing))
    return _with_grain(picture, scene)


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


def _tone(thing: Thing) -> tuple[int, int, int]:
    red, green, blue = (
        min(max(channel + round(_SHADE * thing.shade), 0), 255) for channel in _TONES[thing.colour]
    )
    return red, green, blue


def _stamp(
    pen: ImageDraw.ImageDraw, thing: Thing, side: int, ink: int | tuple[int, int, int]
) -> None:
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


def _star() -> tuple[tuple[float, float], ...]:
    points = []
    for tip in range(10):
        reach = 1.15 if tip % 2 == 0 else 0.46
        points.append((reach * sin(tip * pi / 5), -reach * cos(tip * pi / 5)))
    return tuple(points)


_ARM = 0.34
_OUTLINES: Mapping[str, tuple[tuple[float, float], ...]] = {
    "square": ((-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)),
    "triangle": ((0.0, -1.05), (1.0, 0.85), (-1.0, 0.85)),
    "diamond": ((0.0, -1.15), (0.8, 0.0), (0.0, 1.15), (-0.8, 0.0)),
    "cross": (
        (-_ARM, -1.0),
        (_ARM, -1.0),
        (_ARM, -_ARM),
        (1.0, -_ARM),
        (1.0, _ARM),
        (_ARM, _ARM),
        (_ARM, 1.0),
        (-_ARM, 1.0),
        (-_ARM, _ARM),
        (-1.0, _ARM),
        (-1.0, -_ARM),
        (-_ARM, -_ARM),
    ),
    "star": _star(),
}
"""Corners in units of the radius, y downwards."""


def _with_grain(picture: Image.Image, scene: Scene) -> Image.Image:
    if not scene.noise:
        return picture
    grains = Random(scene.grain).randbytes(_GRAINS * _GRAINS * 3)
    grain = Image.frombytes("RGB", (_GRAINS, _GRAINS), grains)
    return Image.blend(picture, grain.resize(picture.size, Image.Resampling.BILINEAR), scene.noise)
