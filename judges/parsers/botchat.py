"""How BotChat's two judgements are read: ours, strictly, and as the authors' code reads them.

UniEval asks whether a dialogue is a machine's, and from which utterance on; a comparison asks which
of two dialogues is. Pure; a verdict is never guessed by our readings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mmconv.core.errors import Unparsed
from mmconv.core.types import Verdict

HUMAN = "human"
"""Score of a UniEval verdict: how many utterances precede the first one taken for AI."""

FIRST, SECOND, BOTH, NEITHER = "first", "second", "both", "neither"
"""Labels of a comparison: which of the two dialogues the judge takes for a machine's."""

AUTHORS_UTTERANCES = 16
"""The number of human utterances in the authors' code if it finds no index."""

# Judges put emphasis, quotes, list marks and brackets around the words that they were asked for.
_EDGE = r"[\s*_`\"'“”#>()\[\]（）【】-]*"
_CHOICE = rf"(?:^|[\n;；]){_EDGE}(?:(?:my|the|final){_EDGE})*choice{_EDGE}[:：]{_EDGE}"
# An answer that only repeats the choices does not count.
_ALONE = r"\b(?!\s*(?:[/|&]|(?:or|and)\b|,\s*conversation))"
_YES_NO = re.compile(rf"{_CHOICE}(yes|no){_ALONE}", re.IGNORECASE)
# The paper prints the answer format on one line, and some judges answer so.
_NUMBER = r"\d+(?:st|nd|rd|th)?"
_MORE = rf"(?:[^\S\n]*(?:[-–~.,、;/|&]|\b(?:to|or|and)\b)[^\S\n]*{_NUMBER})*"
_INDEX = re.compile(
    rf"\bindex{_EDGE}[:：]{_EDGE}(?:chat[\s#]*)?(none|n/a|{_NUMBER}{_MORE})\b", re.IGNORECASE
)
_WHICH = re.compile(
    rf"{_CHOICE}(?:conversation[\s#]*([12１２])|(both|neither)){_ALONE}", re.IGNORECASE
)
# What may still belong to a choice: the rest of its sentence and line.
_REST = re.compile(r"(?:(?!\breason\b|(?<!\bvs)[.!?]|[。！？\n]).)*", re.IGNORECASE)
_ORDINAL = re.compile(r"(?:st|nd|rd|th)$")
_REASON = re.compile(r"\breason[\s*_`\"'“”#>-]*[:：][\s*_`\"'“”#>-]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniEvalParser:
    """Reads `Choice: Yes` with `Index: n`, or `Choice: No`, for a dialogue of `utterances`.

    The verdict's score `human` is n - 1, or all `utterances` if none is taken for AI. Two different
    choices, "Yes" without an index from 1 on, and "No" with one, are unreadable.
    """

    utterances: int

    def __call__(self, text: str) -> Verdict:
        """Raises `Unparsed`."""
        choices = {match[1].lower() for match in _YES_NO.finditer(text)}
        if len(choices) != 1:
            found = "both" if choices else "neither"
            raise Unparsed(f"looked for Choice: Yes or Choice: No; found {found}")
        choice = choices.pop()
        indexes = {match[1].lower() for match in _INDEX.finditer(text)} - {"none", "n/a"}
        if choice == "no":
            if indexes:
                raise Unparsed(f"'Choice: No', but 'Index: {min(indexes)}'")
            human = self.utterances
        else:
            human = self._first_index(indexes) - 1
        return Verdict(label=choice, scores={HUMAN: float(human)}, rationale=_reason(text))

    def _first_index(self, indexes: set[str]) -> int:
        if len(indexes) != 1:
            raise Unparsed(f"'Choice: Yes' with {len(indexes) or 'no'} different 'Index: n'")
        written = _ORDINAL.sub("", indexes.pop())
        if not written.isdecimal():
            raise Unparsed(f"'Index: {written}' is not a single utterance")
        index = int(written)
        if not 1 <= index <= self.utterances:
            raise Unparsed(f"index {index} is out of range 1-{self.utterances}")
        return index


def comparison(text: str) -> Verdict:
    """Which conversation the judge takes for a machine's, as label `first`, `second`, ...

    Raises `Unparsed` without a choice, for choices that differ, and for one conversation with the
    other's number behind it.
    """
    labels = {_label(match) for match in _WHICH.finditer(text)}
    if len(labels) != 1:
        raise Unparsed(f"looked for one 'Choice: ...', found {len(labels)} different ones")
    return Verdict(label=labels.pop(), rationale=_reason(text))


def authors_human(text: str) -> Verdict:
    """Score `human` as in the authors' `parse_output`: `Index: n` is n - 1, anything else 16.

    So "Choice: Yes" without an index counts as a dialogue without AI. Raises `Unparsed` if their
    code stops: for an index that is neither None nor an integer.
    """
    human = AUTHORS_UTTERANCES
    for line in text.splitlines():
        name, colon, value = line.partition("Index:")
        if not colon or name.strip():
            continue
        if value.strip() != "None":
            try:
                human = int(value) - 1
            except ValueError as error:
                raise Unparsed(f"the authors' code stops at 'Index:{value[:40]}'") from error
        break
    return Verdict(scores={HUMAN: float(human)})


def authors_comparison(text: str) -> Verdict:
    """The label as in the authors' `match_answer`; raises `Unparsed` for their "unknown".

    The first line that begins with `Choice:` and names anything decides, and on it the first of
    "Conversation 1", "Conversation 2", "Both", "Neither", in this order, that occurs anywhere.
    """
    for line in text.splitlines():
        if not line.startswith("Choice:"):
            continue
        for words, label in _AUTHORS_WORDS.items():
            if words in line:
                return Verdict(label=label)
    raise Unparsed("the authors' code reads no choice")


_AUTHORS_WORDS = {
    "Conversation 1": FIRST,
    "Conversation 2": SECOND,
    "Both": BOTH,
    "Neither": NEITHER,
}


def _label(match: re.Match[str]) -> str:
    number, word = match.groups()
    if not number:
        return str(word).lower()
    label, other = (FIRST, 2) if int(number) == 1 else (SECOND, 1)
    rest = _REST.match(match.string, match.end())
    if rest is not None and str(other) in re.findall(r"\d+", rest[0]):
        raise Unparsed(f"'Conversation {number}', and behind it {rest[0].strip()[:40]!r}")
    return label


def _reason(text: str) -> str:
    """The text after `Reason:`, or the whole reply without such a mark."""
    match = _REASON.search(text)
    return (text if match is None else text[match.end() :]).strip()
