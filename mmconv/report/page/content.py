"""The content of a page: findings, charts and sections of tables, for one run or for several.

The template prints these values and decides nothing. A benchmark says how its results are shown in
its `Display`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from mmconv.benchmarks.options import Display, Ratings, display_of
from mmconv.benchmarks.registry import title_of
from mmconv.core.types import Axis, Cell, Table
from mmconv.report.comparison.differences import Comparison
from mmconv.report.costs import format_dollars, unknown_price
from mmconv.report.data_quality import DataQuality, quality_tables, summarise_quality
from mmconv.report.findings import WARNING, comparison_findings, run_findings, run_warnings
from mmconv.report.notes import ALIKE
from mmconv.report.page.charts import Chart, Plot, colours_of, comparison_charts, run_charts
from mmconv.report.page.curves import MOST, Curves, curves_of_runs, run_curves, share_scale
from mmconv.report.page.grids import Grid, grid, heat_map
from mmconv.report.tables.cells import missing_notes, shared_notes
from mmconv.run_folder.layout import ModelSummary
from mmconv.run_folder.saved_run import FinishedRun, read_finished
from mmconv.stats import FEWEST_CLUSTERS, ScoreFrame

About: TypeAlias = Mapping[str, Mapping[str, str]]
"""Sample -> texts of its data that no call shows (a caption, a reference), by name."""

NOTHING: About = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section of the page; `folded` tables are behind their titles."""

    id: str
    title: str
    sentences: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()
    grids: tuple[Grid, ...] = ()
    maps: tuple[Grid, ...] = ()
    folded: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The runs of one page (the first is the baseline) and what is shown of them.

    `cautions` are limits of the comparison; `marks` are what tables say about single samples.
    """

    title: str
    runs: Sequence[FinishedRun]
    display: Display
    tables: Sequence[Table]
    findings: tuple[str, ...]
    charts: Sequence[Chart]
    about: About
    curves: Sequence[Curves] = ()
    cautions: tuple[str, ...] = ()
    marks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The cautions, then the notes of the runs themselves, and the warnings of their tables."""
        notes = (note for run in self.runs for note in run.manifest.notes)
        alike = (
            f"{self.prefix(run)}{ALIKE}"
            for run in self.runs
            if any(ALIKE in table.notes for table in run.tables)
        )
        warned = (
            f"{self.prefix(run)}{note.removeprefix(WARNING)}"
            for run in self.runs
            for note in run_warnings(run.tables)
        )
        return tuple(dict.fromkeys([*self.cautions, *notes, *alike, *warned]))

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of all runs."""
        return tuple(dict.fromkeys(name for run in self.runs for name in run.manifest.conditions))

    @property
    def overview(self) -> Section:
        """The pictures with their compact tables; of several runs, only the first ones are open."""
        charts = [chart for chart in self.charts if chart.cells]
        firsts = {chart.table.name: chart for chart in reversed(charts)}
        is_open = [len(self.runs) == 1 or chart in firsts.values() for chart in charts]
        pairs = [*zip(charts, is_open, strict=True)]
        dots = (chart.dots() for chart in charts if chart.is_drawn)
        return Section(
            id="headline",
            title="Headline numbers",
            plots=(*(each.plot() for each in self._curves(in_overview=True)), *dots),
            grids=tuple(chart.grid() for chart, is_first in pairs if is_first),
            folded=tuple(chart.grid() for chart, is_first in pairs if not is_first),
        )

    @property
    def other_curves(self) -> Section:
        """The curves of tables that have too many for the overview."""
        plots = tuple(each.plot() for each in self._curves(in_overview=False))
        return Section(id="curves", title="Curves", plots=plots)

    def _curves(self, *, in_overview: bool) -> Iterator[Curves]:
        count = Counter(each.table.name for each in self.curves)
        return (each for each in self.curves if (count[each.table.name] <= MOST) == in_overview)

    def prefix(self, run: FinishedRun) -> str:
        """The label before a name that belongs to one of several runs."""
        return f"{run.label}: " if len(self.runs) > 1 else ""


def run_content(folder: Path, about: About) -> Content:
    """The content of a finished run; raises `InputError` if the folder has none."""
    run = read_finished(folder)
    display = display_of(run.spec.benchmark)
    return Content(
        title=f"{run.label} on {title_of(run.spec.benchmark)}",
        runs=(run,),
        display=display,
        tables=run.tables,
        findings=run_findings(run.tables),
        charts=run_charts(run.tables, display, run.candidate),
        about=about,
        curves=run_curves(run.tables, display),
        marks=display.marks(run.tables) if display.marks else {},
    )


def comparison_content(comparison: Comparison, about: About) -> Content:
    """The content of compared runs."""
    benchmark = comparison.runs[0].spec.benchmark
    display = display_of(benchmark)
    return Content(
        title=f"{len(comparison.runs)} runs of {title_of(benchmark)} compared",
        runs=comparison.runs,
        display=display,
        tables=comparison.tables,
        findings=comparison_findings(comparison, display),
        charts=comparison_charts(comparison, display),
        about=about,
        curves=curves_of_runs(comparison.runs, display),
        cautions=comparison.warnings,
    )


def detail_sections(content: Content, quality: Mapping[str, DataQuality]) -> Iterator[Section]:
    """Everything behind the overview; `quality` of each run by its prefix."""
    if content.other_curves.plots:
        yield content.other_curves
    if len(content.runs) == 1:
        yield from rating_sections(content)
        yield from _map_sections(content)
    sentence, is_lossy = summarise_quality(quality)
    counts = tuple(map(grid, quality_tables(quality)))
    yield Section(
        id="losses",
        title="Failed, missing and truncated replies",
        sentences=(sentence,),
        grids=counts if is_lossy else (),
        folded=() if is_lossy else counts,
    )
    yield from _costs(content)
    yield from _all_tables(content)


def rating_sections(content: Content) -> Iterator[Section]:
    """How often each rating was given: no mean shows a judge that always says 8."""
    frame = ScoreFrame(content.runs[0].scores())
    plots: list[Plot] = []
    sentences = []
    for scale in content.display.ratings:
        ratings = [value for value in frame.select(metric=scale.metric).values if value is not None]
        if ratings:
            plots += _distributions(frame, scale, content.display)
            [(most, count)] = Counter(map(math.floor, ratings)).most_common(1)
            metric = f"{scale.metric}: " if len(content.display.ratings) > 1 else ""
            share = f"{100 * count / len(ratings):.0f} % of {len(ratings):,}"
            sentences.append(f"{metric}Most frequent rating: {most} ({share}).")
    if plots:
        yield Section(
            id="ratings",
            title="Distribution of ratings",
            sentences=(" ".join(sentences),),
            plots=tuple(plots),
        )


def _distributions(frame: ScoreFrame, scale: Ratings, display: Display) -> list[Plot]:
    pictures = []
    places = [str(at) for at in range(scale.lowest, scale.highest + 1)]
    table = Table(name="ratings", title="", columns=(*places,), rows={})
    for turn, name in display.turns.items() if scale.by_turn else [(None, scale.metric)]:
        picture = Curves(
            title=f"Share of each rating (%), {name}",
            table=table,
            axis=Axis(title="rating", line=0.0),
            colours={},
        )
        for condition, colour in colours_of(frame.distinct("condition")).items():
            column = frame.select(metric=scale.metric, condition=condition, turn=turn)
            ratings = [value for value in column.values if value is not None]
            if ratings:
                counts = Counter(str(math.floor(rating)) for rating in ratings)
                missing = len(column.values) - len(ratings)
                series = display.labels.get(condition, condition)
                series += f", n = {len(ratings):,}" + f" ({missing:,} missing)" * bool(missing)
                picture.colours[series] = colour
                picture.rows[series] = {
                    place: Cell(value=100 * counts[place] / len(ratings)) for place in places
                }
        if picture.rows:
            pictures.append(picture)
    share_scale(pictures)
    for picture in pictures:
        if len(picture.rows) == 1:  # the legend is left out then
            picture.title += f": {next(iter(picture.rows))}"
    return [picture.plot() for picture in pictures]


def _map_sections(content: Content) -> Iterator[Section]:
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
                f"{FEWEST_CLUSTERS} samples. Names link to their samples.",
            ),
            maps=tuple(maps),
        )


def _all_tables(content: Content) -> Iterator[Section]:
    tables = sorted((table for table in content.tables if table.rows), key=lambda each: each.detail)
    shared = [note for note in shared_notes(tables) if note not in content.warnings]
    known = {*shared, *content.warnings}
    if tables:
        yield Section(
            id="tables",
            title="All tables",
            folded=tuple(
                grid(
                    table,
                    notes=[*(n for n in table.notes if n not in known), *missing_notes(table)],
                )
                for table in tables
            ),
            notes=tuple(shared),
        )


def _costs(content: Content) -> Iterator[Section]:
    summaries = [(content.prefix(run), run.summary) for run in content.runs if run.summary]
    if summaries:
        yield Section(
            id="cost",
            title="Cost and time",
            sentences=tuple(
                f"{prefix}Last session: {summary.seconds:.1f} s, "
                f"{summary.plans} conversations finished."
                for prefix, summary in summaries
            ),
            grids=tuple(grid(cost_table(summary.models, prefix)) for prefix, summary in summaries),
        )


COSTS: Mapping[str, Callable[[ModelSummary], float | str]] = {
    "model": lambda role: role.model,
    "requested": lambda role: float(role.requested),
    "from the cache": lambda role: float(role.cached),
    "failed": lambda role: float(role.failed),
    "retries": lambda role: float(role.retried),
    "tokens in": lambda role: float(role.total_input_tokens),
    "of these cached": lambda role: float(role.total_cached_tokens),
    "tokens out": lambda role: float(role.total_output_tokens),
    "US dollars": lambda role: _dollars(role),
}


def cost_table(roles: Mapping[str, ModelSummary], prefix: str = "") -> Table:
    """Calls, tokens and cost of each model role; `prefix` starts the title."""
    return Table(
        name="cost",
        title=f"{prefix}calls, tokens and cost" if prefix else "Calls, tokens and cost",
        columns=(*COSTS,),
        rows={
            name: {title: Cell(value=read(role)) for title, read in COSTS.items()}
            for name, role in roles.items()
        },
        digits=0,
    )


def _dollars(role: ModelSummary) -> str:
    if role.total_cost_usd is not None:
        return format_dollars(role.total_cost_usd)
    if role.total_unmetered:
        return unknown_price(role.total_unmetered, role.requested + role.cached)
    return "price not set"
