from __future__ import annotations

import pytest
from PIL import ImageColor

from images.door import Limits, decode, inspect
from images.drawing import COLOURS, KINDS, draw_scene


@pytest.mark.parametrize("seed", range(20))
def test_a_scene_shows_what_it_says(seed: int) -> None:
    data, shapes = draw_scene(seed)
    picture = decode(data, Limits(), "scene")
    assert picture.size == (320, 160)
    assert 2 <= len(shapes) <= 4
    assert len({shape.colour for shape in shapes}) == len(shapes)
    for position, shape in enumerate(shapes, start=1):
        assert shape.position == position
        assert shape.kind in KINDS
        left, top, right, bottom = shape.box
        middle = picture.getpixel(((left + right) // 2, (top + bottom) // 2))
        assert middle == ImageColor.getrgb(shape.colour)
        corner = picture.getpixel((left, top))
        assert (corner == middle) == (shape.kind == "square")


def test_equal_seeds_draw_equal_scenes() -> None:
    assert draw_scene(3) == draw_scene(3)
    assert draw_scene(3) != draw_scene(4)


def test_many_seeds_use_every_kind_and_colour() -> None:
    shapes = [shape for seed in range(50) for shape in draw_scene(seed, (80, 40))[1]]
    assert {shape.kind for shape in shapes} == set(KINDS)
    assert {shape.colour for shape in shapes} == set(COLOURS)
    assert all(0 <= shape.box[0] < shape.box[2] < 80 for shape in shapes)
    assert all(0 <= shape.box[1] < shape.box[3] < 40 for shape in shapes)


def test_a_scene_has_the_size_asked_for() -> None:
    facts = inspect(draw_scene(0, (200, 100))[0], Limits(), "scene")
    assert (facts.width, facts.height) == (200, 100)
    with pytest.raises(ValueError, match="too small"):
        draw_scene(0, (79, 100))
