"""What every page ends with, whatever its benchmark: losses, cost, and the tables that are left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mmconv.core.types import Cell, Table
from mmconv.report.costs import tell_dollars, tell_unmetered
from mmconv.report.page.content import Content, Section
from mmconv.report.page.grids import Grid, grid
from mmconv.report.page.losses import Losses
from mmconv.run_folder.layout import SeatSummary

COSTS: Mapping[str, Callable[[SeatSummary], float | str]] = {
    "model": lambda seat: seat.model,
    "asked": lambda seat: float(seat.asked),
    "replies reused": lambda seat: float(seat.stored),
    "failed": lambda seat: float(seat.failed),
    "tries again": lambda seat: float(seat.retried),
    "tokens in": lambda seat: float(seat.total_input_tokens),
    "tokens out": lambda seat: float(seat.total_output_tokens),
    "US dollars": lambda seat: _dollars(seat),
}
"""The columns of the table of costs."""


def closing_sections(content: Content, losses: Losses) -> list[Section]:
    """What every benchmark's page ends with: losses, cost, and tables that no section shows."""
    shown = {grid_.id for each in content.view.sections for grid_ in _grids(each)}
    shown |= content.view.used
    rest = [table for table in content.tables if table.name not in shown and table.rows]
    counted = tuple(map(grid, losses.tables()))
    sections = [
        Section(
            id="losses",
            title="What is missing, failed, unread or cut off",
            short="Losses",
            sentences=(losses.sentence(),),
            grids=counted if losses.any else (),
            folded=() if losses.any else counted,
        )
    ]
    costs = [
        grid(cost_table(run.summary.seats, content.prefix(run)))
        for run in content.runs
        if run.summary
    ]
    if costs:
        sections.append(
            Section(
                id="cost",
                title="Cost and time",
                short="Cost",
                sentences=_times(content),
                grids=tuple(costs),
            )
        )
    if rest:
        folded = tuple(grid(table) for table in rest)
        sections.append(Section(id="tables", title="More tables", folded=folded))
    return sections


def say_once(sections: Sequence[Section], said: Sequence[str]) -> list[Section]:
    """The sections with every note printed once: where it comes first, or above all of them."""
    seen = set(said)

    def fresh(notes: Sequence[str]) -> tuple[str, ...]:
        kept = tuple(note for note in notes if note not in seen)
        seen.update(note for note in kept if not note.startswith("n = "))
        return kept

    def bare(grids: Sequence[Grid]) -> tuple[Grid, ...]:
        return tuple(replace(each, notes=fresh(each.notes)) for each in grids)

    return [
        replace(
            each,
            notes=fresh(each.notes),
            grids=bare(each.grids),
            maps=bare(each.maps),
            folded=bare(each.folded),
        )
        for each in sections
    ]


def cost_table(seats: Mapping[str, SeatSummary], run: str = "") -> Table:
    """What each seat was asked and what it cost; `run` starts the title."""
    return Table(
        name="cost",
        title=f"{run}calls, tokens and cost by seat" if run else "Calls, tokens and cost by seat",
        columns=(*COSTS,),
        rows={
            name: {title: Cell(value=told(seat)) for title, told in COSTS.items()}
            for name, seat in seats.items()
        },
        digits=0,
    )


def _grids(section: Section) -> tuple[Grid, ...]:
    return (*section.grids, *section.maps, *section.folded)


def _times(content: Content) -> tuple[str, ...]:
    return tuple(
        f"{content.prefix(run)}Last session: {run.summary.seconds:.1f} s, "
        f"{run.summary.plans} conversations finished."
        for run in content.runs
        if run.summary
    )


def _dollars(seat: SeatSummary) -> str:
    if seat.total_cost_usd is not None:
        return tell_dollars(seat.total_cost_usd)
    if seat.total_unmetered:
        return tell_unmetered(seat.total_unmetered, seat.asked + seat.stored)
    return "no price given"
