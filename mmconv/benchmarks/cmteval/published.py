"""The authors' published judgements (`eval_<subset>_<model>.json`) and what is odd about them.

A published dialogue holds replies and scores by turn, merged judgements already spread over their
turns. Here the judge's reply is put together again, so that the parser of a live run reads it, and
all that the file hides is told. Scores and tables are made in `mmconv.benchmarks.cmteval.rescore`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from mmconv.benchmarks.cmteval.data import Dialogue, foreign_fields, read_dialogue, turn_records
from mmconv.benchmarks.cmteval.fields import (
    ACT,
    ADAPTABILITY,
    DIALOGUE_SCORE,
    DRAFT_REPLY,
    IDS,
    NUMBER,
    PATTERN,
    PERSONA,
    QUERY,
    REASONS,
    REPLY,
    STRATEGY,
    SYNTHESIS,
    TURN_SCORE,
    TURNS,
    Subset,
)
from mmconv.benchmarks.cmteval.subset_files import model_of, subset_of
from mmconv.benchmarks.data_files.records import Record, scan_records
from mmconv.benchmarks.shared.rescore import Rescoring
from mmconv.core.errors import DataError

REPLIES_MISSING = "missing replies"
SCORES_MISSING = "missing scores"
SCORES_OFF = "scores off the scale"
FIELDS_UNKNOWN = "unknown or renamed fields"
AVERAGES_DIFFER = "stored averages that differ"
DIALOGUE_FAULTS = "other faults of dialogues"
KINDS = (
    REPLIES_MISSING,
    SCORES_MISSING,
    SCORES_OFF,
    FIELDS_UNKNOWN,
    AVERAGES_DIFFER,
    DIALOGUE_FAULTS,
)
"""What can be wrong with a published file, by the name of its column."""

_TURN_FIELDS = {
    NUMBER,
    QUERY,
    ACT,
    DRAFT_REPLY,
    STRATEGY,
    REPLY,
    SYNTHESIS,
    ADAPTABILITY,
    REASONS,
    TURN_SCORE,
}
_DIALOGUE_FIELDS = {*IDS, PATTERN, PERSONA, TURNS, DIALOGUE_SCORE}
_SCORES = (SYNTHESIS, ADAPTABILITY)
_JUDGED: tuple[str, ...] = (*_SCORES, REASONS)
_ROUNDING = 0.005 + 1e-9
_ADVICE = "Give the authors' files as they are: eval_<subset>_<model>.json."


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One oddity: its kind, where it is, and what it is."""

    kind: str
    where: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A published dialogue, and the judge's reply that its scores were read from."""

    dialogue: Dialogue
    reply: str


@dataclass(slots=True, kw_only=True)
class Published:
    """One file: whose replies of which subset it holds, its judgements, and its faults."""

    path: Path
    model: str
    subset: Subset
    judged: list[Judged] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    @property
    def turns(self) -> int:
        """How many turns its dialogues have."""
        return sum(len(each.dialogue.turns) for each in self.judged)

    def counts(self) -> Counter[str]:
        """How many faults of each kind it has."""
        return Counter(fault.kind for fault in self.faults)


def read_published(path: Path, rescoring: Rescoring) -> Published:
    """Read one file; raises `DataError` for one without any score.

    A record is bad that is no dialogue at all, stands twice, or is of another subset than the file.
    """
    subset = subset_of(path)
    found = Published(path=path, model=model_of(path), subset=subset)
    seen: dict[str, str] = {}

    def read(record: Record) -> None:
        dialogue, faults = read_dialogue(record, subset)
        if dialogue is None:
            raise DataError(record.where, faults)
        if foreign := foreign_fields(record, subset):
            raise DataError(record.where, foreign)
        if dialogue.id in seen:
            raise DataError(record.where, [f"{seen[dialogue.id]} has the same identifier"])
        seen[dialogue.id] = record.where
        found.judged.append(Judged(dialogue=dialogue, reply=_judge_reply(record)))
        found.faults += [
            Fault(kind=DIALOGUE_FAULTS, where=record.where, what=fault) for fault in faults
        ]
        found.faults += _faults(record)

    rescoring.take(path, scan_records(path), read, _ADVICE)
    if found.counts()[SCORES_MISSING] == found.turns * len(_SCORES):
        raise DataError(str(path), [f"no turn has a score: {' or '.join(_SCORES)}"], _ADVICE)
    return found


def _judge_reply(record: Record) -> str:
    """JSON as the judge was asked for; neighbours with the same scores and reasons are one entry.

    Turns go by their position, as in the authors' scripts.
    """
    numbered = list(enumerate((turn.fields for turn in turn_records(record)), start=1))
    entries: list[dict[str, Any]] = []
    for _, group in groupby(numbered, key=_judgement):
        run = list(group)
        first, last = run[0][0], run[-1][0]
        turn = run[0][1]
        scores = {name: turn[name] for name in _JUDGED if name in turn}
        entries.append({NUMBER: str(first) if first == last else f"{first}-{last}", **scores})
    return orjson.dumps({"评估结果": entries}).decode()


def _judgement(numbered: tuple[int, Mapping[str, Any]]) -> tuple[str, str, str]:
    """What merged turns share; a turn without reasons shares nothing with any other."""
    number, turn = numbered
    reasons = turn.get(REASONS) or f"turn {number}"
    return str(reasons), str(turn.get(SYNTHESIS)), str(turn.get(ADAPTABILITY))


def _faults(record: Record) -> Iterator[Fault]:
    yield from _unknown_fields(record.fields, _DIALOGUE_FIELDS, record.where)
    means = []
    for turn in turn_records(record):
        where = f"{record.where}, {turn.where}"
        yield from _unknown_fields(turn.fields, _TURN_FIELDS, where)
        if not turn.fields.get(REPLY):
            yield Fault(kind=REPLIES_MISSING, where=where, what=f"no {REPLY}")
        yield from _score_faults(turn.fields, where)
        mean = _turn_mean(turn.fields)
        if mean is not None:
            means.append(mean)
            yield from _difference(turn.fields, TURN_SCORE, mean, where)
    if means:
        yield from _difference(record.fields, DIALOGUE_SCORE, sum(means) / len(means), record.where)


def _score_faults(turn: Mapping[str, Any], where: str) -> Iterator[Fault]:
    for name in _SCORES:
        score = _number(turn.get(name))
        if score is None:
            yield Fault(kind=SCORES_MISSING, where=where, what=f"no number in {name}")
        elif score not in (1, 2, 3, 4, 5):
            yield Fault(kind=SCORES_OFF, where=where, what=f"{name} is {score:g}")


def _unknown_fields(fields: Mapping[str, Any], known: set[str], where: str) -> Iterator[Fault]:
    for name in fields:
        if name not in known:
            yield Fault(kind=FIELDS_UNKNOWN, where=where, what=f"unknown field {name!r}")


def _difference(fields: Mapping[str, Any], name: str, mean: float, where: str) -> Iterator[Fault]:
    """A stored average that is not there, or not the mean of the scores to two decimals."""
    stored = _number(fields.get(name))
    if stored is None:
        yield Fault(kind=AVERAGES_DIFFER, where=where, what=f"no number in {name}")
    elif abs(stored - mean) > _ROUNDING:
        what = f"{name} is {stored:g}, but the scores give {mean:.4g}"
        yield Fault(kind=AVERAGES_DIFFER, where=where, what=what)


def _turn_mean(turn: Mapping[str, Any]) -> float | None:
    scores = [_number(turn.get(name)) for name in _SCORES]
    numbers = [score for score in scores if score is not None]
    return sum(numbers) / 2 if len(numbers) == 2 else None


def _number(value: Any) -> float | None:
    """A score as the authors' files write one: a number, or its digits."""
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
