"""How a rating in double brackets is read: ours, strictly, and as MT-Bench-101's authors do.

The closing line is `Rating: [[n]]` (paper, Figure 22). Pure; a verdict is never guessed.
"""

from __future__ import annotations

import re

from judges.parsers.convbench import HIGHEST_RATING, LOWEST_RATING
from mmconv.core.errors import Unparsed
from mmconv.core.types import Verdict

# Judges put emphasis around and inside the brackets, escape them, and add "/10".
_EDGE = r"[\s*_`]*"
_DOUBLE = re.compile(
    rf"(?P<marked>\bRating{_EDGE}[:：]{_EDGE})?"
    rf"\\?\[\\?\[{_EDGE}(?P<number>-?\d+(?:\.\d+)?)(?:\s*/\s*10)?{_EDGE}\\?\]\\?\]",
    re.IGNORECASE,
)
_JOINED = re.compile(rf"{_EDGE}(?:[-–—~/,、|&]|\b(?:to|or|and)\b){_EDGE}{_DOUBLE.pattern}", re.I)
_FIRST_INTEGER = re.compile(r"\[([0-9]+)\]")
_EXACT_DIGITS = 15


def bracketed_rating(text: str) -> Verdict:
    """The whole number from 1 to 10 in double brackets, as score `rating`.

    Whole numbers only, as the authors' code reads them (see `first_bracketed_integer`): a fraction
    such as `[[7.5]]` is unreadable, and not rounded. The last one behind `Rating:` counts, unless
    it is the first of two, as in `[[7]]-[[8]]`. If none is so marked, all in double brackets must
    be equal. Single brackets do not count: they may be citations or years.
    """
    value, start = _find_rating(text)
    if not LOWEST_RATING <= value <= HIGHEST_RATING:
        raise Unparsed(f"rating {value:g} is out of range {LOWEST_RATING}-{HIGHEST_RATING}")
    return Verdict(scores={"rating": value}, rationale=text[:start].strip())


def is_out_of_range(text: str) -> bool:
    """Whether the rating is a readable number, but not from 1 to 10."""
    try:
        value, _ = _find_rating(text)
    except Unparsed:
        return False
    return not LOWEST_RATING <= value <= HIGHEST_RATING


def first_bracketed_integer(text: str) -> Verdict:
    """The first integer in square brackets anywhere, of any size, as score `rating`.

    Source: `post_process_mtbench101` in the authors' code, which takes a citation `[1]`, too, and
    does not read `[[7.5]]`. Raises `Unparsed` beyond 15 digits, where no float is exact.
    """
    match = _FIRST_INTEGER.search(text)
    if match is None:
        raise Unparsed("looked for '[n]'")
    if len(match[1]) > _EXACT_DIGITS:
        raise Unparsed(f"more than {_EXACT_DIGITS} digits in brackets")
    return Verdict(scores={"rating": float(match[1])}, rationale=text[: match.start()].strip())


def _find_rating(text: str) -> tuple[float, int]:
    """The rating, whatever its size, and where it begins in the text."""
    matches = list(_DOUBLE.finditer(text))
    if not matches:
        raise Unparsed("looked for 'Rating: [[n]]'")
    marked = [match for match in matches if match["marked"]]
    numbers = {float(match["number"]) for match in matches}
    if not marked and len(numbers) > 1:
        raise Unparsed("several numbers in double brackets, none behind 'Rating:'")
    last = (marked or matches)[-1]
    other = _JOINED.match(text, last.end())
    if other is not None and float(other["number"]) != float(last["number"]):
        raise Unparsed(f"two ratings, {last['number']} and {other['number']}")
    if "." in last["number"]:
        raise Unparsed(f"rating {last['number']} is not a whole number")
    return float(last["number"]), last.start()
