"""Records that a run goes on without (`--skip-bad-records`), and how notes and tables tell of them.

Which records are bad is each benchmark's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias

from mmconv.core.errors import DataError
from mmconv.core.types import Cell, Table

ALIKE = 5
"""A complaint that more records share than this is told once, with the first of them."""

NAMED = 20
"""How many records such a complaint names."""

PRINTED = 40
"""A table of more records than this is written to files, and not printed."""

BadRecords: TypeAlias = Mapping[str, tuple[str, ...]]
"""Where a record stands -> all that is wrong with it."""


def refusal(
    where: str | Path, bad: BadRecords, good: int, advice: str = "", *, more: bool = False
) -> DataError:
    """The error that tells all that is wrong, and how to go on with the `good` records, if any.

    With `more`, others that were not looked at can take the places of the bad ones.
    """
    problems = list(_complaints(bad))
    if not problems:
        return DataError(str(where), ["holds no records"], "Is it the right file?")
    hint = "" if advice else "No record of it can be used: is it the right file?"
    if more:
        hint = "--skip-bad-records takes the next good records in their place."
    elif good:
        hint = f"--skip-bad-records goes on with the {good} good records."
    count = sum(map(len, bad.values()))
    return DataError(str(where), problems, "\n".join(filter(None, (advice, hint))), count=count)


def _complaints(bad: BadRecords) -> Iterator[str]:
    """A line per record and fault; what the same many records share is told once, and first."""
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
    """The first of many places or keys; the words that all begin with are said once."""
    words = [place.split(" ") for place in places[:NAMED]]
    alike = len([*takewhile(lambda each: len({*each}) == 1, zip(*words, strict=False))])
    named = [words[0], *(each[alike:] for each in words[1:])]
    more = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
    return ", ".join(map(" ".join, named)) + more


def bad_records_note(bad: BadRecords, good: int, *, beyond: int = 0) -> Iterator[str]:
    """A line for all tables, if any record is left out and not among the `good` ones.

    The records `beyond` a limit were not looked at.
    """
    if bad:
        are = "is" if len(bad) == 1 else "are"
        looked_at = f"{'the first ' if beyond else ''}{len(bad) + good}"
        yield (
            f"{len(bad)} of {looked_at} records {are} left out as bad (--skip-bad-records): see "
            "the table left_out."
        )


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
            detail=len(bad) > PRINTED,
        )
