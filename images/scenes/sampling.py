"""Draws scenes by lot, from a seed: what stands where, and how well it can be seen.

The order from left to right, the halves and the sizes are never in doubt to a careful eye; what
difficulty changes is noise, overlap, shades and the number of things.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from images.scenes.values import (
    COLOURS,
    GROUNDS,
    SHAPES,
    SIZES,
    Difficulty,
    Scene,
    Size,
    Thing,
)

_RADII: Mapping[Size, tuple[float, float]] = {"small": (0.060, 0.075), "large": (0.110, 0.130)}
_THEMED = 0.35
"""How many scenes are made so that one thing stands out."""

_TRIES = 60


@dataclass(frozen=True, slots=True)
class _Level:
    """What a difficulty means.

    `apart` is the least distance of two middles, in sums of their radii: under 1 they overlap.
    """

    most: int
    noise: tuple[float, float]
    apart: float
    shade: float
    turn: float


_LEVELS: Mapping[Difficulty, _Level] = {
    "easy": _Level(most=4, noise=(0.0, 0.05), apart=1.15, shade=0.2, turn=0.0),
    "normal": _Level(most=5, noise=(0.05, 0.25), apart=0.8, shade=0.6, turn=12.0),
    "hard": _Level(most=5, noise=(0.2, 0.45), apart=0.6, shade=1.0, turn=25.0),
}


def sample_scene(random: Random, difficulty: Difficulty = "normal") -> Scene:
    """A scene of two to five things; the same state of `random` gives the same scene."""
    level = _LEVELS[difficulty]
    count = random.randint(2, level.most)
    looks = _looks(random, count)
    things: list[Thing] = []
    for place, (colour, shape) in enumerate(looks):
        things.append(_place(random, level, colour, shape, (place, count), things))
    front = list(range(count))
    random.shuffle(front)
    return Scene(
        things=tuple(things),
        ground=random.choice(GROUNDS),
        noise=random.uniform(*level.noise),
        grain=random.getrandbits(32),
        front=tuple(front),
    )


def _looks(random: Random, count: int) -> list[tuple[str, str]]:
    """Distinct pairs of colour and shape; few of either, so that there is something to count."""
    if count >= 3 and random.random() < _THEMED:
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
    level: _Level,
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
        radius = random.uniform(*_RADII[size])
        middle = (place + 0.5) / count + random.uniform(-0.22, 0.22) / count
        thing = Thing(
            shape=shape,
            colour=colour,
            size=size,
            x=min(max(middle, radius + 0.01), 0.99 - radius),
            y=_height(random, radius),
            radius=radius,
            shade=random.uniform(-level.shade, level.shade),
            turn=random.uniform(-level.turn, level.turn),
        )
        clear = min((_clearance(thing, other) for other in others), default=9.0)
        if clear >= level.apart:
            return thing
        if best is None or clear > best[0]:
            best = clear, thing
    assert best is not None
    return best[1]


def _height(random: Random, radius: float) -> float:
    """A middle that lies in one half without doubt."""
    low, high = radius + 0.01, 0.42
    y = random.uniform(low, high)
    return y if random.random() < 0.5 else 1 - y


def _clearance(one: Thing, other: Thing) -> float:
    distance = ((one.x - other.x) ** 2 + (one.y - other.y) ** 2) ** 0.5
    return float(distance / (one.radius + other.radius))
