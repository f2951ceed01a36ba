"""MT-Bench-101's dialogues, as the authors publish them: a task, an ID, golden turns.

The file is read twice. `survey` checks every record before anything is paid for, and tells all that
is wrong in one message; `load_dialogues` then streams. Nothing is prompted or scored here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmconv.benchmarks.bad_records import BadRecords, refusal
from mmconv.benchmarks.choosing import EVERYTHING, Choice
from mmconv.benchmarks.mtbench101.taxonomy import TASKS, Task
from mmconv.benchmarks.records import Record, Unreadable, readable, scan_records
from mmconv.errors import DataError

_FIELDS = ("task", "id", "history")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One turn as published: what the user says, and the golden answer to it."""

    user: str
    bot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """One dialogue; its turns count from 1, and `own_turns` are the candidate's."""

    id: str
    task: Task
    history: tuple[Exchange, ...]

    @property
    def own_turns(self) -> range:
        """The turns that are generated and judged."""
        return range(self.task.first, len(self.history) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a file holds: how many dialogues are loaded, by which choice, what is left out."""

    dialogues: int
    left_out: BadRecords
    choice: Choice = EVERYTHING


def survey(path: Path, *, skip_bad: bool = False, choice: Choice = EVERYTHING) -> Survey:
    """Check all records of the choice.

    Raises `DataError` with all problems in one message; with `skip_bad` only where the file cannot
    be read or no dialogue is left.
    """
    good = 0
    left_out: dict[str, tuple[str, ...]] = {}
    seen: dict[str, str] = {}
    for record in choice.among(scan_records(path), dialogue_id):
        faults = _faults(record, seen)
        if faults:
            left_out[record.where] = faults
        else:
            good += 1
    if not good or (left_out and not skip_bad):
        raise refusal(path, left_out, good)
    return Survey(dialogues=good, left_out=left_out, choice=choice)


def load_dialogues(path: Path, found: Survey) -> Iterator[Dialogue]:
    """Stream the dialogues that the survey found good, in the file's order.

    Raises `DataError` for a dialogue that has gone bad since.
    """
    seen: dict[str, str] = {}
    wanted = found.choice.among(scan_records(path), dialogue_id)
    for record in readable(wanted, found.left_out):
        if faults := _faults(record, seen):
            raise DataError(record.where, faults, "The file has changed: start the run again.")
        yield Dialogue(
            id=str(record.fields["id"]),
            task=TASKS[record.fields["task"]],
            history=tuple(
                Exchange(user=turn["user"], bot=turn["bot"]) for turn in record.fields["history"]
            ),
        )


def dialogue_id(record: Record) -> str | None:
    """The id that the record's dialogue has."""
    return str(record.fields["id"]) if "id" in record.fields else None


def _faults(record: Record | Unreadable, seen: dict[str, str]) -> tuple[str, ...]:
    """All that is wrong with a record; `seen` has the places of good ones so far by ID."""
    if isinstance(record, Unreadable):
        return (record.fault,)
    faults = list(_field_faults(record.fields))
    key = str(record.fields.get("id"))
    if key in seen:
        faults.append(f"id: {seen[key]} has the same, {key}")
    if not faults:
        seen[key] = record.where
    return tuple(faults)


def _field_faults(fields: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{name}: missing" for name in _FIELDS if name not in fields)
    number = fields.get("id")
    if "id" in fields and (isinstance(number, bool) or not isinstance(number, int)):
        yield f"id: {number!r} is no whole number"
    task = fields.get("task")
    known = TASKS.get(task) if isinstance(task, str) else None
    if "task" in fields and known is None:
        yield f"task: {task!r} is none of {', '.join(TASKS)}"
    if "history" in fields:
        yield from _history_faults(fields["history"], 1 if known is None else known.first)


def _history_faults(history: Any, first: int) -> Iterator[str]:
    if not isinstance(history, list):
        yield "history: not a list of turns"
        return
    if len(history) < first:
        yield f"history: {len(history)} turn(s), but the task is judged from turn {first} on"
    for number, turn in enumerate(history, start=1):
        for side in ("user", "bot"):
            text = turn.get(side) if isinstance(turn, dict) else None
            if not isinstance(text, str) or not text.strip():
                yield f"history, turn {number}, {side}: no text"
