"""CMT-Eval's parser: a judge's JSON, one entry per turn, read as scores by turn.

An entry may stand for several turns (`"轮次": "5-8"`). Unreadable parts are left out or refused,
never filled in; a number off the scale is passed on, and counts as missing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from mmconv.core.errors import Unparsed
from mmconv.core.types import Verdict

LOWEST, HIGHEST = 1, 5
DIMENSIONS = ("IS", "Adp")

MOST_TURNS = 200
"""An entry that claims more turns than this is refused."""

_TURNS = "轮次"
_REASONS = "评分理由"
_NUMBERS = dict(zip(("统筹能力", "适应能力"), DIMENSIONS, strict=True))

_BETWEEN = re.compile(r"[,，、和及]")
# Some judges write all numbers as floats: turn 1.0 is turn 1.
_TURN = r"\s*第?\s*(\d{1,4})(?:\.0+)?\s*轮?\s*"
_SPAN = re.compile(rf"{_TURN}(?:[-–—~～至到]{_TURN})?")
_OF_FIVE = r"(?:/\s*5\s*分?\s*|[(（]\s*满分\s*[:：]?\s*5\s*分?\s*[)）]\s*)?"
_SCORE = re.compile(rf"\s*(-?\d{{1,4}}(?:\.\d+)?)\s*分?\s*{_OF_FIVE}")

_ONES = "一二三四五六七八九"
_TENS = ("", "十", *(f"{ten}十" for ten in _ONES[1:]))
_CHINESE = {
    ten + one: str(10 * tens + ones)
    for tens, ten in enumerate(_TENS)
    for ones, one in enumerate(("", *_ONES))
}
_NUMERAL = re.compile(f"[{_ONES}十]+")

_QUOTE = r"[\"“”]"
_ENTRY = re.compile(
    rf"\{{\s*{_QUOTE}{_TURNS}{_QUOTE}\s*[:：]\s*(?:{_QUOTE}([^\"“”]*){_QUOTE}|(\d+))"
)
_REMARK = r"\s*(?:[(（][^()（）\"“”]*[)）])?\s*"
_FIELD = {
    name: re.compile(rf"{_QUOTE}{name}{_REMARK}{_QUOTE}\s*[:：]\s*{_QUOTE}?([^\"“”,，}}\n]*)")
    for name in _NUMBERS
}
_REASON = re.compile(
    rf"{_QUOTE}{_REASONS}{_QUOTE}\s*[:：]\s*{_QUOTE}?(.*?){_QUOTE}?[\s}}\],]*$", re.S
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsParser:
    """Reads the judgement of a dialogue of `turns` turns."""

    turns: int

    def __call__(self, text: str) -> Verdict:
        """The verdict of `turn_scores`; a number that is absent, or off the scale, is missing."""
        verdict = turn_scores(text)
        names = [f"{turn}/{name}" for turn in range(1, self.turns + 1) for name in DIMENSIONS]
        values = [verdict.scores.get(name) for name in names]
        return replace(
            verdict, missing=sum(value is None or not is_on_scale(value) for value in values)
        )


def is_on_scale(value: float) -> bool:
    """Whether it is a whole number from `LOWEST` to `HIGHEST`."""
    return value.is_integer() and LOWEST <= value <= HIGHEST


def turn_scores(text: str) -> Verdict:
    """Scores `{turn}/IS` and `{turn}/Adp`, and `{turn}/merged`: 1 if its entry has other turns too.

    Missing numbers of an entry are left out. JSON that is broken, by quotation marks in the reasons
    or by the end of the reply, is read entry by entry. Entries for no turn, such as one for the
    whole, are left out. Raises `Unparsed` if no entry has a number, if two entries score one turn
    differently, and for a turn 0: counted from there, all scores belong to other turns.
    """
    documents = _json_entries(text) or list(_loose_entries(text))
    entries = [entry for entry in documents if re.search(rf"[\d{_ONES}十]", str(entry[_TURNS]))]
    scores: dict[str, float] = {}
    reasons: dict[int, str] = {}
    for entry in entries:
        turns = _turns(entry[_TURNS])
        for turn in turns:
            _add(scores, turn, _scored(entry), merged=len(turns) > 1)
            reasons[turn] = str(entry.get(_REASONS) or "")
    if all(name.endswith("/merged") for name in scores):
        raise Unparsed(f"looked for JSON entries with {_TURNS}, {' and '.join(_NUMBERS)}")
    lines = [f"{turn}: {reason}" for turn, reason in sorted(reasons.items()) if reason]
    return Verdict(scores=scores, rationale="\n".join(lines))


def _add(scores: dict[str, float], turn: int, new: Mapping[str, float], *, merged: bool) -> None:
    if f"{turn}/merged" in scores:
        earlier = {name: scores.get(f"{turn}/{name}") for name in _NUMBERS.values()}
        if earlier != {name: new.get(name) for name in _NUMBERS.values()}:
            raise Unparsed(f"turn {turn} is scored twice, and differently")
    scores[f"{turn}/merged"] = float(merged)
    for name, number in new.items():
        scores[f"{turn}/{name}"] = number


def _json_entries(text: str) -> list[Mapping[str, Any]]:
    """The entries of a reply with valid JSON, fenced or not; none if it is invalid."""
    body = text[text.find("{") : text.rfind("}") + 1]
    try:
        documents = orjson.loads(f"[{body}]")
    except orjson.JSONDecodeError:
        return []
    return [entry for document in documents for entry in _entries(document)]


def _entries(document: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(document, dict):
        return
    if _TURNS in document:
        yield document
        return
    for value in document.values():
        listed: Iterable[Any] = value if isinstance(value, list) else ()
        yield from (item for item in listed if isinstance(item, dict) and _TURNS in item)


def _loose_entries(text: str) -> Iterator[Mapping[str, Any]]:
    """Entries by their opening `{"轮次":`; a number that its entry names twice is left out."""
    starts = list(_ENTRY.finditer(text))
    ends = [*(match.start() for match in starts), len(text)][1:]
    for match, end in zip(starts, ends, strict=True):
        chunk = text[match.end() : end]
        entry: dict[str, Any] = {_TURNS: match[1] or match[2] or ""}
        for name, pattern in _FIELD.items():
            values = pattern.findall(chunk)
            if len(values) == 1:
                entry[name] = values[0]
        reason = _REASON.search(chunk)
        if reason is not None:
            entry[_REASONS] = reason[1].strip()
        yield entry


def _scored(entry: Mapping[str, Any]) -> dict[str, float]:
    numbers = {}
    for name, short in _NUMBERS.items():
        values = [value for key, value in entry.items() if re.fullmatch(name + _REMARK, key)]
        numbers[short] = _number(values[0]) if len(values) == 1 else None
    return {name: number for name, number in numbers.items() if number is not None}


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        match = _SCORE.fullmatch(value)
        return None if match is None else float(match[1])
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def _turns(value: Any) -> tuple[int, ...]:
    """The turns that an entry stands for: 5, 5.0, "5", "5-8", "第5至8轮", "第五轮", "5、6"."""
    written = _NUMERAL.sub(lambda match: _CHINESE.get(match[0], match[0]), str(value))
    spans = [_SPAN.fullmatch(part) for part in _BETWEEN.split(written)]
    turns: list[int] = []
    for span in spans:
        if span is None:
            raise Unparsed(f"{_TURNS} is {value!r}, which names no turns")
        first, last = int(span[1]), int(span[2] or span[1])
        if not 1 <= first <= last < first + MOST_TURNS:
            raise Unparsed(f"{_TURNS} is {value!r}, which is not a range of turns")
        turns += range(first, last + 1)
    return tuple(turns)
