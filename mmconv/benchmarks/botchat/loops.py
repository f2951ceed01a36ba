"""DupDetect: where a dialogue begins to repeat itself (paper, section 3.2), and calibration.

With utterances counted from 1 and N of them, each i with 2 < i < N - 1 is compared with i + 1 and
i + 2. The paper names neither the measure of similarity nor its threshold; both are options, and
`calibrate` finds the threshold that gives a wanted share of dialogues without a loop. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from rapidfuzz.distance import Indel

from mmconv.benchmarks.botchat.options import SEED, DupDetect, Similarity

ROUNDING = 1e-9
"""How far two ways to compute one ratio may lie apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A threshold, the share of dialogues that it leaves without a loop, and the next step down.

    `lower_threshold` is the highest similarity below `threshold`, with its `lower_rate`; both are
    None where there is none.
    """

    threshold: float
    rate: float
    lower_threshold: float | None
    lower_rate: float | None


# In an arena each dialogue is compared with those of all other models.
@lru_cache(maxsize=512)
def first_repeat(utterances: tuple[str, ...], settings: DupDetect) -> int | None:
    """The number, from 1, of the utterance that triggers DupDetect; None without a loop.

    It is the first that is too similar to one of the two before it.
    """
    repeats = (
        later
        for earlier, later in _compared(len(utterances))
        if _exceeds(utterances[earlier - 1], utterances[later - 1], settings)
    )
    return next(repeats, None)


def highest_similarity(utterances: Sequence[str], similarity: Similarity) -> float:
    """The greatest similarity that DupDetect finds in a dialogue; 0 where it compares nothing."""
    highest = 0.0
    for earlier, later in _compared(len(utterances)):
        pair = _pair(utterances[earlier - 1], utterances[later - 1], similarity)
        if _may_exceed(*pair, highest):
            highest = max(highest, _ratio(*pair))
    return highest


def calibrate(highest: Sequence[float], wanted: float) -> Calibration:
    """The lowest threshold that leaves at least the `wanted` share of dialogues without a loop.

    `highest` holds each dialogue's `highest_similarity`. Raises `ValueError` without any, or for a
    share that is not above 0 and at most 1.
    """
    if not highest or not 0 < wanted <= 1:
        raise ValueError("calibration needs dialogues, and a wanted share from above 0 to 1")
    ranked = sorted(highest)
    # 0.55 * 100 is 55, not 55.00000000000001 and then 56
    needed = math.ceil(round(wanted * len(ranked), 9))
    threshold = ranked[needed - 1]
    below = [value for value in ranked if value < threshold]
    return Calibration(
        threshold=threshold,
        rate=sum(value <= threshold for value in ranked) / len(ranked),
        lower_threshold=below[-1] if below else None,
        lower_rate=len(below) / len(ranked) if below else None,
    )


def _compared(count: int) -> Iterator[tuple[int, int]]:
    """The numbers of the utterances that are compared in a dialogue of so many, earliest first."""
    for earlier in range(SEED + 1, count - 1):
        yield earlier, earlier + 1
        yield earlier, earlier + 2


def _exceeds(earlier: str, later: str, settings: DupDetect) -> bool:
    pair = _pair(earlier, later, settings.similarity)
    return _may_exceed(*pair, settings.threshold) and _ratio(*pair) > settings.threshold


def _pair(earlier: str, later: str, similarity: Similarity) -> tuple[Sequence[str], Sequence[str]]:
    if similarity == "characters":
        return earlier.lower(), later.lower()
    return earlier.lower().split(), later.lower().split()


def _may_exceed(left: Sequence[str], right: Sequence[str], threshold: float) -> bool:
    """Whether the ratio can be above the threshold, which costs a thousandth of the ratio itself.

    What difflib matches is a common subsequence, so that the longest one bounds its ratio.
    """
    return Indel.normalized_similarity(left, right) > threshold - ROUNDING


def _ratio(left: Sequence[str], right: Sequence[str]) -> float:
    # autojunk would ignore frequent characters of utterances above 200
    return SequenceMatcher(None, left, right, autojunk=False).ratio()
