"""Scenes are drawn by lot as promised, and their pixels show what they say."""

from dataclasses import replace
from itertools import pairwise
from random import Random

from images.drawn.shapes import COLOURS, SHAPES, SIDE, Scene, label_map, paint, pixels, sample_scene
from images.drawn.words import GROUNDS

SCENES = [sample_scene(Random(seed)) for seed in range(40)]


def scenes(level: int = 1, count: int = 300) -> list[Scene]:
    return [sample_scene(Random(seed), level) for seed in range(count)]


def test_what_the_questions_ask_is_never_in_doubt() -> None:
    for scene in scenes():
        things = scene.things
        assert 2 <= len(things) <= 5
        assert len({thing.name for thing in things}) == len(things)
        for one, other in pairwise(things):
            assert other.x - one.x >= 0.05
        for thing in things:
            assert abs(thing.y - 0.5) >= 0.08
            assert (thing.radius > 0.09) == (thing.size == "large")
            assert thing.radius <= thing.x <= 1 - thing.radius
            assert thing.radius <= thing.y <= 1 - thing.radius
        assert sorted(scene.front) == list(range(len(things)))


def test_scenes_vary() -> None:
    drawn = scenes()
    assert {len(scene.things) for scene in drawn} == {2, 3, 4, 5}
    assert {scene.ground for scene in drawn} == set(GROUNDS)
    assert {thing.shape for scene in drawn for thing in scene.things} == set(SHAPES)
    assert {thing.colour for scene in drawn for thing in scene.things} == set(COLOURS)


def overlaps(scene: Scene) -> bool:
    pairs = [(a, b) for a in scene.things for b in scene.things if a.x < b.x]
    return any((a.x - b.x) ** 2 + (a.y - b.y) ** 2 < (a.radius + b.radius) ** 2 for a, b in pairs)


def test_levels_mean_noise_overlap_and_more_things() -> None:
    easy, normal, hard = (scenes(level) for level in (2, 6, 10))
    for measure in (lambda scene: scene.noise, overlaps, lambda scene: len(scene.things)):
        sums = [sum(map(measure, drawn)) for drawn in (easy, normal, hard)]
        assert sums[0] < sums[1] < sums[2]


def test_some_scenes_have_an_odd_one() -> None:
    odd = 0
    for scene in scenes():
        shapes = [thing.shape for thing in scene.things]
        odd += len(shapes) > 2 and sorted(map(shapes.count, shapes))[-1] == len(shapes) - 1
    assert odd > 30


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
