"""Judgements of MT-Bench-101 as files hold them: OpenCompass's results, or one record a turn.

The authors publish no judgements; their code writes OpenCompass's layout: the file
`results/<model>_judged-by--<judge>/mtbench101.json`, or its parts `mtbench101_0.json`, ..., an
object of entries `{"prediction": judgement, "gold": {"task", "multi_id", "turn_id"}}`, in newer
releases under `details` and beside the averages that OpenCompass took. A .jsonl or .json list may
hold the same entries, or flat ones: `{"task", "id", "turn", "judgement"}`. Nothing is scored here.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from mmconv.benchmarks.data_files.records import Record, Unreadable, scan_records
from mmconv.benchmarks.mtbench101.taxonomy import TASKS, Task
from mmconv.benchmarks.shared.rescore import Rescoring
from mmconv.core.errors import DataError

_NAMES = {
    "task": ("task",),
    "id": ("multi_id", "id"),
    "turn": ("turn_id", "turn"),
    "judgement": ("judgement", "judgment", "prediction"),
}
"""What is read of an entry, by the names that it goes by in the layouts; the first counts."""

_TURN = re.compile(r"[1-9][0-9]?")
_JUDGED_BY = "_judged-by--"
_ADVICE = "Give OpenCompass's results, or records of task, id, turn and judgement."


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedJudgement:
    """One judged turn: which one, and what the judge wrote."""

    task: Task
    dialogue: str
    turn: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One model's judgements, in the order of its files.

    `means` are the task means, and `avg`, that a file states itself.
    """

    name: str
    judgements: tuple[PublishedJudgement, ...]
    means: Mapping[str, float] = field(default_factory=dict)


def read_published(files: Sequence[Path], rescoring: Rescoring) -> tuple[Published, ...]:
    """The models that the files hold; the parts of one OpenCompass result are one model.

    A record is bad that is no judgement of a known task.
    """
    groups: dict[Path, list[Path]] = {}
    for file in files:
        groups.setdefault(file.parent if _JUDGED_BY in file.parent.name else file, []).append(file)
    names = [group.name if _JUDGED_BY in group.name else group.stem for group in groups]
    return tuple(
        _published(str(group) if names.count(name) > 1 else name, parts, rescoring)
        for (group, parts), name in zip(groups.items(), names, strict=True)
    )


def _published(name: str, files: Sequence[Path], rescoring: Rescoring) -> Published:
    judgements: list[PublishedJudgement] = []
    means: dict[str, float] = {}
    for file in files:
        records, stated = _open(file)
        means.update(stated)
        rescoring.take(file, records, lambda each: judgements.append(_judgement(each)), _ADVICE)
    return Published(name=name, judgements=tuple(judgements), means=means)


def _open(file: Path) -> tuple[Iterator[Record | Unreadable], dict[str, float]]:
    """A file's entries, and the means that it states."""
    document = _object(file) if file.suffix.lower() == ".json" else None
    if document is None:
        return scan_records(file), {}
    entries = document.get("details", document)
    if not isinstance(entries, dict):
        raise DataError(str(file), ["details: not an object of entries"])
    stated = {
        name: float(document[name])
        for name in ("avg", *TASKS)
        if isinstance(document.get(name), int | float)
    }
    return _entries(file, entries), stated


def _object(file: Path) -> dict[str, Any] | None:
    """The one object that a .json file holds, None for anything else that it may hold."""
    try:
        document = orjson.loads(file.read_bytes().removeprefix(BOM_UTF8))
    except OSError as error:
        raise DataError(str(file), [error.strerror or str(error)], "Check the path.") from error
    except orjson.JSONDecodeError as error:
        raise DataError(str(file), [f"not JSON: {error}"], "Mend it and run again.") from error
    return document if isinstance(document, dict) else None


def _entries(file: Path, entries: Mapping[str, Any]) -> Iterator[Record | Unreadable]:
    for key, entry in entries.items():
        where = f"{file.name} entry {key!r}"
        if isinstance(entry, dict):
            yield Record(where=where, fields=entry)
        else:
            yield Unreadable(where=where, fault=f"holds a {type(entry).__name__}, not an object")


def _judgement(record: Record) -> PublishedJudgement:
    values = _values(record)
    if faults := list(_faults(values)):
        raise DataError(record.where, faults)
    return PublishedJudgement(
        task=TASKS[values["task"]],
        dialogue=str(values["id"]),
        turn=int(values["turn"]),
        # a judge that said nothing is a judge that cannot be read
        text=values["judgement"] or "",
    )


def _values(record: Record) -> dict[str, Any]:
    """What an entry says, by our names; what it does not say is not there."""
    gold = record.fields.get("gold")
    fields = record.fields | (gold if isinstance(gold, dict) else {})
    return {
        ours: fields[name]
        for ours, names in _NAMES.items()
        for name in reversed(names)
        if name in fields
    }


def _faults(values: Mapping[str, Any]) -> Iterator[str]:
    for name, names in _NAMES.items():
        if name not in values:
            yield f"{' or '.join(names)}: missing"
    task, turn = values.get("task"), values.get("turn")
    if "task" in values and not (isinstance(task, str) and task in TASKS):
        yield f"task: {task!r} is none of {', '.join(TASKS)}"
    if "id" in values and not isinstance(values["id"], int | str):
        yield f"id: {values['id']!r} names no dialogue"
    if "turn" in values and not _TURN.fullmatch(str(turn)):
        yield f"turn: {turn!r} is no turn from 1 to 99"
    if "judgement" in values and not isinstance(values["judgement"], str | None):
        yield "judgement: no text"
