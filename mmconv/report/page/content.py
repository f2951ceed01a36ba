"""What a page is made of: findings, charts, and sections of tables, for one run or for several.

The template prints these values and decides nothing. A benchmark says how its results are shown in
its `Display`; no benchmark has a view of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from mmconv.benchmarks.registry import TITLES
from mmconv.benchmarks.shared.options import Display, display_of
from mmconv.core.types import Table
from mmconv.report.comparison.differences import Comparison
from mmconv.report.findings import comparison_findings, run_findings
from mmconv.report.notes import ALIKE
from mmconv.report.page.charts import Chart, comparison_charts, run_charts
from mmconv.report.page.grids import Grid
from mmconv.report.page.plots import Plot
from mmconv.run_folder.saved_run import FinishedRun, read_finished

About: TypeAlias = Mapping[str, Mapping[str, str]]
"""Sample -> what its data say of it that no call shows (a caption, a reference), by name."""

NOTHING: About = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section of the page; `folded` tables are shown when they are opened."""

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
    """What goes into one page: the runs (the first is the baseline) and what is shown of them.

    `cautions` are what limits the comparison of the runs, `marks` what tables say about samples.
    """

    title: str
    runs: Sequence[FinishedRun]
    display: Display
    tables: Sequence[Table]
    findings: tuple[str, ...]
    charts: Sequence[Chart]
    about: About
    cautions: tuple[str, ...] = ()
    marks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What every reader must know: the cautions, then the notes of the runs themselves."""
        notes = (note for run in self.runs for note in run.manifest.notes)
        alike = (
            f"{self.prefix(run)}{ALIKE}"
            for run in self.runs
            if any(ALIKE in table.notes for table in run.tables)
        )
        return tuple(dict.fromkeys([*self.cautions, *notes, *alike]))

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of all runs."""
        return tuple(dict.fromkeys(name for run in self.runs for name in run.manifest.conditions))

    @property
    def overview(self) -> Section:
        """The pictures, and the compact tables of those that are shown first.

        Of several runs only the first table of scores and the first of differences are open.
        """
        charts = [chart for chart in self.charts if chart.cells]
        open_charts = charts
        if len(self.runs) > 1:
            firsts = {chart.table.name: chart for chart in reversed(charts)}
            open_charts = [chart for chart in charts if chart in firsts.values()]
        return Section(
            id="headline",
            title="Headline numbers",
            plots=tuple(chart.plot() for chart in charts if chart.is_drawn),
            grids=tuple(chart.grid() for chart in open_charts),
            folded=tuple(chart.grid() for chart in charts if chart not in open_charts),
        )

    def prefix(self, run: FinishedRun) -> str:
        """What goes before a name that belongs to one of several runs."""
        return f"{run.label}: " if len(self.runs) > 1 else ""


def run_content(folder: Path, about: About) -> Content:
    """A finished run; raises `InputError` if the folder holds none."""
    run = read_finished(folder)
    display = display_of(run.spec.benchmark)
    return Content(
        title=f"{run.label} on {TITLES.get(run.spec.benchmark, run.spec.benchmark)}",
        runs=(run,),
        display=display,
        tables=run.tables,
        findings=run_findings(run.tables),
        charts=run_charts(run.tables, display, run.candidate),
        about=about,
        marks=display.marks(run.tables) if display.marks else {},
    )


def comparison_content(comparison: Comparison, about: About) -> Content:
    """Runs of one benchmark; raises `InputError` as `run_content` does."""
    benchmark = comparison.runs[0].spec.benchmark
    display = display_of(benchmark)
    return Content(
        title=f"{len(comparison.runs)} runs of {TITLES.get(benchmark, benchmark)} compared",
        runs=comparison.runs,
        display=display,
        tables=comparison.tables,
        findings=comparison_findings(comparison, display),
        charts=comparison_charts(comparison, display),
        about=about,
        cautions=comparison.warnings,
    )
