import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.drawn.script import Line, write_script
from images.drawn.shapes import COLOURS, SHAPES, Scene, Thing, sample_scene
from images.drawn.truth import Dialogue


def draw(number: int) -> tuple[Scene, Dialogue]:
    random = Random(number)
    scene = sample_scene(random)
    return scene, write_script(scene, random)


SAMPLES = [draw(number) for number in range(600)]


def thing(name: str, x: float, y: float = 0.2, large: bool = True) -> Thing:
    colour, shape = name.split()
    size = "large" if large else "small"
    return Thing(shape=shape, colour=colour, size=size, x=x, y=y, radius=0.1)


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
ASKED = [write_script(SCENE, Random(seed)).turns for seed in range(800)]
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
    asked = [Counter(script.turns[place].task for _, script in SAMPLES) for place in range(3)]
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


def test_each_turn_builds_on_the_one_before() -> None:
    for scene, script in SAMPLES[:200]:
        first, second, third = (turn.reference for turn in script.turns)
        named = [thing for thing in scene.things if thing.name in first]
        number = re.findall(r"\d", second)[-1]
        assert named == [thing for thing in scene.things if thing.name in second]
        assert named == [thing for thing in scene.things if thing.name in third]
        assert re.findall(r"\d", third) == [number]
        anchor = script.turns[0].instruction
        assert len(named) == len(scene.things) or any(each.name in anchor for each in scene.things)


def test_demands_name_what_the_third_answer_holds() -> None:
    for scene, script in SAMPLES[:200]:
        reference, demands = script.turns[2].reference, " ".join(script.demands)
        for each in scene.things:
            assert (f"the {each.name}?" in demands) == (each.name in reference)
        assert ("two lines long" in demands) == ("\n" in reference)


def test_a_caption_names_every_thing_with_its_size_and_half() -> None:
    for scene, script in SAMPLES:
        for each in scene.things:
            assert f"{each.name} ({each.size}, in the {each.half} half)" in script.caption


THINGS = "A red circle, a blue square and a green star."
LIST = Line("List the objects from left to right.", THINGS)
SIZES = Line(
    "Count and name the large and the small objects.",
    "2 are large: a red circle and a blue star. 1 is small: a green square.",
    ("large", "small"),
)
HALVES = Line(
    "Which objects are in the upper half and which in the lower half?",
    "In the upper half: a red circle. In the lower half: nothing.",
    ("upper", "lower"),
)
VERDICTS = Line(
    "Check each one: how many are red?",
    "The red circle yes and the blue star no: 1.",
    ("yes", "no"),
)
STORY = Line("", "Once upon a time we met a red star.\nWe counted to 2.")


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (LIST, "From left to right: one red circle, one blue square, and one green star."),
        (LIST, "I see a Red Circle; then a blue square; then a green star!"),
        (LIST, "**red circle, blue square, green star**"),
        (SIZES, "1 is small: a green square. 2 are large: a blue star and a red circle."),
        (HALVES, "Top: the red circle. Bottom: none."),
        (VERDICTS, "The red circle is: yes. The blue star is not. In all 1."),
        (STORY, "We met a red star.\n\nIt was two of them."),
    ],
)
def test_right_answers_are_right_in_other_words(line: Line, reply: str) -> None:
    check = line.check(reply)
    assert (check.outcome, check.share) == ("right", 1.0), check.missed


@pytest.mark.parametrize(
    ("line", "reply", "missed"),
    [
        (LIST, "A red circle and a green star.", {"blue square"}),
        (LIST, "A red circle, a blue star and a green star.", {"blue square", "blue star"}),
        (LIST, "A green star, a red circle and a blue square.", set()),
        (LIST, f"{THINGS} And a pink circle.", {"pink circle"}),
        (
            SIZES,
            "2 are large: a red circle and a green square. 1 is small: a blue star.",
            {"green square: small", "green square: large", "blue star: small", "blue star: large"},
        ),
        (SIZES, "3 are large: a red circle and a blue star. 1 is small: a green square.", {"3"}),
        (VERDICTS, "The red circle no and the blue star no: 1.", {"red circle: no"}),
        (VERDICTS, "The red circle yes and the blue star no: 2.", {"1", "2"}),
        (STORY, "We met a red star. We counted to 2.", {"2 lines"}),
    ],
)
def test_wrong_answers_name_what_is_wrong(line: Line, reply: str, missed: set[str]) -> None:
    check = line.check(reply)
    assert check.outcome == "wrong" and check.share < 1
    assert missed <= {*check.missed}


def test_an_answer_without_facts_is_unread() -> None:
    assert LIST.check("I cannot see that.").outcome == "unread"


@given(number=st.integers(0, 10_000), place=st.integers(0, 1000), other=st.integers(1, 6))
def test_an_answer_with_one_wrong_fact_is_never_right(number: int, place: int, other: int) -> None:
    for line in draw(number)[1].turns:
        words = [
            (match, kind)
            for match in re.finditer(r"\w+", line.reference)
            for kind in KINDS
            if match[0].lower() in kind
        ]
        if not words:
            continue
        match, kind = words[place % len(words)]
        step = other % (len(kind) - 1) + 1
        changed = kind[(kind.index(match[0].lower()) + step) % len(kind)]
        reply = f"{line.reference[: match.start()]}{changed}{line.reference[match.end() :]}"
        assert line.check(reply).outcome == "wrong", reply


KINDS = (COLOURS, SHAPES, ("small", "large"), ("upper", "lower"), ("left", "right"), ("yes", "no"))


@given(reply=st.text())
def test_any_text_can_be_checked(reply: str) -> None:
    assert 0.0 <= SIZES.check(reply).share <= 1.0
