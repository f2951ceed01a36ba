"""CMT-Eval's parser: a judge's JSON, one entry per turn, read as scores by turn.

An entry may stand for several turns (`"轮次": "5-8"`). What cannot be read is left out or refused,
never filled in; whether a number is on the scale is for the benchmark to say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from mmconv.errors import Unparsed
from mmconv.values import Verdict

MOST_TURNS = 200
"""An entry that claims more turns than this is no entry."""

_TURNS = "轮次"
_REASONS = "评分理由"
_NUMBERS = {"统筹能力": "IS", "适应能力": "Adp"}

_BETWEEN = re.compile(r"[,，、和及]")
# Some judges write all numbers as floats: turn 1.0 is turn 1.
_TURN = r"\s*第?\s*(\d{1,4})(?:\.0+)?\s*轮?\s*"
_SPAN = re.compile(rf"{_TURN}(?:[-–—~～至到]{_TURN})?")
_SCORE = re.compile(r"\s*(-?\d{1,4}(?:\.\d+)?)\s*分?\s*(?:/\s*5\s*分?\s*)?")

_QUOTE = r"[\"“”]"
_ENTRY = re.compile(
    rf"\{{\s*{_QUOTE}{_TURNS}{_QUOTE}\s*[:：]\s*(?:{_QUOTE}([^\"“”]*){_QUOTE}|(\d+))"
)
_FIELD = {
    name: re.compile(rf"{_QUOTE}{name}{_QUOTE}\s*[:：]\s*{_QUOTE}?([^\"“”,，}}\n]*)")
    for name in _NUMBERS
}
_REASON = re.compile(
    rf"{_QUOTE}{_REASONS}{_QUOTE}\s*[:：]\s*{_QUOTE}?(.*?){_QUOTE}?[\s}}\],]*$", re.S
)


def turn_scores(text: str) -> Verdict:
    """Scores `{turn}/IS` and `{turn}/Adp`, and `{turn}/merged`: 1 if its entry has other turns too.

    A number that an entry lacks is not among them. JSON that is broken, by quotation marks in the
    reasons or by the end of the reply, is read entry by entry. Raises `Unparsed` where no entry
    has a number, and where two entries score one turn differently.
    """
    entries = _json_entries(text) or list(_loose_entries(text))
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


def _add(scores: dict[str, float], turn: int, found: Mapping[str, float], *, merged: bool) -> None:
    if f"{turn}/merged" in scores:
        earlier = {name: scores.get(f"{turn}/{name}") for name in _NUMBERS.values()}
        if earlier != {name: found.get(name) for name in _NUMBERS.values()}:
            raise Unparsed(f"turn {turn} is scored twice, and differently")
    scores[f"{turn}/merged"] = float(merged)
    for name, number in found.items():
        scores[f"{turn}/{name}"] = number


def _json_entries(text: str) -> list[Mapping[str, Any]]:
    """The entries of a reply whose JSON is sound, fenced or not; none if it is not."""
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
            found = pattern.findall(chunk)
            if len(found) == 1:
                entry[name] = found[0]
        reason = _REASON.search(chunk)
        if reason is not None:
            entry[_REASONS] = reason[1].strip()
        yield entry


def _scored(entry: Mapping[str, Any]) -> dict[str, float]:
    numbers = {short: _number(entry.get(name)) for name, short in _NUMBERS.items()}
    return {name: number for name, number in numbers.items() if number is not None}


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        match = _SCORE.fullmatch(value)
        return None if match is None else float(match[1])
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def _turns(value: Any) -> tuple[int, ...]:
    """The turns that an entry stands for: 5, 5.0, "5", "5-8", "第5至8轮", "5、6"."""
    spans = [_SPAN.fullmatch(part) for part in _BETWEEN.split(str(value))]
    turns: list[int] = []
    for span in spans:
        if span is None:
            raise Unparsed(f"{_TURNS} is {value!r}, which names no turns")
        first, last = int(span[1]), int(span[2] or span[1])
        if not first <= last < first + MOST_TURNS:
            raise Unparsed(f"{_TURNS} is {value!r}, which is no range of turns")
        turns += range(first, last + 1)
    return tuple(turns)
