"""Which view the runs of a benchmark have, and the content of a page over one run or several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mmconv.benchmarks.fbbench.benchmark import LABEL_SEPARATOR
from mmconv.benchmarks.registry import TITLES
from mmconv.core.types import Table
from mmconv.report.comparison.differences import Comparison, quantities_by_key
from mmconv.report.page.content import About, Content, View
from mmconv.report.page.views import convbench, convbench_compared, generic
from mmconv.report.page.views.labels import BOTCHAT, CMTEVAL, FBBENCH, MTBENCH101, NO_LABELS
from mmconv.report.page.views.ratings import Scale, rating_sections
from mmconv.report.page.views.significance import mark_significant
from mmconv.run_folder.saved_run import FinishedRun, read_finished
from mmconv.stats import ScoreFrame, measure


class _Views(NamedTuple):
    """How a benchmark is shown: its conversations alone, a finished run, runs that are compared."""

    reading: View
    of_run: Callable[[FinishedRun], View]
    compared: Callable[[Comparison, Sequence[Table]], View]


def _view_of_convbench(run: FinishedRun) -> View:
    """Its scores tell why what has no interval has none, and how often each rating was given."""
    frame = ScoreFrame(run.scores())
    quantities = quantities_by_key(frame, run)
    equal = {key for key, quantity in quantities.items() if measure(quantity).stderr == 0}
    return _with_ratings(convbench.view(run.tables, equal), frame, convbench.RATINGS)


def _with_ratings(view: View, frame: ScoreFrame, *scales: Scale) -> View:
    """The view with how often each rating was given, after what stands first."""
    first, others = view.sections[:1], view.sections[1:]
    return replace(view, sections=(*first, *rating_sections(frame, *scales), *others))


def _generic(
    labels: Mapping[str, str] = NO_LABELS,
    lists: Mapping[str, str] = NO_LABELS,
    ratings: tuple[Scale, ...] = (),
) -> _Views:
    """By its tables, and how often each of the ratings was given; for the others see `View`."""

    def view(tables: Sequence[Table]) -> View:
        return replace(generic.view(tables), labels=labels, lists=lists)

    def of_run(run: FinishedRun) -> View:
        shown = view(run.tables)
        return _with_ratings(shown, ScoreFrame(run.scores()), *ratings) if ratings else shown

    return _Views(view(()), of_run, lambda _, tables: view(tables))


_OWN: Mapping[str, _Views] = {
    "convbench": _Views(convbench.view(()), _view_of_convbench, convbench_compared.view),
    "botchat": _generic(BOTCHAT),
    "cmteval": _generic(
        CMTEVAL,
        ratings=tuple(Scale(metric=name, lowest=1, highest=5) for name in ("IS", "Adp")),
    ),
    "fbbench": _generic(FBBENCH, lists=dict.fromkeys(("deficiency", "feedback"), LABEL_SEPARATOR)),
    "mtbench101": _generic(
        MTBENCH101,
        ratings=(Scale(metric="rating", lowest=1, highest=10, titles=MTBENCH101),),
    ),
}
_GENERIC = _generic()


def view_of(benchmark: str) -> View:
    """How a benchmark's conversations are read; the view of a run has sections besides."""
    return _OWN.get(benchmark, _GENERIC).reading


def run_content(folder: Path, about: About) -> Content:
    """A finished run; raises `InputError` where the folder holds none."""
    run = read_finished(folder)
    title = f"{run.label} on {TITLES.get(run.spec.benchmark, run.spec.benchmark)}"
    view = _OWN.get(run.spec.benchmark, _GENERIC).of_run(run)
    return Content(title=title, runs=(run,), view=view, tables=run.tables, about=about)


def comparison_content(comparison: Comparison, about: About) -> Content:
    """Runs of one benchmark under the tables that compare them.

    The others are held against the baseline. Raises `InputError` as `run_content` does.
    """
    benchmark = comparison.runs[0].spec.benchmark
    own_name = TITLES.get(benchmark, benchmark)
    tables = [
        replace(table, title=table.title.replace(f"Runs of {benchmark},", f"Runs of {own_name},"))
        for table in comparison.tables
    ]
    view = _OWN.get(benchmark, _GENERIC).compared(comparison, tables)
    marked = tuple(mark_significant(section, comparison) for section in view.sections)
    return Content(
        title=f"{len(comparison.runs)} runs of {own_name} compared",
        runs=comparison.runs,
        view=replace(view, sections=marked),
        tables=comparison.tables,
        about=about,
        cautions=comparison.warnings,
    )
