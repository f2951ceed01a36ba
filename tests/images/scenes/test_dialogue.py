from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest

from images.scenes import Sample, Scene, Thing, draw_sample, write_dialogue

SAMPLES = [draw_sample("tests", 0, number) for number in range(600)]


def thing(name: str, x: float, y: float = 0.2, large: bool = True) -> Thing:
    colour, shape = name.split()
    size = "large" if large else "small"
    return Thing(shape=shape, colour=colour, size=size, x=x, y=y, radius=0.1)  # type: ignore[arg-type]  # a literal


SCENE = Scene(
    things=(
        thing("red circle", 0.2),
        thing("orange star", 0.5, 0.8, large=False),
        thing("red square", 0.8),
    ),
    ground="white",
    noise=0.0,
    grain=0,
    front=(0, 1, 2),
)
ASKED = [write_dialogue(SCENE, Random(seed)).turns for seed in range(800)]
TURNS = {turns[0].instruction: turns[0].reference for turns in ASKED} | {
    turns[1].instruction: turns[1].reference
    for turns in ASKED
    if turns[0].task == ("count" if turns[1].task == "compare" else "list")
}


@pytest.mark.parametrize(
    ("instruction", "reference"),
    [
        ("List the objects from left to right.", "A red circle, an orange star and a red square."),
        (
            "Name the red objects and then the others.",
            "Red: a red circle and a red square. Others: an orange star.",
        ),
        (
            "Count and name the large and the small objects.",
            "2 are large: a red circle and a red square. 1 is small: an orange star.",
        ),
        (
            "Which objects are in the upper half and which in the lower half?",
            "In the upper half: a red circle and a red square. In the lower half: an orange star.",
        ),
        (
            "What is left of the red circle, and what is right of it?",
            "On the left: nothing. On the right: an orange star and a red square.",
        ),
        (
            "Check each one: which is the odd one out?",
            "The red circle no, the orange star yes and the red square no: 1.",
        ),
        (
            "Check each one: how many are red?",
            "The red circle yes, the orange star no and the red square yes: 2.",
        ),
        (
            "Check each one: which remain if the red ones are taken away?",
            "The red circle no, the orange star yes and the red square no: 1.",
        ),
        (
            "Check each one: how many are there if every red one comes twice?",
            "The red circle 2, the orange star 1 and the red square 2: 5.",
        ),
        (
            "Check each one: are there more large ones or more small ones, and by how many?",
            "The red circle large, the red square large and the orange star small: "
            "more large, by 1.",
        ),
    ],
)
def test_references_are_true(instruction: str, reference: str) -> None:
    assert TURNS[instruction] == reference


def test_every_task_is_asked() -> None:
    asked = [Counter(sample.dialogue.turns[place].task for sample in SAMPLES) for place in range(3)]
    assert set(asked[0]) == {"list", "colour", "count", "position", "relation"}
    assert set(asked[1]) == {
        "count",
        "compare",
        "odd one out",
        "what if some are removed",
        "arithmetic",
    }
    assert set(asked[2]) == {"caption", "slogan", "two-line story"}
    assert min(min(counts.values()) for counts in asked) >= 15


@pytest.mark.parametrize("sample", SAMPLES[:200])
def test_each_turn_builds_on_the_one_before(sample: Sample) -> None:
    dialogue, named = sample.dialogue, sample.scene.things
    first, second, third = (turn.reference for turn in dialogue.turns)
    anchor = dialogue.turns[0].instruction
    told = [thing for thing in named if thing.name in first]
    number = re.findall(r"\d", second)[-1]
    assert told == [thing for thing in named if thing.name in second]
    assert told == [thing for thing in named if thing.name in third]
    assert re.findall(r"\d", third) == [number]
    assert len(told) == len(named) or any(thing.name in anchor for thing in named)


@pytest.mark.parametrize("sample", SAMPLES[:200])
def test_focus_points_name_what_the_third_answer_holds(sample: Sample) -> None:
    reference = sample.dialogue.turns[2].reference
    asked = " ".join(sample.dialogue.focus_points)
    for each in sample.scene.things:
        assert (f"the {each.name}?" in asked) == (each.name in reference)
    assert ("two lines long" in asked) == ("\n" in reference)


def test_a_caption_names_every_thing_with_its_size_and_half() -> None:
    for sample in SAMPLES:
        for each in sample.scene.things:
            half = "upper" if each.upper else "lower"
            assert f"{each.name} ({each.size}, in the {half} half)" in sample.dialogue.caption


def test_a_series_is_its_name_and_its_seed() -> None:
    assert draw_sample("a", 1, 2) == draw_sample("a", 1, 2)
    drawn = [draw_sample("a", 1, 2), draw_sample("b", 1, 2), draw_sample("a", 2, 2)]
    assert len({sample.scene for sample in drawn}) == 3
