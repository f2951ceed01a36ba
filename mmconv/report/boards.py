"""What a leaderboard shows of each benchmark, and where the tables of its runs have it.

A board is what is ranked by one headline: a grading, a subset, a condition. No number is read or
computed here; `mmconv.report.leaderboard` fills the boards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mmconv.benchmarks.botchat.compared import UNIT
from mmconv.benchmarks.botchat.layout import AUTHORS_COLUMN, named
from mmconv.benchmarks.botchat.options import CONDITIONS
from mmconv.benchmarks.botchat.players import GTEVAL
from mmconv.benchmarks.botchat.quantities import RATES
from mmconv.benchmarks.cmteval.fields import SUBSETS
from mmconv.benchmarks.cmteval.tables import MAIN
from mmconv.benchmarks.convbench.quantities import DELTAS, GRADINGS
from mmconv.benchmarks.convbench.tables import LEVELS
from mmconv.benchmarks.fbbench.tables import QUANTITIES
from mmconv.benchmarks.mtbench101.options import SELF
from mmconv.benchmarks.mtbench101.tables import MEAN_TITLE, MINIMUM_TITLE
from mmconv.benchmarks.mtbench101.taxonomy import AVERAGE, TASKS
from mmconv.values import Cell, Table

Tables: TypeAlias = Mapping[str, Table]
"""A run's tables by name, in their order."""

_ANY = "{candidate}"
"""Stands in a place for the run's candidate, as the run's own tables call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run's tables have a number, and the (name, group) by which runs are compared in it.

    `quantity` is None where runs are not compared in it.
    """

    table: str
    row: str
    column: str
    quantity: tuple[str, str] | None = None

    def find(self, tables: Tables, candidate: str) -> Cell | None:
        """The run's cell; None if its tables have no number there, nor count what is missing."""
        if self.table not in tables:
            return None
        row, column = (each.replace(_ANY, candidate) for each in (self.row, self.column))
        cell = tables[self.table].rows.get(row, {}).get(column)
        return None if cell is None or isinstance(cell.value, str) else cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One table of a board: its title, and a place for each column; the first has no `name`."""

    title: str
    columns: Mapping[str, Place]
    name: str = ""
    signed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Tables whose rows stand in the order of the headline, a column of the first of them.

    Where no run has the headline, it is the first column that any has.
    """

    parts: Sequence[Part]
    headline: str
    name: str = ""


def find_boards(benchmark: str, runs: Sequence[Tables]) -> tuple[Board, ...]:
    """The boards of a benchmark; these runs may lack numbers of some.

    A benchmark of one's own has one: the first table of its first run, a column for each number.
    """
    match benchmark:
        case "convbench":
            return tuple(_convbench())
        case "fbbench":
            return (_fbbench(),)
        case "cmteval":
            return tuple(map(_cmteval, ("overall", *SUBSETS)))
        case "mtbench101":
            return (_mtbench101(runs), _mtbench101(runs, SELF))
        case "botchat":
            return tuple(_botchat(runs, condition) for condition in CONDITIONS)
        case _:
            return tuple(_plain(benchmark, runs[0]))


def _convbench() -> Iterator[Board]:
    for grading in GRADINGS:

        def graded(
            table: str, names: Iterable[str], group: str = grading.title
        ) -> dict[str, Place]:
            return {
                name: Place(table=table, row=name, column=group, quantity=(name, group))
                for name in names
            }

        scores = Part(
            title=f"ConvBench, {grading.title}",
            columns=graded("scores", ("R1", "R2", "S1", "S2", "S3", "S0")),
        )
        deltas = Part(
            name="deltas",
            title=f"What perfect earlier turns change, {grading.title}",
            columns=graded("deltas", DELTAS),
            signed=True,
        )
        attribution = Part(
            name="attribution",
            title=f"Which level failed creations come from, net (%), {grading.name}",
            columns={
                level: Place(
                    table="attribution_net",
                    row=f"creation failed: due to {level}",
                    column=f"{grading.name} failures",
                )
                for level in LEVELS.values()
            },
        )
        yield Board(name=grading.name, headline="R1", parts=(scores, deltas, attribution))


def _fbbench() -> Board:
    columns = {
        name: Place(table="scores", row=_ANY, column=name, quantity=("all tasks", f"{name} (%)"))
        for name in QUANTITIES
    }
    return Board(headline="overall", parts=[Part(title="FB-Bench (%)", columns=columns)])


def _cmteval(subset: str) -> Board:
    columns = {
        title: Place(
            table="scores", row=f"{_ANY}, {subset}", column=title, quantity=(subset, title)
        )
        for title in MAIN
    }
    parts = [Part(title=f"CMT-Eval, {subset}", columns=columns)]
    return Board(name=subset, headline="DLS", parts=parts)


def _mtbench101(runs: Sequence[Tables], history: str = "") -> Board:
    """By the minimum of turns if all runs have it, else by the mean, which every run has."""
    before = f"{_ANY} ({history} history): " if history else ""
    after = f", {history} history" if history else ""
    scores = [tables["scores"] for tables in runs if "scores" in tables]
    minimum = all(any(MINIMUM_TITLE in name for name in table.columns) for table in scores)
    title = MINIMUM_TITLE if minimum else MEAN_TITLE

    def means(names: Iterable[str]) -> dict[str, Place]:
        column, group = before + title, title + after
        return {
            name: Place(table="scores", row=name, column=column, quantity=(name, group))
            for name in dict.fromkeys(names)
        }

    groups = Part(
        title=f"MT-Bench-101 (1-10), {title}{after}",
        columns=means((AVERAGE, *(task.group for task in TASKS.values()))),
    )
    abilities = Part(
        name="abilities",
        title=f"MT-Bench-101 (1-10) by ability, {title}{after}",
        columns=means(task.ability for task in TASKS.values()),
    )
    return Board(name=history, headline=AVERAGE, parts=(groups, abilities))


def _botchat(runs: Sequence[Tables], condition: str) -> Board:
    """By UniEval at the largest length; with GTEval, which the judge decides alone here."""
    row = named(_ANY, condition)

    def place(table: str, column: str, name: str) -> Place:
        return Place(table=table, row=row, column=column, quantity=(name, UNIT))

    found = [name for tables in runs if "unieval" in tables for name in tables["unieval"].columns]
    lengths = [name for name in dict.fromkeys(found) if not name.startswith(AUTHORS_COLUMN)]
    dialogues = {
        name: place("unieval", name, named(f"UniEval, {name}", condition)) for name in lengths
    }
    loops = named("non-loop dialogues", condition)
    dialogues["non-loop (%)"] = place("loops", "non-loop (%)", loops)
    compared = {
        rate: place("gteval", rate, f"{named(GTEVAL, condition)}: {rate}") for rate in RATES
    }
    return Board(
        name=condition,
        headline=max((name for name in lengths if name[2:].isdigit()), key=_length, default=""),
        parts=(
            Part(title=f"BotChat, UniEval (%), {condition}", columns=dialogues),
            Part(name="gteval", title=f"BotChat, GTEval (%), {condition}", columns=compared),
        ),
    )


def _length(name: str) -> int:
    return int(name.removeprefix("N="))


def _plain(benchmark: str, tables: Tables) -> Iterator[Board]:
    for table in tuple(tables.values())[:1]:
        columns = {
            row if len(table.columns) == 1 else f"{row} ({column})": Place(
                table=table.name, row=row, column=column, quantity=(row, column)
            )
            for row in table.rows
            for column in table.columns
        }
        yield Board(headline="", parts=[Part(title=benchmark, columns=columns)])
