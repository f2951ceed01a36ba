"""Replay: a plan whose replies exist already, in a file, in another run or in a request.

Parsing, scoring and tables are those of an ordinary run. `mmconv.benchmarks.readers` has a reader
of each published format: from files to replies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mmconv.benchmarks.base.benchmark import Benchmark
from mmconv.benchmarks.base.dataset import read_record
from mmconv.benchmarks.base.layouts import Context, make_tables
from mmconv.benchmarks.base.sample import Sample
from mmconv.benchmarks.data_files.records import (
    Record,
    bad_records_note,
    bad_records_table,
    refusal,
)
from mmconv.core.types import Cell, Outcome, Reply, Score, Skipped, Table
from mmconv.stats import ScoreFrame, note_intervals

_NOISE = 10
"""Decimals beyond which a mean's digits are those of its summation, not of the scores."""

UNNAMED_JUDGE = "the judge of the files"

NOT_IN_FILE = "not in the file"
"""Why a call has no score: the file has no reply to it."""


def replay(
    benchmark: Benchmark[Any, Any],
    sample: Sample,
    condition: str,
    replies: Mapping[str, str | Outcome],
) -> list[Score]:
    """The scores of a sample whose calls have these replies or failures, by call id."""
    calls = {call.id: call for call in benchmark.plan(sample, condition)}
    absent = Skipped(because=NOT_IN_FILE, reason="absent")
    outcomes: dict[str, Outcome] = dict.fromkeys(calls, absent)
    for name in calls.keys() & replies.keys():
        reply = replies[name]
        outcomes[name] = Reply(text=reply) if isinstance(reply, str) else reply
    return [*benchmark.score(sample, benchmark.results(sample, condition, calls, outcomes))]


def published_tables(
    benchmark: Benchmark[Any, Any],
    frames: Mapping[str, ScoreFrame],
    *,
    judge: str = UNNAMED_JUDGE,
    notes: Sequence[str] = (),
) -> list[Table]:
    """The tables of several models' scores that were read from files."""
    names = [*frames]
    candidate = names[0] if len(names) == 1 else f"{len(names)} models"
    context = Context(candidate=candidate, judge=judge, notes=notes)
    return make_tables([*benchmark.layouts()], [*benchmark.metrics()], frames, context)


@dataclass(slots=True, kw_only=True)
class Rescoring:
    """The records of all files: how many are `good`, and what is wrong with those left out.

    A bad record refuses its file; with `skip_bad` it is left out, and every table says so.
    """

    skip_bad: bool = False
    good: int = 0
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def take(
        self,
        path: Path,
        records: Iterable[Record],
        read: Callable[[Record], object],
        advice: str,
    ) -> None:
        """Read every record of a file; `read` raises for a bad one.

        Raises `DataError` with all bad records of the file, and for a file without good ones.
        """
        bad: dict[str, tuple[str, ...]] = {}
        good = 0
        for record in records:
            if faults := read_record(record, read)[2]:
                bad[record.where] = faults
            else:
                good += 1
        if not good or (bad and not self.skip_bad):
            raise refusal(path, bad, good, advice)
        self.good += good
        for where, faults in bad.items():
            # places begin with a file's name, and files of two folders can have the same
            self.left_out[f"{path.parent}: {where}" if where in self.left_out else where] = faults

    def rescored(self, tables: Iterable[Table]) -> tuple[Table, ...]:
        """The tables, each with what its brackets are and what was left out, and the list of it."""
        left_out = tuple(bad_records_note(self.left_out, self.good))
        noted = (
            replace(table, notes=(*table.notes, *left_out)) for table in note_intervals(tables)
        )
        return (*noted, *bad_records_table(self.left_out))


def as_published(tables: Iterable[Table]) -> tuple[Table, ...]:
    """The tables with their numbers rounded as the authors' code does: by Python's `round`.

    It differs from rounding half up at exact ties only. CMT-Eval's files show it: a dialogue whose
    turns average 3.125 is stored as 3.12.
    """

    def rounded(cell: Cell, digits: int) -> Cell:
        if not isinstance(cell.value, float):
            return cell
        return replace(cell, value=round(round(cell.value, _NOISE), digits))

    return tuple(
        replace(
            table,
            rows={
                name: {column: rounded(cell, table.digits) for column, cell in row.items()}
                for name, row in table.rows.items()
            },
        )
        for table in tables
    )
