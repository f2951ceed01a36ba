"""How compared runs of ConvBench are shown: sentences first, then the tables with proper symbols.

The numbers are those of the comparison's tables; see `mmconv.report.comparison.differences`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mmconv.benchmarks.convbench.quantities import GRADINGS
from mmconv.core.types import Table
from mmconv.report.comparison.differences import Comparison
from mmconv.report.page.content import Section, View
from mmconv.report.page.grids import grid
from mmconv.report.page.views import convbench, generic
from mmconv.report.page.views.convbench_sentences import COMPARED, comparison_sentences
from mmconv.report.tables.convbench_names import LEGEND, typeset_table

SCORES = "scores"
"""The table of a run's scores, and that of several runs'."""


def view(comparison: Comparison, tables: Sequence[Table]) -> View:
    """The sections of a comparison, whose tables may be titled otherwise here."""
    labels = [run.label for run in comparison.runs]
    told = {
        table.name: comparison_sentences(table, labels, comparison.significant, comparison.equal)
        for table in tables
        if table.name in COMPARED
    }
    if len(labels) > 2:
        # of several runs one sentence each, by what stands first
        lead = next(iter(told.values()), ())
    else:
        lead = tuple(sentence for sentences in told.values() for sentence in sentences)
    typeset = [typeset_table(table) for table in tables]
    sections = [
        _with_plots(section, typeset, comparison)
        if section.id == SCORES
        else _explained(section, told, lead)
        for section in generic.sections(typeset)
    ]
    return replace(convbench.view(()), lead=lead, sections=tuple(sections))


def _with_plots(section: Section, tables: Sequence[Table], comparison: Comparison) -> Section:
    """The scores as the paper has them, a line for each run, and plotted; the long table folded."""
    papers = {f"paper_{grading.name}" for grading in GRADINGS}
    scores = {
        run.label: table for run in comparison.runs for table in run.tables if table.name == SCORES
    }
    return replace(
        section,
        grids=tuple(grid(table) for table in tables if table.name in papers),
        plots=tuple(convbench.run_plots(scores)),
        folded=section.grids,
    )


def _explained(
    section: Section, told: Mapping[str, Sequence[str]], said: Collection[str]
) -> Section:
    """A section of differences with its further sentences, and what its symbols stand for."""
    if section.id not in told:
        return section
    further = tuple(sentence for sentence in told[section.id] if sentence not in said)
    return replace(section, sentences=further, notes=(LEGEND, *section.notes))
