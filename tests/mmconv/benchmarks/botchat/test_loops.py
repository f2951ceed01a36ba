"""DupDetect and its calibration, by hand."""

from __future__ import annotations

from difflib import SequenceMatcher
from random import Random

import pytest

from mmconv.benchmarks.botchat.loops import (
    DupDetect,
    Similarity,
    calibrate,
    first_repeat,
    highest_similarity,
)

SETTINGS = DupDetect(threshold=0.9)
FRESH = tuple("abcdefghijklmnop"[place] * 10 for place in range(16))


def repeating(*numbers: int, count: int = 16) -> tuple[str, ...]:
    """A dialogue whose utterances of these numbers, from 1, say the same."""
    return tuple("z" * 10 if place + 1 in numbers else FRESH[place] for place in range(count))


@pytest.mark.parametrize(
    ("numbers", "repeat"),
    [
        ((), None),
        ((3, 4), 4),
        ((3, 5), 5),
        ((14, 15), 15),
        ((14, 16), 16),
        # the seed is human, and utterances further apart are not compared
        ((1, 2), None),
        ((2, 3), None),
        ((2, 4), None),
        ((3, 6), None),
        # i < MaxRound - 1: the last two are not compared with each other
        ((15, 16), None),
        ((5, 7, 8), 7),
    ],
)
def test_which_utterances_are_compared(numbers: tuple[int, ...], repeat: int | None) -> None:
    assert first_repeat(repeating(*numbers), SETTINGS) == repeat


def test_a_short_dialogue_has_nothing_to_compare() -> None:
    same = ("hello there",) * 16
    assert [first_repeat(same[:count], SETTINGS) for count in (2, 3, 4, 5)] == [None, None, None, 4]


def test_the_similarity_must_surpass_the_threshold() -> None:
    """difflib: twice the matching characters over all characters, here 2 * 9 / 20."""
    near = (*FRESH[:2], "0123456789", "012345678x", *FRESH[4:])
    assert first_repeat(near, DupDetect(threshold=0.89)) == 4
    assert first_repeat(near, DupDetect(threshold=0.9)) is None
    assert highest_similarity(near, "characters") == pytest.approx(0.9)


@pytest.mark.parametrize("similarity", ["characters", "words"])
def test_what_is_ruled_out_early_is_below_the_threshold(similarity: Similarity) -> None:
    """The bound is the longest common subsequence; difflib's ratio never surpasses it."""
    random = Random(7)
    for _ in range(50):
        texts = [" ".join(random.choices(("ab", "ba", "abb", "c"), k=9)) for _ in range(2)]
        said = (*FRESH[:2], *texts, *FRESH[4:])
        left, right = (list(text) if similarity == "characters" else text.split() for text in texts)
        ratio = SequenceMatcher(None, left, right, autojunk=False).ratio()
        if 0 < ratio < 1:
            below, at = (
                DupDetect(threshold=threshold, similarity=similarity)
                for threshold in (ratio - 1e-6, ratio)
            )
            assert (first_repeat(said, below), first_repeat(said, at)) == (4, None)


def test_words_are_another_measure() -> None:
    said = ("how are you today my friend", "HOW are you tonight my friend")
    near = (*FRESH[:2], *said, *FRESH[4:])
    assert highest_similarity(near, "words") == pytest.approx(2 * 5 / 12)
    assert highest_similarity(near, "characters") > 0.85


def test_long_utterances_are_compared_whole() -> None:
    """difflib's own heuristic would take all frequent characters of 200 or more for junk."""
    near = (*FRESH[:2], "ab" * 300, "ab" * 300, *FRESH[4:])
    assert highest_similarity(near, "characters") == 1.0


@pytest.mark.parametrize(
    ("highest", "rate", "steps"),
    [
        ([place / 10 for place in range(10)], 0.9, [(0.8, 0.9), (0.7, 0.8)]),
        # ties cannot be split
        ([0.2, 0.5, 0.5, 0.5], 0.5, [(0.5, 1.0), (0.2, 0.25)]),
        ([0.2], 1.0, [(0.2, 1.0)]),
    ],
)
def test_the_threshold_gives_the_wanted_rate(
    highest: list[float], rate: float, steps: list[tuple[float, float]]
) -> None:
    assert [*calibrate(highest, rate).items()] == steps


def test_nothing_to_calibrate() -> None:
    with pytest.raises(ValueError, match="a rate above 0"):
        calibrate([], 0.9)
    with pytest.raises(ValueError, match="a rate above 0"):
        calibrate([0.1], 0.0)


def test_a_calibrated_threshold_leaves_what_it_says() -> None:
    dialogues = [repeating(3, 4), repeating(), (*FRESH[:4], "eeeeeeeeef", *FRESH[5:])]
    highest = [highest_similarity(each, "characters") for each in dialogues]
    threshold, *_ = rates = calibrate(highest, 2 / 3)
    settings = DupDetect(threshold=threshold)
    free = [first_repeat(each, settings) is None for each in dialogues]
    assert sum(free) / 3 == pytest.approx(rates[threshold])
