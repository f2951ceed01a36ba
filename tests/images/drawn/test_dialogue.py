"""Drawn dialogues: right references, nested conditions, equal draws, a ladder of levels."""

import hashlib
from itertools import pairwise, product
from random import Random

import pytest

from images.decode import Limits, decode
from images.drawn import FAMILIES, LANGUAGES, draw_sample
from images.drawn.canvas import FINGERPRINT, fingerprint
from images.drawn.dialogue import draw
from images.drawn.truth import another
from images.drawn.words import Language

SOME_LEVELS = (1, 4, 7, 10)


@pytest.mark.parametrize(("family", "language"), list(product(FAMILIES, LANGUAGES)))
def test_a_reference_with_a_fact_changed_is_wrong(family: str, language: Language) -> None:
    for level, number in product(SOME_LEVELS, range(4)):
        sample = draw_sample(family, level, 0, number, language)
        for turn in sample.turns:
            assert turn.check(turn.mistake).outcome == "wrong", turn


@pytest.mark.parametrize("family", list(FAMILIES))
def test_another_sample_s_answers_are_not_right(family: str) -> None:
    samples = [draw_sample(family, level, 0, 0, "en") for level in SOME_LEVELS]
    for one, other in pairwise(samples):
        assert one.turns[0].check(other.turns[0].reference).outcome != "right"
        assert one.turns[2].check(other.turns[2].reference).outcome != "right"


@pytest.mark.parametrize("family", list(FAMILIES))
def test_equal_seeds_draw_equal_pixels_and_others_do_not(family: str) -> None:
    one, again, other = (draw(family, 5, Random(seed)).png for seed in (1, 1, 2))
    assert one == again != other


@pytest.mark.parametrize("family", list(FAMILIES))
def test_images_have_at_most_1024_pixels_a_side_and_more_facts_by_level(
    family: str,
) -> None:
    drawings = [draw(family, level, Random(level)) for level in (1, 10)]
    assert max(max(decode(drawing.png, Limits(), family).size) for drawing in drawings) <= 1024
    assert len(drawings[0].facts) < len(drawings[1].facts)


def test_the_test_card_is_drawn_as_on_the_machine_of_the_authors() -> None:
    assert fingerprint() == FINGERPRINT


PIXELS = {
    "boards": "9be3d2380607",
    "charts": "a8f212e995e3",
    "clocks": "b5d07c886eb4",
    "crowds": "5e3b7762c0a0",
    "maps": "315b4d2fb675",
    "receipts": "11e89621bea7",
    "stacks": "8446222fd753",
}
"""Family -> a hash of one image of each of `SOME_LEVELS`: published runs are about these pixels."""


@pytest.mark.skipif(fingerprint() != FINGERPRINT, reason="another Pillow draws other pixels")
@pytest.mark.parametrize("family", list(PIXELS))
def test_a_family_draws_the_pixels_of_published_runs(family: str) -> None:
    pixels = hashlib.sha256()
    for level in SOME_LEVELS:
        png = draw(family, level, Random(level)).png
        pixels.update(decode(png, Limits(), family).tobytes())
    assert pixels.hexdigest()[:12] == PIXELS[family]


@pytest.mark.parametrize(("family", "language"), list(product(FAMILIES, LANGUAGES)))
def test_a_note_with_a_wrong_conclusion_is_wrong(family: str, language: Language) -> None:
    for level, number in product((2, 4, 7, 10), range(4)):
        sample = draw_sample(family, level, 0, number, language)
        answer, note = sample.drawing.problem.answer, sample.turns[2].reference
        other = another(answer, Random(number))[language]
        before, true, after = note.rpartition(answer[language])
        assert true and sample.turns[2].check(note).outcome == "right", note
        assert sample.turns[2].check(f"{before}{other}{after}").missed == ("answer",), note
