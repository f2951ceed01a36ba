"""Records that a run goes on without (`--skip-bad-records`), and how notes and tables tell of them.

Which records are bad is each benchmark's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from mmconv.errors import DataError
from mmconv.values import Cell, Table

ALIKE = 5
"""A complaint that more records share than this is told once, with the first of them."""

BadRecords: TypeAlias = Mapping[str, tuple[str, ...]]
"""Where a record stands -> all that is wrong with it."""


def refusal(where: str | Path, bad: BadRecords, good: int, advice: str = "") -> DataError:
    """The error that tells all that is wrong, and how to go on with the `good` records, if any."""
    problems = list(_told(bad))
    if not problems:
        return DataError(str(where), ["holds no records"], "Give the authors' file.")
    skip = "No record of it can be used: is it the right file?"
    if good:
        skip = f"--skip-bad-records goes on with the {good} good records."
    return DataError(str(where), problems, "\n".join(filter(None, (advice, skip))))


def _told(bad: BadRecords) -> Iterator[str]:
    """A line per record and fault; what many records share is told once, and first."""
    whose: dict[str, list[str]] = {}
    for place, faults in bad.items():
        for fault in faults:
            whose.setdefault(fault, []).append(place)
    for fault, places in whose.items():
        if len(places) > ALIKE:
            yield f"{len(places)} records: {fault} ({places[0]}, {places[1]} ...)"
    for place, faults in bad.items():
        yield from (f"{place}: {fault}" for fault in faults if len(whose[fault]) <= ALIKE)


def bad_records_note(bad: BadRecords) -> Iterator[str]:
    """A line for all tables, if any record is left out."""
    if bad:
        plural = "record is" if len(bad) == 1 else "records are"
        yield f"{len(bad)} bad {plural} left out (--skip-bad-records): see the table left_out."


def bad_records_list(bad: BadRecords) -> list[dict[str, Any]]:
    """What the manifest records of them."""
    return [{"where": where, "reasons": list(faults)} for where, faults in bad.items()]


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
        )
