"""MT-Bench-101's dialogues, as the authors publish them: a task, an ID, golden turns.

The file is read twice. `survey` checks every record before anything is paid for, and tells all that
is wrong in one message; `load_dialogues` then streams. Nothing is prompted or scored here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmconv.benchmarks.mtbench101.taxonomy import TASKS, Task
from mmconv.benchmarks.records import Record, read_records
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
class LeftOut:
    """A record that is not used: `where` it stands, its ID if it has one, and why."""

    where: str
    id: str | None
    reasons: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """One line per reason, each with where the record is."""
        known = "" if self.id is None else f" (id {self.id})"
        return tuple(f"{self.where}{known}: {reason}" for reason in self.reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a file holds: how many dialogues will be loaded, and what is left out."""

    dialogues: int
    left_out: tuple[LeftOut, ...]


def survey(path: Path, *, skip_bad: bool = False) -> Survey:
    """Check all records.

    Raises `DataError` with all problems in one message; with `skip_bad` only where the file cannot
    be read or no dialogue is left.
    """
    good = 0
    left_out = []
    for read in _checked(path):
        if isinstance(read, Dialogue):
            good += 1
        else:
            left_out.append(read)
    if not good or (left_out and not skip_bad):
        problems = [line for each in left_out for line in each.lines]
        advice = f"--skip-bad-records goes on with the {good} good records." if good else ""
        raise DataError(str(path), problems or ["holds no records"], advice)
    return Survey(dialogues=good, left_out=tuple(left_out))


def load_dialogues(path: Path, found: Survey) -> Iterator[Dialogue]:
    """Stream the dialogues that the survey found good, in the file's order.

    Raises `DataError` for a dialogue that has gone bad since.
    """
    known = {each.where for each in found.left_out}
    for read in _checked(path):
        if isinstance(read, Dialogue):
            yield read
        elif read.where not in known:
            raise DataError(str(path), read.lines, "The file has changed: start the run again.")


def _checked(path: Path) -> Iterator[Dialogue | LeftOut]:
    seen: set[str] = set()
    for record in read_records(path):
        faults = list(_faults(record))
        key = _id(record)
        if key is not None and key in seen:
            faults.append("id: an earlier dialogue has it")
        if key is None or faults:
            yield LeftOut(where=record.where, id=key, reasons=tuple(faults))
            continue
        seen.add(key)
        yield Dialogue(
            id=key,
            task=TASKS[record.fields["task"]],
            history=tuple(
                Exchange(user=turn["user"], bot=turn["bot"]) for turn in record.fields["history"]
            ),
        )


def _id(record: Record) -> str | None:
    value = record.fields.get("id")
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _faults(record: Record) -> Iterator[str]:
    fields = record.fields
    yield from (f"{name}: missing" for name in _FIELDS if name not in fields)
    if "id" in fields and _id(record) is None:
        yield f"id: {fields['id']!r} is no whole number"
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
