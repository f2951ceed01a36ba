from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.scenes import COLOURS, SHAPES, SIZES, check, draw_sample, falsify
from images.scenes.checking import facts_of

LIST = "List the objects from left to right."
SIZE = "Count and name the large and the small objects."


@pytest.mark.parametrize(
    "answer",
    [
        "A red circle, a blue square and a green star.",
        "From left to right: one red circle, one blue square, and one green star.",
        "I see a Red Circle; then a blue square; then a green star!",
        "The circle is red, the square is blue and the star is green.",
        "red circle, blue square, green star",
    ],
)
def test_right_answers_are_exact_in_any_words(answer: str) -> None:
    found = check(answer, "A red circle, a blue square and a green star.", LIST)
    assert found.exact
    assert found.share == 1.0
    assert found.right == ("red circle", "blue square", "green star")


@pytest.mark.parametrize(
    ("answer", "missing", "wrong"),
    [
        ("A red circle and a green star.", ("blue square",), ()),
        ("A red circle, a blue star and a green star.", ("blue square",), ("blue star",)),
        ("A red circle, a blue square, a green star and a pink heart.", (), ("pink heart",)),
        ("A green star, a red circle and a blue square.", ("green star",), ("green star",)),
        ("", ("red circle", "blue square", "green star"), ()),
        ("I cannot see that.", ("red circle", "blue square", "green star"), ()),
    ],
)
def test_wrong_answers_name_what_is_wrong(
    answer: str, missing: tuple[str, ...], wrong: tuple[str, ...]
) -> None:
    found = check(answer, "A red circle, a blue square and a green star.", LIST)
    assert (found.missing, found.wrong) == (missing, wrong)
    assert not found.exact
    assert found.share < 1.0


def test_things_belong_to_the_group_that_they_are_told_in() -> None:
    reference = "2 are large: a red circle and a blue star. 1 is small: a green square."
    swapped = "2 are large: a red circle and a green square. 1 is small: a blue star."
    turned = "1 is small: a green square. 2 are large: a blue star and a red circle."
    found = check(swapped, reference, SIZE)
    assert found.wrong == ("green square, large", "blue star, small")
    assert check(turned, reference, SIZE).exact


def test_a_size_before_a_thing_is_its_group() -> None:
    reference = "In the upper half: a red circle. In the lower half: nothing."
    assert check("Top: the red circle. Bottom: none.", reference, "").exact
    assert facts_of("a big red circle") == ["red circle, large"]
    assert facts_of("the large ones and 2 more") == ["large", "2"]


def test_numbers_are_read_as_words_too() -> None:
    reference = "The red circle 2 and the red star 1: 3."
    asked = "Check each one: how many are there if every circle comes twice?"
    assert check("The red star: one. The red circle: two. 3 in all.", reference, asked).exact
    assert not check("The red circle 1 and the red star 2: 3.", reference, asked).exact


def test_a_verdict_belongs_to_its_thing() -> None:
    reference = "The red circle yes and the blue star no: 1."
    asked = "Check each one: how many are red?"
    assert check("The red circle is: yes. The blue star is not. One.", reference, asked).exact
    found = check("The red circle no and the blue star yes: 1.", reference, asked)
    assert found.wrong == ("red circle, no", "blue star, yes")
    assert found.right == ("1",)


def test_a_pronoun_is_no_number() -> None:
    assert facts_of("The red one, a star.") == ["red", "star, red"]


def test_a_story_has_as_many_lines_as_its_reference() -> None:
    reference = "Once upon a time we met a red star.\nIt danced until the morning."
    assert check("We met a red star.\n\nThe end.", reference, "").exact
    assert check("We met a red star. The end.", reference, "").missing == ("2 lines",)


@given(number=st.integers(0, 10_000))
def test_every_reference_is_exact_and_its_sentences_hold_facts(number: int) -> None:
    for turn in draw_sample("tests", 1, number).dialogue.turns:
        found = check(turn.reference, turn.reference, turn.instruction)
        assert found.exact
        assert found.right


KINDS = (COLOURS, SHAPES, SIZES, ("upper", "lower"), ("left", "right"), ("yes", "no"))


@given(number=st.integers(0, 10_000), place=st.integers(0, 1000), other=st.integers(1, 6))
def test_an_answer_with_one_fact_changed_is_never_exact(
    number: int, place: int, other: int
) -> None:
    for turn in draw_sample("tests", 2, number).dialogue.turns:
        words = turn.reference.split(" ")
        facts_at = [
            (at, kind, word)
            for at, word in enumerate(words)
            for kind in KINDS
            if word.strip(".,:!\n").lower() in kind
        ]
        if not facts_at:
            continue
        at, kind, word = facts_at[place % len(facts_at)]
        plain = word.strip(".,:!\n").lower()
        step = other % (len(kind) - 1) + 1
        changed = kind[(kind.index(plain) + step) % len(kind)]
        told = " ".join([*words[:at], word.lower().replace(plain, changed), *words[at + 1 :]])
        assert not check(told, turn.reference, turn.instruction).exact


@given(number=st.integers(0, 10_000), more=st.integers(1, 3))
def test_an_answer_with_another_number_is_never_exact(number: int, more: int) -> None:
    for turn in draw_sample("tests", 3, number).dialogue.turns:
        digit = next((letter for letter in turn.reference if letter.isdecimal()), None)
        if digit is None:
            continue
        told = turn.reference.replace(digit, str(int(digit) + more), 1)
        assert not check(told, turn.reference, turn.instruction).exact


@given(st.text(), st.text())
def test_any_texts_can_be_checked(answer: str, reference: str) -> None:
    found = check(answer, reference, LIST)
    assert 0.0 <= found.share <= 1.0
    assert (found.share == 1.0) == found.exact


def test_falsified_answers_are_wrong() -> None:
    for number in range(1, 30):
        for turn in draw_sample("falsified", 0, number).dialogue.turns:
            wrong = falsify(turn.reference, turn.instruction)
            assert check(wrong, turn.reference, turn.instruction).share < 0.5
