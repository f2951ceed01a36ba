"""FB-Bench's judgements: a JSON object with an entry per criterion, drawn and read.

Replies for which the authors' code retries are refused. Faults that it ignores are counted:
renamed, missing, added and reweighted criteria. The benchmark computes a sample's score.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import orjson

from judges.template import Data
from mmconv.core.errors import Unparsed
from mmconv.core.types import Verdict

REASON = "评判理由"
RESULT = "评判结果"
WEIGHT = "weight"
MET = "是"
UNMET = "否"

OFFICIAL = "authors"
"""The score in a verdict that is computed as in the authors' code."""

FAULTS = ("renamed", "missing", "added", "reweighted")
"""The scores in a verdict that count how the reply departs from the checklist."""

_FENCED = re.compile(r"```(?:json)?\s*(\{.*\})\s*```", re.DOTALL | re.IGNORECASE)
_BRACED = re.compile(r"\{.*\}", re.DOTALL)
_BACKSLASH = re.compile(r'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\')


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One line of a checklist; `weight` is None in response maintenance, else as written."""

    text: str
    weight: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecklistParser:
    """Reads judgements of one checklist."""

    checklist: tuple[Criterion, ...]

    def __call__(self, text: str) -> Verdict:
        """Read a reply.

        The verdict's scores: `criterion n` (1 or 0, absent where the reply has no entry for it),
        `authors`, and a count for each of `FAULTS`. Raises `Unparsed` where the authors' code
        retries: no JSON object, an entry without a reason, a result other than 是 or 否, a weight
        that is neither null nor in (0, 1].
        """
        entries = [_entry(name, value) for name, value in _document(text).items()]
        if not entries:
            raise Unparsed("the JSON object holds no criterion")
        matched = _match([item.text for item in self.checklist], [entry.name for entry in entries])
        taken = [
            (number, criterion, entries[place])
            for number, (criterion, place) in enumerate(zip(self.checklist, matched, strict=True))
            if place is not None
        ]
        scores = {criterion_score(number): float(entry.met) for number, _, entry in taken}
        counts = {
            "renamed": sum(entry.name != criterion.text for _, criterion, entry in taken),
            "missing": len(self.checklist) - len(taken),
            # a criterion that the checklist names twice has one entry: JSON keys are distinct
            "added": len(entries) - len(set(matched) - {None}),
            "reweighted": sum(entry.weight != criterion.weight for _, criterion, entry in taken),
        }
        return Verdict(
            scores={**scores, OFFICIAL: _official(entries), **counts},
            rationale="\n".join(f"{entry.name}: {entry.reason}" for entry in entries),
            missing=counts["missing"],
        )


def list_criteria(checklist: Sequence[Criterion]) -> Data:
    """The checklist as numbered lines with any weights; the data are the list of its file."""
    lines = (
        f"{number}. {item.text}" + ("" if item.weight is None else f"（权重：{item.weight:g}）")
        for number, item in enumerate(checklist, start=1)
    )
    listed = [item.text if item.weight is None else [item.text, item.weight] for item in checklist]
    return Data(value=listed, text="\n".join(lines))


def draw_form(checklist: Sequence[Criterion]) -> Data:
    """The JSON form that the judge fills in: an entry per criterion with its weight."""
    form = {item.text: {REASON: "", RESULT: "", WEIGHT: item.weight} for item in checklist}
    # replies are cached under this text, in which every weight has been a float: 1.0, not 1
    text = {item.text: {REASON: "", RESULT: "", WEIGHT: _as_float(item)} for item in checklist}
    return Data(value=form, text=orjson.dumps(text, option=orjson.OPT_INDENT_2).decode())


def draw_schema(checklist: Sequence[Criterion]) -> str:
    """The JSON schema of the filled form, in the subset that hosted servers support."""
    entries = {}
    for criterion in checklist:
        weight: dict[str, Any] = {"type": "null"}
        if criterion.weight is not None:
            weight = {"type": "number", "enum": [_as_float(criterion)]}
        result = {"type": "string", "enum": [MET, UNMET]}
        # the reason is first, so that a judge that writes in order thinks before it decides
        properties = {REASON: {"type": "string"}, RESULT: result, WEIGHT: weight}
        entries[criterion.text] = _object_schema(properties)
    return orjson.dumps(_object_schema(entries)).decode()


def _as_float(criterion: Criterion) -> float | None:
    return None if criterion.weight is None else float(criterion.weight)


def _object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def criterion_score(number: int) -> str:
    """The name of a criterion's score in the verdict; `number` counts from 0, the name from 1."""
    return f"criterion {number + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """The judge's result for one criterion, under the name that the judge gave it."""

    name: str
    reason: str
    met: bool
    weight: float | None


def _document(text: str) -> dict[str, Any]:
    start = text.find("{")
    if start < 0:
        raise Unparsed("looked for a JSON object")
    # A reason may quote code in a fence, and a remark behind the object may have braces.
    fenced, braced = _FENCED.search(text), _BRACED.search(text)
    bodies = [text.strip(), fenced[1] if fenced else "", braced[0] if braced else "", text[start:]]
    for body in dict.fromkeys(bodies):
        # Criteria hold LaTeX, and judges forget to escape its backslashes.
        for attempt in (body, _BACKSLASH.sub(lambda match: match[1] or r"\\", body)):
            try:
                document, end = _DECODER.raw_decode(attempt)
            except (ValueError, RecursionError):
                continue
            if isinstance(document, dict):
                if RESULT in attempt[end:]:
                    raise Unparsed("looked for a JSON object, found results behind it, too")
                return document
    raise Unparsed("looked for a JSON object, found none that can be read")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose duplicate criteria have equal results; raises `Unparsed` if they differ.

    Of other differences, such as the reasons, the last one counts, as in the authors' code.
    """
    document: dict[str, Any] = {}
    for name, value in pairs:
        before = document.get(name, value)
        both = isinstance(before, dict) and isinstance(value, dict)
        if both and before.get(RESULT) != value.get(RESULT):
            raise Unparsed(f"{name[:40]!r} occurs twice, with two results")
        document[name] = value
    return document


# Judges break lines inside strings, which only the lax mode reads.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_object)


def _entry(name: str, value: Any) -> _Entry:
    if not isinstance(value, dict):
        raise Unparsed(f"{name[:40]!r} holds no object")
    reason = str(value.get(REASON) or "")
    if not reason:
        raise Unparsed(f"{name[:40]!r} has no {REASON}")
    written = value.get(RESULT)
    result = written.strip().removesuffix("。") if isinstance(written, str) else None
    if result not in (MET, UNMET):
        raise Unparsed(f"{name[:40]!r}: {RESULT} is {written!r}, not {MET} or {UNMET}")
    weight = value.get(WEIGHT)
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if weight is not None and not (is_number and 0 < weight <= 1):
        raise Unparsed(f"{name[:40]!r}: the weight {weight!r} is not in (0, 1]")
    return _Entry(name=name, reason=reason, met=result == MET, weight=weight)


def _match(texts: Sequence[str], names: Sequence[str]) -> list[int | None]:
    """The place of each criterion's entry, by name; a renamed one by its position.

    A position counts only between entries that keep their names, and only if there are as many
    entries as criteria: which one is missing, and which is renamed, is never guessed.
    """
    places = {name: place for place, name in enumerate(names)}
    matched = [places.get(text) for text in texts]
    matcher = SequenceMatcher(a=texts, b=names, autojunk=False)
    for change, start, end, first, last in matcher.get_opcodes():
        if change != "replace" or end - start != last - first:
            continue
        for number, place in zip(range(start, end), range(first, last), strict=True):
            if matched[number] is None and names[place] not in texts:
                matched[number] = place
    return matched


def _official(entries: Sequence[_Entry]) -> float:
    """The authors' `get_score`: weights of the reply, added in order; one without a weight is 1."""
    total = 0.0
    for entry in entries:
        if entry.met:
            if entry.weight is None:
                return 1.0
            total += entry.weight
    return total
