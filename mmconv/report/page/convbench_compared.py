"""How compared runs of ConvBench are shown: sentences first, then the tables with proper symbols.

The numbers are those of the comparison's tables; see `mmconv.report.comparison`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mmconv.report.comparison import Comparison
from mmconv.report.page import convbench, generic
from mmconv.report.page.content import Section, View
from mmconv.report.page.sentences import comparison_sentences
from mmconv.report.page.symbols import LEGEND, typeset_table
from mmconv.values import Table

DIFFERENCES = "differences"


def view(comparison: Comparison, tables: Sequence[Table]) -> View:
    """The sections of a comparison, whose tables may be titled otherwise here."""
    labels = [run.label for run in comparison.runs]
    found = next((table for table in tables if table.name == DIFFERENCES), None)
    sure, equal = comparison.significant, comparison.equal
    told = () if found is None else comparison_sentences(found, labels, sure, equal)
    sections = generic.sections([typeset_table(table) for table in tables])
    return replace(
        convbench.view(()),
        lead=told[:1],
        sections=tuple(_explained(section, told[1:]) for section in sections),
    )


def _explained(section: Section, told: Sequence[str]) -> Section:
    """The differences' section with the further sentences, and what its symbols stand for."""
    if section.id != DIFFERENCES:
        return section
    return replace(section, sentences=tuple(told), notes=(LEGEND, *section.notes))
