"""Records that a run leaves out (`--skip-bad-records`): the error, note and table about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias

from mmconv.core.errors import DataError
from mmconv.core.types import Cell, Table

ALIKE = 5
"""A problem of more records than this is listed once, with the first of them."""

NAMED = 20
"""How many records such a problem names."""

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
    problems = list(_problems(bad))
    if not problems:
        return DataError(str(where), ["holds no records"], "Is it the right file?")
    hint = "" if advice else "No record can be used: check the file and the options."
    if more:
        hint = "--skip-bad-records takes the next good records in their place."
    elif good:
        hint = f"--skip-bad-records continues with the {good} good records."
    count = sum(map(len, bad.values()))
    return DataError(str(where), problems, "\n".join(filter(None, (advice, hint))), count=count)


def _problems(bad: BadRecords) -> Iterator[str]:
    """A line per record and problem; first one line for each problem of the same many records."""
    whose: dict[str, list[str]] = {}
    for place, faults in bad.items():
        for fault in faults:
            whose.setdefault(fault, []).append(place)
    shared: dict[tuple[str, ...], list[str]] = {}
    for fault, places in whose.items():
        if len(places) > ALIKE:
            shared.setdefault(tuple(places), []).append(fault)
    for many, alike in shared.items():
        yield f"{len(many)} records: {'; '.join(alike)} ({name_few(many)})"
    for place, faults in bad.items():
        yield from (f"{place}: {fault}" for fault in faults if len(whose[fault]) <= ALIKE)


def name_few(places: Sequence[str]) -> str:
    """The first of many places or keys; the words that all begin with are written once."""
    words = [place.split(" ") for place in places[:NAMED]]
    alike = len([*takewhile(lambda each: len({*each}) == 1, zip(*words, strict=False))])
    named = [words[0], *(each[alike:] for each in words[1:])]
    more = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
    return ", ".join(map(" ".join, named)) + more


def bad_records_note(bad: BadRecords, good: int, *, beyond: int = 0) -> Iterator[str]:
    """A line for all tables, if any record is left out; those `beyond` a limit were not checked."""
    if bad:
        are = "is" if len(bad) == 1 else "are"
        looked_at = f"{'the first ' if beyond else ''}{len(bad) + good}"
        yield (
            f"{len(bad)} of {looked_at} records {are} left out as bad (--skip-bad-records): see "
            "the table left_out."
        )


def bad_records_list(bad: BadRecords) -> list[dict[str, Any]]:
    """The entries of the manifest."""
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
            detail=len(bad) > PRINTED,
        )
