from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from images.door import Limits, decode
from images.scenes import SIDE, Scene, draw, label_map, paint, pixels, sample_scene

SCENES = [sample_scene(Random(seed)) for seed in range(40)]


@pytest.mark.parametrize("scene", SCENES[:10])
def test_a_picture_is_a_png_of_the_scene_and_always_the_same(scene: Scene) -> None:
    picture = decode(draw(scene), Limits(), "scene")
    assert picture.size == (SIDE, SIDE)
    assert picture.tobytes() == paint(scene).tobytes()
    assert draw(scene) == draw(scene)


def test_colours_are_where_the_labels_say() -> None:
    seen: dict[str, set[tuple[int, int, int]]] = {}
    for scene in SCENES:
        plain = replace(
            scene, noise=0.0, things=tuple(replace(thing, shade=0.0) for thing in scene.things)
        )
        labels, inks = label_map(plain, SIDE), paint(plain).tobytes()
        names = [scene.ground, *(thing.colour for thing in scene.things)]
        for place in range(0, SIDE * SIDE, 7):
            ink = inks[3 * place], inks[3 * place + 1], inks[3 * place + 2]
            seen.setdefault(names[labels[place]], set()).add(ink)
    assert all(len(inks) == 1 for inks in seen.values())
    assert len(set().union(*seen.values())) == len(seen) == 11


def test_every_thing_shows() -> None:
    for scene in SCENES:
        labels = label_map(scene, SIDE)
        for place, thing in enumerate(scene.things, start=1):
            whole = thing.radius**2 * SIDE**2
            assert labels.count(place) > 0.25 * whole


def test_shapes_differ_in_what_they_cover() -> None:
    scene = SCENES[0]
    one = replace(scene.things[0], size="large", radius=0.12, x=0.5, y=0.3, turn=0.0)
    maps = {
        shape: label_map(replace(scene, things=(replace(one, shape=shape),), front=(0,)), 64)
        for shape in ("circle", "square", "triangle", "star", "diamond", "cross")
    }
    assert len(set(maps.values())) == 6


def test_noise_changes_pixels_and_follows_from_the_grain() -> None:
    scene = replace(SCENES[0], noise=0.2, grain=1)
    assert pixels(scene, 32) == pixels(scene, 32)
    assert pixels(scene, 32) != pixels(replace(scene, grain=2), 32)
    assert pixels(scene, 32) != pixels(replace(scene, noise=0.0), 32)
    assert len(pixels(scene, 32)) == 32 * 32 * 3
