"""A small seeded generator of pictures whose content is known: coloured shapes in a row.

It serves demos and tests that need images with references. It draws no text, no overlap and no
photograph, and is no benchmark.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias

from PIL import Image, ImageDraw

Kind: TypeAlias = Literal["circle", "square", "triangle"]

KINDS: tuple[Kind, ...] = ("circle", "square", "triangle")
COLOURS = ("red", "green", "blue", "yellow", "purple", "black")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One drawn shape.

    `position` counts from 1 at the left; `box` is left, top, right, bottom in pixels.
    """

    kind: Kind
    colour: str
    position: int
    box: tuple[int, int, int, int]


def draw_scene(seed: int, size: tuple[int, int] = (320, 160)) -> tuple[bytes, tuple[Shape, ...]]:
    """A PNG file of two to four shapes on white, and what it shows, from left to right.

    No colour occurs twice. Equal arguments draw equal pictures. `size` is width and height in
    pixels, at least 80 by 40; less raises `ValueError`.
    """
    width, height = size
    if width < 80 or height < 40:
        raise ValueError(f"a scene of {width} x {height} pixels is too small to tell shapes apart")
    random = Random(seed)
    colours = random.sample(COLOURS, random.randint(2, 4))
    column = width // len(colours)
    shapes = []
    for place, colour in enumerate(colours):
        side = random.randint(min(column, height) // 2, min(column, height) * 4 // 5)
        left = place * column + random.randint(0, column - side)
        top = random.randint(0, height - side)
        shapes.append(
            Shape(
                kind=random.choice(KINDS),
                colour=colour,
                position=place + 1,
                box=(left, top, left + side - 1, top + side - 1),
            )
        )
    return _draw(shapes, size), tuple(shapes)


def _draw(shapes: list[Shape], size: tuple[int, int]) -> bytes:
    picture = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(picture)
    for shape in shapes:
        left, top, right, bottom = shape.box
        if shape.kind == "circle":
            pen.ellipse(shape.box, fill=shape.colour)
        elif shape.kind == "square":
            pen.rectangle(shape.box, fill=shape.colour)
        else:
            pen.polygon([(left, bottom), ((left + right) // 2, top), (right, bottom)], shape.colour)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()
