"""DupDetect: where a dialogue begins to repeat itself (paper, section 3.2), and its calibration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Literal, TypeAlias

from pydantic import Field

from mmconv.benchmarks.botchat.dialogues import SEED
from mmconv.benchmarks.shared.options import BenchmarkOptions

Similarity: TypeAlias = Literal["characters", "words"]


class DupDetect(BenchmarkOptions):
    """When an utterance repeats an earlier one: the paper names neither measure nor threshold.

    An utterance repeats another if their similarity is above the threshold.
    """

    similarity: Similarity = "characters"
    """What difflib's ratio is taken over, without case."""
    threshold: float = Field(default=0.9, ge=0, le=1)
    """The similarity above which an utterance repeats another; `mmconv calibrate` fits it."""
    scope: Literal["compared", "whole"] = "compared"
    """Whether a comparison looks at what is compared, cut to its length, or at whole dialogues."""

    def __str__(self) -> str:
        where = "the compared utterances" if self.scope == "compared" else "whole dialogues"
        return f"difflib's ratio over {self.similarity} above {self.threshold!r}, in {where}"


# In an arena each dialogue is compared with those of all other models.
@lru_cache(maxsize=512)
def first_repeat(utterances: tuple[str, ...], settings: DupDetect) -> int | None:
    """The number, from 1, of the first utterance that repeats one of the two before it; or None."""
    threshold = settings.threshold
    for earlier, later in _pairs(utterances):
        if _similarity(earlier[1], later[1], settings.similarity, threshold) > threshold:
            return later[0]
    return None


def highest_similarity(utterances: Sequence[str], similarity: Similarity) -> float:
    """The greatest similarity that DupDetect finds in a dialogue; 0 if it compares nothing."""
    highest = 0.0
    for (_, earlier), (_, later) in _pairs(utterances):
        highest = max(highest, _similarity(earlier, later, similarity, highest))
    return highest


def _pairs(utterances: Sequence[str]) -> Iterator[tuple[tuple[int, str], tuple[int, str]]]:
    """The numbered utterances that are compared with each other, earliest first."""
    numbered = [*enumerate(utterances, start=1)]
    for place in range(SEED, len(numbered) - 2):
        yield numbered[place], numbered[place + 1]
        yield numbered[place], numbered[place + 2]


def _similarity(earlier: str, later: str, similarity: Similarity, above: float) -> float:
    """Difflib's ratio of two utterances, or a bound of it that is not `above`."""
    left: Sequence[str] = earlier.lower()
    right: Sequence[str] = later.lower()
    if similarity == "words":
        left, right = earlier.lower().split(), later.lower().split()
    total = len(left) + len(right)
    if not total:
        return 1.0
    # What difflib matches is a common subsequence: the longest one bounds its ratio, in a twentieth
    # of the time, and so does the shorter utterance.
    bound = 2.0 * min(len(left), len(right)) / total
    if bound > above:
        bound = 2.0 * _longest_common_subsequence(left, right) / total
    if bound <= above:
        return bound
    # autojunk would ignore frequent characters of utterances above 200
    return SequenceMatcher(None, left, right, autojunk=False).ratio()


def _longest_common_subsequence(left: Sequence[str], right: Sequence[str]) -> int:
    """Its length, by the bits of integers (Hyyro, 2004): zeros count what is matched so far."""
    places: dict[str, int] = {}
    for place, item in enumerate(left):
        places[item] = places.get(item, 0) | 1 << place
    ones = row = (1 << len(left)) - 1
    for item in right:
        matches = row & places.get(item, 0)
        row = ((row + matches) | (row - matches)) & ones
    return len(left) - row.bit_count()


def calibrate(highest: Sequence[float], rate: float) -> dict[float, float]:
    """The lowest threshold that leaves at least this share of dialogues without a loop.

    It has its own share, and so has the next similarity below it, if there is one. `highest` holds
    each dialogue's `highest_similarity`. Raises `ValueError` without any, or for a rate that is not
    above 0 and at most 1.
    """
    if not highest or not 0 < rate <= 1:
        raise ValueError("calibration needs dialogues, and a rate above 0 and at most 1")
    ranked = sorted(highest)
    # 0.55 * 100 is 55, not 55.00000000000001 and then 56
    threshold = ranked[math.ceil(round(rate * len(ranked), 9)) - 1]
    below = [value for value in ranked if value < threshold][-1:]
    return {
        each: sum(value <= each for value in ranked) / len(ranked) for each in (threshold, *below)
    }
