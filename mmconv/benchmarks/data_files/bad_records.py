"""Records that a run leaves out (`--skip-bad-records`): the error, note and table about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from mmconv.core.errors import DataError
from mmconv.core.types import Cell, Table

NAMED = 20
"""How many records a message names."""

PRINTED = 40
"""A table of more records than this is written to files, and not printed."""

BadRecords: TypeAlias = Mapping[str, tuple[str, ...]]
"""Where a record is -> all that is wrong with it."""


def refusal(
    where: str | Path, bad: BadRecords, good: int, advice: str = "", *, more: bool = False
) -> DataError:
    """The error with all problems, and how to continue with the `good` records, if any.

    With `more`, records that were not checked can replace the bad ones.
    """
    problems = [f"{place}: {fault}" for place, faults in bad.items() for fault in faults]
    if not problems:
        return DataError(str(where), ["holds no records"], "Is it the right file?")
    hint = "" if advice else "No record can be used: check the file and the options."
    if more:
        hint = "--skip-bad-records takes the next good records in their place."
    elif good:
        hint = f"--skip-bad-records continues with the {good} good records."
    return DataError(str(where), problems, "\n".join(filter(None, (advice, hint))))


def name_few(names: Sequence[str]) -> str:
    """The first of many places or keys."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def bad_records_note(bad: BadRecords, good: int, *, beyond: int = 0) -> Iterator[str]:
    """A line for all tables, if any record is left out; those `beyond` a limit were not checked."""
    if bad:
        are = "is" if len(bad) == 1 else "are"
        looked_at = f"{'the first ' if beyond else ''}{len(bad) + good}"
        yield (
            f"{len(bad)} of {looked_at} records {are} left out as bad (--skip-bad-records): see "
            "the table left_out."
        )


def bad_records_table(bad: BadRecords) -> Iterator[Table]:
    """The records with what is wrong with each, if any is left out."""
    if bad:
        yield Table(
            name="left_out",
            title="Records left out as bad",
            columns=("what is wrong",),
            rows={
                where: {"what is wrong": Cell(value="; ".join(faults))}
                for where, faults in bad.items()
            },
            detail=len(bad) > PRINTED,
        )
