"""Draws a scene as pixels, and what each pixel shows as a map of labels.

The same scene gives the same bytes. No text is drawn, and nothing that the scene does not name.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from math import cos, pi, sin
from random import Random

from PIL import Image, ImageDraw

from images.scenes.values import Scene, Thing

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


def draw(scene: Scene) -> bytes:
    """The scene as a PNG file, SIDE pixels wide and high."""
    file = io.BytesIO()
    paint(scene).save(file, "PNG")
    return file.getvalue()


def paint(scene: Scene) -> Image.Image:
    """The scene as an RGB picture, SIDE pixels wide and high."""
    picture = Image.new("RGB", (SIDE, SIDE), _GROUND_TONES[scene.ground])
    pen = ImageDraw.Draw(picture)
    for number in scene.front:
        thing = scene.things[number]
        _stamp(pen, thing, SIDE, _tone(thing))
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
