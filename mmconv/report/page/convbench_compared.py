"""How compared runs of ConvBench are shown: sentences first, then the tables with proper symbols.

The numbers are those of the comparison's tables; see `mmconv.report.comparison`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mmconv.report.comparison import Comparison
from mmconv.report.page import convbench, generic
from mmconv.report.page.content import Section, View
from mmconv.report.page.sentences import COMPARED, comparison_sentences
from mmconv.report.page.symbols import LEGEND, typeset_table
from mmconv.values import Table


def view(comparison: Comparison, tables: Sequence[Table]) -> View:
    """The sections of a comparison, whose tables may be titled otherwise here."""
    labels = [run.label for run in comparison.runs]
    told = {
        table.name: comparison_sentences(table, labels, comparison.significant, comparison.equal)
        for table in tables
        if table.name in COMPARED
    }
    sections = generic.sections([typeset_table(table) for table in tables])
    return replace(
        convbench.view(()),
        lead=tuple(sentence for sentences in told.values() for sentence in sentences[:1]),
        sections=tuple(_explained(section, told) for section in sections),
    )


def _explained(section: Section, told: Mapping[str, Sequence[str]]) -> Section:
    """A section of differences with its further sentences, and what its symbols stand for."""
    if section.id not in told:
        return section
    return replace(section, sentences=tuple(told[section.id][1:]), notes=(LEGEND, *section.notes))
