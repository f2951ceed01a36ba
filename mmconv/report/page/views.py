"""Which view the runs of a benchmark have, and the content of a page over one run or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mmconv.benchmarks.registry import TITLES
from mmconv.report.comparison import Comparison, quantities_by_key
from mmconv.report.page import convbench, convbench_compared, generic
from mmconv.report.page.content import NOTHING, About, Content, View
from mmconv.run_folder.saved_run import FinishedRun, read_finished
from mmconv.stats import ScoreFrame, measure
from mmconv.values import Table


def view_of(benchmark: str, tables: Sequence[Table] = ()) -> View:
    """How a benchmark's run is shown; without tables, how its conversations are read."""
    return convbench.view(tables) if benchmark == "convbench" else generic.view(tables)


def _view_of_run(run: FinishedRun) -> View:
    """The same of a run, whose scores tell why what has no interval has none."""
    if run.spec.benchmark != "convbench":
        return view_of(run.spec.benchmark, run.tables)
    quantities = quantities_by_key(ScoreFrame(run.scores()), run.spec)
    equal = {key for key, quantity in quantities.items() if measure(quantity).stderr == 0}
    return convbench.view(run.tables, equal)


def run_content(folder: Path, about: About = NOTHING) -> Content:
    """A finished run; raises `InputError` where the folder holds none."""
    run = read_finished(folder)
    title = f"{run.label} on {TITLES.get(run.spec.benchmark, run.spec.benchmark)}"
    view = _view_of_run(run)
    return Content(title=title, runs=(run,), view=view, tables=run.tables, about=about)


def comparison_content(comparison: Comparison, about: About = NOTHING) -> Content:
    """Runs of one benchmark under the tables that compare them.

    The others are held against the baseline. Raises `InputError` as `run_content` does.
    """
    benchmark = comparison.runs[0].spec.benchmark
    own_name = TITLES.get(benchmark, benchmark)
    tables = [
        replace(table, title=table.title.replace(f"Runs of {benchmark},", f"Runs of {own_name},"))
        for table in comparison.tables
    ]
    if benchmark == "convbench":
        view = convbench_compared.view(comparison, tables)
    else:
        view = replace(view_of(benchmark), lead=(), sections=tuple(generic.sections(tables)))
    return Content(
        title=f"{len(comparison.runs)} runs of {own_name} compared",
        runs=comparison.runs,
        view=view,
        tables=comparison.tables,
        about=about,
        cautions=comparison.warnings,
    )
