"""ConvBench's parsers: a closing line `Rating: 7` or `Response A is better`, and extracted ones.

A custom benchmark with such a line uses them too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mmconv.core.errors import Unparsed
from mmconv.core.types import Verdict

LOWEST_RATING = 1
HIGHEST_RATING = 10

# A line that begins with the verdict, as the prompt asks.
_MARKS = r"(?:[^\w\n]|_)"
_VERDICT_LINE = re.compile(
    rf"^{_MARKS}*(?:(?:my|the|overall|final){_MARKS}+)*rating[^\w\n:：]*[:：]",
    re.IGNORECASE | re.MULTILINE,
)
# Anywhere else: the word nearest to the colon. "The rating scale helps; Rating: 7" is read from
# the second one.
_WORD = r"(?<![^\W_])rating(?![^\W_])"
_RATING = re.compile(f"{_WORD}(?:(?!{_WORD})[^:：\\n])*[:：]", re.IGNORECASE)
_FINAL_RATING = re.compile(r"\bFinal (?:Answer|Rating)\b[^\w\n:：]*[:：]", re.IGNORECASE)

# Allowed between the colon and the number, line breaks included, but not a minus sign.
_DECORATION = re.compile(r"(?:\\boxed|(?![-−–]\d)[\W_])*")
_SCALE = re.compile(r"(?:/|\b(?:out )?of\b|\b1\s*(?:to|-|–)\s*)\s*10(?![\d.]*\d)", re.IGNORECASE)
# All of a number or none: "8.5points" is not 8.
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?!\.?\d|(?!分)[^\W_])")
_OTHER_SCALE = re.compile(r"\s*(?:/|\bout of\b)\s*\d", re.IGNORECASE)

_GAP = r"""[\s*_`"'“”‘’()\[\]{}]+"""
_BETTER = re.compile(f"response{_GAP}([ab]){_GAP}is{_GAP}better", re.IGNORECASE)
_SENTENCES = re.compile(r".*[.!?。！？](?=\W)")
_FINAL_CHOICE = re.compile(r"Final Answer[*_]*:[*_\s]*Response[*_\s]+([AB])(?![^\W_])")
_OTHER_CHOICE = re.compile(
    r".*?(?:Response[*_\s]+|(?:[/,&]|\b(?:or|and)\b)[*_\s]*)([AB])(?![^\W_])"
)


def rating(text: str) -> Verdict:
    """The number from 1 to 10 after the last `Rating:`, as score `rating`.

    A line that begins with it goes before other mentions of a rating; those before it are of single
    turns, or thoughts on the way. One after it with a different number, such as the reference's or
    the judge's confidence, makes the reply unreadable. The number must follow the colon at once; a
    second, different number on its line makes it unreadable.
    """
    lines, mentions = [*_VERDICT_LINE.finditer(text)], [*_RATING.finditer(text)]
    verdict = _rated(text, lines or mentions, "Rating: n")
    if not lines or (mentions and lines[-1].end() == mentions[-1].end()):
        return verdict
    try:
        last = _rated(text, mentions, "Rating: n")
    except Unparsed:
        return verdict
    if last.scores != verdict.scores:
        rated, other = verdict.scores["rating"], last.scores["rating"]
        raise Unparsed(f"a rating of {rated:g}, and after it one of {other:g}")
    return verdict


def extracted_rating(text: str) -> Verdict:
    """The number from 1 to 10 after the last `Final Answer:` or, as in the paper, `Final Rating:`.

    Source: ConvBench, Fig. 20.
    """
    return _rated(text, [*_FINAL_RATING.finditer(text)], "Final Answer: n")


def choice(text: str) -> Verdict:
    """The side, `A` or `B`, that the reply says is better, in any case.

    Exactly one of "response A is better" and "response B is better" must occur in the reply, as
    in the authors' code (ConvBench); emphasis, quotes and brackets around the words don't count,
    nor, as there, does a "not" before them.
    """
    return _chosen(text, _BETTER, "either 'Response A is better' or 'Response B is better'")


def extracted_choice(text: str) -> Verdict:
    """The side after `Final Answer: Response`, case-sensitive as in the authors' code (ConvBench).

    Emphasis around the words doesn't count. Both sides named, or none, makes it unreadable; unlike
    there, also "Final Answer: Response A or B".
    """
    for match in _FINAL_CHOICE.finditer(text):
        other = _OTHER_CHOICE.match(text, match.end())
        if other is not None and other[1] != match[1]:
            raise Unparsed(f"both sides in one line: {match[0]}{other[0]}")
    return _chosen(text, _FINAL_CHOICE, "either 'Final Answer: Response A' or '... B'")


def _rated(text: str, markers: Sequence[re.Match[str]], expected: str) -> Verdict:
    """The rating that stands after the last of the markers."""
    if not markers:
        raise Unparsed(f"looked for {expected!r}")
    last = markers[-1]
    value = _number(text[last.end() :], expected)
    if not LOWEST_RATING <= value <= HIGHEST_RATING:
        raise Unparsed(f"rating {value:g} is out of range {LOWEST_RATING}-{HIGHEST_RATING}")
    return Verdict(scores={"rating": value}, rationale=_before(text, last.start()))


def _number(tail: str, expected: str) -> float:
    """The number at the start of `tail`; a scale such as `/10` does not count."""
    line = _DECORATION.sub("", tail, count=1).partition("\n")[0]
    bare = _SCALE.sub(" ", line)
    numbers = _NUMBER.findall(bare)
    first = _NUMBER.match(bare)
    if not first:
        raise Unparsed(f"looked for {expected!r}, found {line.strip()[:40]!r} after the colon")
    if _OTHER_SCALE.match(bare, first.end()):
        raise Unparsed(f"a rating on another scale: {line.strip()[:40]!r}")
    if len({float(number) for number in numbers}) > 1:
        raise Unparsed(f"more than one number after the colon: {line.strip()[:40]!r}")
    return float(numbers[0])


def _chosen(text: str, pattern: re.Pattern[str], expected: str) -> Verdict:
    matches = list(pattern.finditer(text))
    labels = {match[1].upper() for match in matches}
    if len(labels) != 1:
        raise Unparsed(f"looked for {expected}; found {'both' if labels else 'neither'}")
    return Verdict(label=labels.pop(), rationale=_before(text, matches[-1].start()))


def _before(text: str, verdict: int) -> str:
    """The reasons: all text before the verdict's line, and the sentences before it on its line."""
    line = text.rfind("\n", 0, verdict) + 1
    sentences = _SENTENCES.match(text, line, verdict)
    return text[: sentences.end() if sentences else line].strip()
