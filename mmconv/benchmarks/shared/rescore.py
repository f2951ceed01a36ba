"""What rescoring has in common: how it takes in records, and the tables that it hands back.

Each text benchmark reads its authors' layout by itself, and puts what is in it through the parsers,
scores and tables of a live run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from mmconv.benchmarks.data_files.bad_records import bad_records_note, bad_records_table, refusal
from mmconv.benchmarks.data_files.records import Record, Unreadable
from mmconv.core.errors import DataError
from mmconv.core.types import Cell, Table
from mmconv.stats import note_intervals

_NOISE = 10
"""Decimals beyond which a mean's digits are those of its summation, not of the scores."""


@dataclass(slots=True, kw_only=True)
class Rescoring:
    """The records of all files: how many are `good`, and what is wrong with those left out.

    A bad record refuses its file; with `skip_bad` it is left out, and every table tells.
    """

    skip_bad: bool = False
    good: int = 0
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _taken: set[Path] = field(default_factory=set)

    def take(
        self,
        path: Path,
        records: Iterable[Record | Unreadable],
        read: Callable[[Record], object],
        advice: str,
    ) -> None:
        """Have every record of a file read; `read` raises `DataError` for a bad one.

        Raises `DataError` that tells all bad records of the file, for a file without good ones, and
        for one that was taken in before.
        """
        if (own := path.resolve()) in self._taken:
            raise DataError(str(path), ["the same file is given twice"], "Give each file once.")
        self._taken.add(own)
        bad: dict[str, tuple[str, ...]] = {}
        good = 0
        for record in records:
            if faults := _faults(record, read):
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


def _faults(record: Record | Unreadable, read: Callable[[Record], object]) -> tuple[str, ...]:
    if isinstance(record, Unreadable):
        return (record.fault,)
    try:
        read(record)
    except DataError as error:
        return error.problems
    return ()


def as_published(tables: Iterable[Table]) -> tuple[Table, ...]:
    """The tables with their numbers rounded as the authors' code does: by Python's `round`.

    It differs from rounding half up at exact ties only. CMT-Eval's files show it: a dialogue whose
    turns average 3.125 is stored as 3.12.
    """
    return tuple(map(_rounded, tables))


def _rounded(table: Table) -> Table:
    rows = {
        name: {column: _rounded_cell(cell, table.digits) for column, cell in row.items()}
        for name, row in table.rows.items()
    }
    return replace(table, rows=rows)


def _rounded_cell(cell: Cell, digits: int) -> Cell:
    if not isinstance(cell.value, float):
        return cell
    return replace(cell, value=round(round(cell.value, _NOISE), digits))
