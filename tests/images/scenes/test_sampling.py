from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from images.scenes import COLOURS, DIFFICULTIES, SHAPES, Difficulty, Scene, sample_scene
from images.scenes.values import GROUNDS


def scenes(difficulty: Difficulty, count: int = 300) -> list[Scene]:
    return [sample_scene(Random(seed), difficulty) for seed in range(count)]


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_what_the_questions_ask_is_never_in_doubt(difficulty: Difficulty) -> None:
    for scene in scenes(difficulty):
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
    drawn = scenes("normal")
    assert {len(scene.things) for scene in drawn} == {2, 3, 4, 5}
    assert {scene.ground for scene in drawn} == set(GROUNDS)
    assert {thing.shape for scene in drawn for thing in scene.things} == set(SHAPES)
    assert {thing.colour for scene in drawn for thing in scene.things} == set(COLOURS)


def overlaps(scene: Scene) -> bool:
    pairs = [(a, b) for a in scene.things for b in scene.things if a.x < b.x]
    return any((a.x - b.x) ** 2 + (a.y - b.y) ** 2 < (a.radius + b.radius) ** 2 for a, b in pairs)


def test_difficulty_means_noise_and_overlap() -> None:
    easy, normal, hard = (scenes(difficulty) for difficulty in DIFFICULTIES)
    noise = [sum(scene.noise for scene in drawn) for drawn in (easy, normal, hard)]
    assert noise[0] < noise[1] < noise[2]
    covered = [sum(overlaps(scene) for scene in drawn) for drawn in (easy, normal, hard)]
    assert covered[0] <= 15 < covered[1] < covered[2]


def test_some_scenes_have_an_odd_one() -> None:
    odd = 0
    for scene in scenes("normal"):
        shapes = [thing.shape for thing in scene.things]
        odd += len(shapes) > 2 and sorted(map(shapes.count, shapes))[-1] == len(shapes) - 1
    assert odd > 30


def test_the_same_state_draws_the_same_scene() -> None:
    assert sample_scene(Random(5), "hard") == sample_scene(Random(5), "hard")
    assert sample_scene(Random(5), "hard") != sample_scene(Random(6), "hard")
