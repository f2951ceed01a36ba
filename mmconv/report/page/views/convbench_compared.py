"""How compared runs of ConvBench are shown: sentences first, then the tables with proper symbols.

The numbers are those of the comparison's tables; see `mmconv.report.comparison.differences`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mmconv.report.comparison.differences import Comparison
from mmconv.report.page.content import Section, View
from mmconv.report.page.views import convbench, generic
from mmconv.report.page.views.convbench_sentences import COMPARED, comparison_sentences
from mmconv.report.tables.convbench_names import LEGEND, typeset_table
from mmconv.values import Table


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
    sections = generic.sections([typeset_table(table) for table in tables])
    return replace(
        convbench.view(()),
        lead=lead,
        sections=tuple(_explained(section, told, lead) for section in sections),
    )


def _explained(
    section: Section, told: Mapping[str, Sequence[str]], said: Collection[str]
) -> Section:
    """A section of differences with its further sentences, and what its symbols stand for."""
    if section.id not in told:
        return section
    further = tuple(sentence for sentence in told[section.id] if sentence not in said)
    return replace(section, sentences=further, notes=(LEGEND, *section.notes))
