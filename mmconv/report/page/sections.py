"""The sections behind the overview: histograms, heat maps, every table, losses and cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import cycle

from mmconv.benchmarks.shared.options import Display, Ratings
from mmconv.core.types import Cell, Table
from mmconv.report.costs import tell_dollars, tell_unmetered
from mmconv.report.page.content import Content, Section
from mmconv.report.page.grids import Grid, Line, Shown, grid, shown
from mmconv.report.page.losses import Losses
from mmconv.report.page.plots import COLOURS, Plot, Point, Series, bars
from mmconv.report.tables.cells import shared_notes
from mmconv.run_folder.layout import ModelSummary
from mmconv.stats import FEWEST_CLUSTERS, Column, ScoreFrame

COSTS: Mapping[str, Callable[[ModelSummary], float | str]] = {
    "model": lambda role: role.model,
    "requested": lambda role: float(role.requested),
    "from the cache": lambda role: float(role.cached),
    "failed": lambda role: float(role.failed),
    "retries": lambda role: float(role.retried),
    "tokens in": lambda role: float(role.total_input_tokens),
    "tokens out": lambda role: float(role.total_output_tokens),
    "US dollars": lambda role: _dollars(role),
}
"""The columns of the table of costs."""


def detail_sections(content: Content, losses: Losses) -> Iterator[Section]:
    """Everything behind the overview."""
    if len(content.runs) == 1:
        yield from rating_sections(content)
        yield from map_sections(content)
    yield _losses(losses)
    yield from _costs(content)
    yield from _tables(content)


def rating_sections(content: Content) -> Iterator[Section]:
    """How often each rating was given: a judge that always says 8 is seen here and in no mean."""
    scales = content.display.ratings
    if not scales:
        return
    frame = ScoreFrame(content.runs[0].scores())
    plots: list[Plot] = []
    sentences = []
    for scale in scales:
        ratings = _given(frame.select(metric=scale.metric))
        if ratings:
            plots += _histograms(frame, scale, content.display)
            [(most, count)] = Counter(map(math.floor, ratings)).most_common(1)
            of = f"{scale.metric}: " if len(scales) > 1 else ""
            share = f"{100 * count / len(ratings):.0f} % of {len(ratings):,}"
            sentences.append(f"{of}Most frequent rating: {most} ({share}).")
    if plots:
        yield Section(
            id="ratings",
            title="How often each rating was given",
            sentences=(" ".join(sentences),),
            plots=tuple(plots),
        )


def _histograms(frame: ScoreFrame, scale: Ratings, display: Display) -> Iterator[Plot]:
    """A plot for each turn, or one; a series for each condition. Fractions count downwards."""
    steps = range(scale.lowest, scale.highest + 1)
    turns = [*display.turns.items()] if scale.by_turn else [(None, scale.metric)]
    drawn: dict[str, list[Series]] = {}
    for turn, name in turns:
        for condition, colour in zip(frame.distinct("condition"), cycle(COLOURS), strict=False):
            column = frame.select(metric=scale.metric, condition=condition, turn=turn)
            if ratings := _given(column):
                counts = Counter(map(math.floor, ratings))
                points = tuple(Point(value=100 * counts[at] / len(ratings)) for at in steps)
                missing = len(column.values) - len(ratings)
                title = display.labels.get(condition, condition)
                title += f", n = {len(ratings):,}" + f" ({missing:,} missing)" * bool(missing)
                series = Series(name=title, colour=colour, points=points)
                drawn.setdefault(name, []).append(series)
    shares = (p.value for each in drawn.values() for s in each for p in s.points if p)
    highest = max(shares, default=0.0)
    for name, several in drawn.items():
        # a plot of one series has no legend
        title = f"{name}: {several[0].name}" if len(several) == 1 else name
        yield bars(f"Share of each rating (%), {title}", [*map(str, steps)], several, highest)


def _given(column: Column) -> list[float]:
    return [value for value in column.values if value is not None]


def map_sections(content: Content) -> Iterator[Section]:
    """Tables by the values of a tag as heat maps, with links to the samples."""
    tables = {table.name: table for table in content.tables}
    maps = [
        heat_map(tables[name], tag, turn, content.display)
        for name, (tag, turn) in content.display.maps.items()
        if name in tables and tables[name].rows
    ]
    if maps:
        yield Section(
            id="maps",
            title="Scores by group",
            sentences=(
                "Stronger colour: higher score, from the lowest to the highest of the map. The "
                "small number is n (2/3: 1 of 3 is missing). Hatched: fewer than "
                f"{FEWEST_CLUSTERS}. A name leads to its samples.",
            ),
            maps=tuple(maps),
        )


def heat_map(table: Table, tag: str, turn: int, display: Display) -> Grid:
    """A table with its cells shaded; columns `GROUP, CONDITION` stand under their groups."""
    columns = [column.partition(", ")[::2] for column in table.columns]
    spans = Counter(group for group, _ in columns)
    shades = {group: _shades(table, group) for group in spans}
    return Grid(
        id=table.name,
        title=f"Turn {turn}, {display.turns.get(turn, tag)}",
        columns=tuple(display.labels.get(name, name) for _, name in columns),
        groups=(("", 1), *spans.items()),
        lines=tuple(
            Line(
                name=name,
                cells=tuple(
                    _shaded(row.get(column), table, shades[group])
                    for column, (group, _) in zip(table.columns, columns, strict=True)
                ),
                link=f"{tag}={turn}:{name}",
            )
            for name, row in table.rows.items()
        ),
    )


def _shades(table: Table, group: str) -> tuple[float, float]:
    """The lowest and the highest value under the columns of a group."""
    cells = (
        cell
        for row in table.rows.values()
        for column, cell in row.items()
        if column.partition(", ")[0] == group
    )
    values = [cell.value for cell in cells if isinstance(cell.value, float)]
    return min(values, default=0.0), max(values, default=1.0)


def _shaded(cell: Cell | None, table: Table, ends: tuple[float, float]) -> Shown | None:
    text = shown(cell, table)
    if text is None or cell is None:
        return None
    size, missing = cell.n or 0, sum(cell.missing.values())
    counted = f"{size:,}{f'/{size + missing:,}' if missing else ''}" if size or missing else ""
    hint = "; ".join(filter(None, (text.interval, text.counts, text.why)))
    bare = replace(text, interval="", counts="", why=hint, size=counted)
    if not isinstance(cell.value, float):
        return bare
    low, high = ends
    shade = (cell.value - low) / (high - low) if high > low else 0.5
    return replace(bare, shade=shade, few=size < FEWEST_CLUSTERS)


def _tables(content: Content) -> Iterator[Section]:
    """Every table, folded; notes that several of them share stand once, at the end."""
    tables = [table for table in content.tables if table.rows]
    tables.sort(key=lambda table: table.detail)
    shared = {*shared_notes(tables)} | {*content.warnings}
    own = {
        table.name: tuple(note for note in table.notes if note not in shared) for table in tables
    }
    notes = dict.fromkeys(note for note in shared_notes(tables) if note not in content.warnings)
    if tables:
        yield Section(
            id="tables",
            title="All tables",
            folded=tuple(grid(table, notes=own[table.name]) for table in tables),
            notes=tuple(notes),
        )


def _losses(losses: Losses) -> Section:
    counted = tuple(map(grid, losses.tables()))
    return Section(
        id="losses",
        title="What is missing, failed, unread or cut off",
        sentences=(losses.sentence(),),
        grids=counted if losses.any else (),
        folded=() if losses.any else counted,
    )


def _costs(content: Content) -> Iterator[Section]:
    summaries = [(content.prefix(run), run.summary) for run in content.runs if run.summary]
    if summaries:
        yield Section(
            id="cost",
            title="Cost and time",
            sentences=tuple(
                f"{run}Last session: {summary.seconds:.1f} s, "
                f"{summary.plans} conversations finished."
                for run, summary in summaries
            ),
            grids=tuple(grid(cost_table(summary.models, run)) for run, summary in summaries),
        )


def cost_table(roles: Mapping[str, ModelSummary], run: str = "") -> Table:
    """What each model role was asked and what it cost; `run` starts the title."""
    return Table(
        name="cost",
        title=f"{run}calls, tokens and cost" if run else "Calls, tokens and cost",
        columns=(*COSTS,),
        rows={
            name: {title: Cell(value=read(role)) for title, read in COSTS.items()}
            for name, role in roles.items()
        },
        digits=0,
    )


def _dollars(role: ModelSummary) -> str:
    if role.total_cost_usd is not None:
        return tell_dollars(role.total_cost_usd)
    if role.total_unmetered:
        return tell_unmetered(role.total_unmetered, role.requested + role.cached)
    return "price not set"
