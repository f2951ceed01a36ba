"""MT-Bench-101's dialogues, as the authors publish them: a task, an ID, golden turns.

The file is read twice. `survey` checks every record before anything is paid for, and tells all that
is wrong in one message; `load_dialogues` then streams. Nothing is prompted or scored here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmconv.benchmarks.choosing import EVERYTHING, Choice, all_keys
from mmconv.benchmarks.data_files.intake import Found, Intake, find_samples
from mmconv.benchmarks.data_files.records import Record, scan_records
from mmconv.benchmarks.mtbench101.taxonomy import TASKS, Task
from mmconv.core.types import Cell, Table

_FIELDS = ("task", "id", "history")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenTurn:
    """One turn as published: what the user says, and the golden answer to it."""

    user: str
    bot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """One dialogue; its turns count from 1, and `own_turns` are the candidate's."""

    id: str
    task: Task
    history: tuple[GoldenTurn, ...]

    @property
    def own_turns(self) -> range:
        """The turns that are generated and judged."""
        return range(self.task.first, len(self.history) + 1)


def survey(path: Path, *, skip_bad: bool = False, choice: Choice = EVERYTHING) -> Intake:
    """Check all records of the choice.

    Raises `DataError` with all problems in one message; with `skip_bad` only where the file cannot
    be read or no dialogue is left.
    """
    intake = Intake(choice=choice, skip_bad=skip_bad)
    for _ in intake.take(_find(path, choice)):
        pass
    intake.check(path)
    return intake


def load_dialogues(path: Path, intake: Intake) -> Iterator[Dialogue]:
    """Stream the dialogues that the survey found good, in the file's order.

    Raises `DataError` for a dialogue that has gone bad since.
    """
    return intake.stream(_find(path, intake.choice))


def source_keys(path: Path) -> Iterator[str]:
    """The ids of all dialogues, wanted or not; see `mmconv.benchmarks.choosing.all_keys`."""
    return all_keys(scan_records(path), _key)


def describe_data(dialogues: Iterable[Dialogue]) -> Table:
    """The statistics of the paper's Table 6 by task; golden answers count among the words."""
    of_task: dict[str, list[Dialogue]] = {code: [] for code in TASKS}
    for dialogue in dialogues:
        of_task[dialogue.task.code].append(dialogue)
    every = [dialogue for found in of_task.values() for dialogue in found]
    rows = {code: _statistics(found) for code, found in of_task.items() if found}
    columns = _statistics(every)
    return Table(
        name="data",
        title="The data by task (paper, Table 6)",
        columns=tuple(columns),
        rows={**rows, "all": columns},
    )


def _statistics(dialogues: Sequence[Dialogue]) -> dict[str, Cell]:
    words = [
        [len(turn.user.split()) + len(turn.bot.split()) for turn in dialogue.history]
        for dialogue in dialogues
    ]
    totals = [sum(turns) for turns in words]
    count = sum(map(len, words))
    judged = sum(len(dialogue.own_turns) for dialogue in dialogues)
    return {
        "dialogues": Cell(value=str(len(dialogues))),
        "turns": Cell(value=str(count)),
        "judged turns": Cell(value=str(judged)),
        "turns/dialogue": Cell(value=count / len(dialogues)),
        "words/dialogue": Cell(value=sum(totals) / len(dialogues)),
        "words/turn": Cell(value=sum(totals) / count),
        "max words/dialogue": Cell(value=str(max(totals))),
        "max words/turn": Cell(value=str(max(map(max, words)))),
    }


def _key(record: Record) -> str | None:
    """The id that the record's dialogue has."""
    return str(record.fields["id"]) if "id" in record.fields else None


def _find(path: Path, choice: Choice) -> Iterator[Found[Dialogue]]:
    return find_samples(scan_records(path), choice, _key, _read, key_field="id")


def _read(record: Record) -> Found[Dialogue]:
    if faults := tuple(_field_faults(record.fields)):
        return Found(place=record.where, faults=faults)
    dialogue = Dialogue(
        id=str(record.fields["id"]),
        task=TASKS[record.fields["task"]],
        history=tuple(
            GoldenTurn(user=turn["user"], bot=turn["bot"]) for turn in record.fields["history"]
        ),
    )
    return Found(place=record.where, sample=dialogue)


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
