"""What every page ends with, whatever its benchmark: losses, cost, and the tables that are left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mmconv.report.page.content import Content, Section
from mmconv.report.page.display import Grid, grid
from mmconv.report.page.losses import Losses, cost_table


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


def _grids(section: Section) -> tuple[Grid, ...]:
    return (*section.grids, *section.maps, *section.folded)


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


def _times(content: Content) -> tuple[str, ...]:
    return tuple(
        f"{content.prefix(run)}Last session: {run.summary.seconds:.1f} s, "
        f"{run.summary.plans} conversations finished."
        for run in content.runs
        if run.summary
    )
