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

from mmconv.benchmarks.botchat.options import SEED, DupDetect, Similarity


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
        matcher = _matcher(utterances[earlier - 1], utterances[later - 1], similarity)
        # an upper bound costs a fraction of the ratio itself
        if matcher.quick_ratio() > highest:
            highest = max(highest, matcher.ratio())
    return highest


def calibrate(highest: Sequence[float], wanted: float) -> Calibration:
    """The lowest threshold that leaves at least the `wanted` share of dialogues without a loop.

    `highest` holds each dialogue's `highest_similarity`. Raises `ValueError` without any, or for a
    share that is not above 0 and at most 1.
    """
    if not highest or not 0 < wanted <= 1:
        raise ValueError("calibration needs dialogues, and a wanted share from above 0 to 1")
    ranked = sorted(highest)
    # 0.9 * 10 is 9, not 9.000000000000002 and then 10
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
    matcher = _matcher(earlier, later, settings.similarity)
    return matcher.quick_ratio() > settings.threshold and matcher.ratio() > settings.threshold


def _matcher(earlier: str, later: str, similarity: Similarity) -> SequenceMatcher[str]:
    left, right = (
        each.lower() if similarity == "characters" else each.lower().split()
        for each in (earlier, later)
    )
    # autojunk would ignore frequent characters of utterances above 200
    return SequenceMatcher(None, left, right, autojunk=False)
