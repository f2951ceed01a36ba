"""The tables of several runs as one: a row of each run under each other, numbers as they were.

Nothing is estimated anew. A row that names its run's candidate stays the only one of its kind; any
other row stands once for each run, the run's label behind its name. A candidate may be called like
a word of the benchmark: what the table of another candidate's run has too is no name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mmconv.core.types import Cell, Table
from mmconv.stats import INTERVALS

_ANY = "candidate"
_JUDGED = "judged by "


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A run's tables, by the label that it has among others; in them it is `candidate`.

    `shared` are texts that do not name the candidate, whatever words are in them.
    """

    label: str
    candidate: str
    tables: Sequence[Table]
    shared: frozenset[str] = frozenset()

    def renamed(self, text: str, name: str) -> str:
        """The text with another name where the candidate's stands."""
        return self._pattern.sub(lambda _: name, text) if self.is_named(text) else text

    def row_name(self, row: str) -> str:
        """What a row is called where those of other runs stand beside it."""
        return self.renamed(row, self.label) if self.is_named(row) else f"{row}, {self.label}"

    def is_named(self, text: str) -> bool:
        """Whether the text names the candidate."""
        return text not in self.shared and self._pattern.search(text) is not None

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(rf"(?<![\w.-]){re.escape(self.candidate)}(?![\w.-])")


def merge_tables(runs: Sequence[Named]) -> list[Table]:
    """Every table that any of the runs has, in the order of the first that has it."""
    names = dict.fromkeys(table.name for run in runs for table in run.tables)
    merged = []
    for name in names:
        having = [(run, table) for run in runs for table in run.tables if table.name == name]
        merged.append(_merge(having))
    return merged


def _merge(having: Sequence[tuple[Named, Table]]) -> Table:
    having = [(replace(run, shared=_shared(run, having)), table) for run, table in having]
    _, first = having[0]
    return replace(
        first,
        title=_title(having),
        columns=tuple(
            dict.fromkeys(
                run.renamed(column, _ANY) for run, table in having for column in table.columns
            )
        ),
        rows=_rows(having),
        notes=_notes(having),
        digits=max(table.digits for _, table in having),
    )


def _shared(run: Named, having: Sequence[tuple[Named, Table]]) -> frozenset[str]:
    """What the tables of other candidates have."""
    others = (table for other, table in having if other.candidate != run.candidate)
    return frozenset(
        text
        for table in others
        for text in (table.title.partition(_JUDGED)[0], *table.columns, *table.rows)
    )


def _title(having: Sequence[tuple[Named, Table]]) -> str:
    """The first table's title with all runs in the candidate's place, and whoever judged them.

    A judge may have the candidate's name, and that stays.
    """
    run, first = having[0]
    title, judged, _ = first.title.partition(_JUDGED)
    judges = dict.fromkeys(table.title.partition(_JUDGED)[2] for _, table in having)
    labels = ", ".join(each.label for each, _ in having)
    return run.renamed(title, labels) + judged + " and ".join(filter(None, judges))


def _rows(having: Sequence[tuple[Named, Table]]) -> dict[str, dict[str, Cell]]:
    """Rows of one name together, the runs in their order."""
    kinds: dict[str, list[tuple[str, dict[str, Cell]]]] = {}
    for run, table in having:
        for name, row in table.rows.items():
            cells = {run.renamed(column, _ANY): cell for column, cell in row.items()}
            kinds.setdefault(run.renamed(name, _ANY), []).append((run.row_name(name), cells))
    return dict(row for kind in kinds.values() for row in kind)


def _notes(having: Sequence[tuple[Named, Table]]) -> tuple[str, ...]:
    """What all tables say, and whose it is where they do not; a rule is nobody's."""
    notes = dict.fromkeys(note for _, table in having for note in table.notes)
    told: list[str] = []
    for note in notes:
        whose = [run for run, table in having if note in table.notes]
        known = len(whose) == len(having) or any(run.is_named(note) for run in whose)
        labels = ", ".join(run.label for run in whose)
        told.append(note if known or note == INTERVALS else f"{labels}: {note}")
    return tuple(told)
