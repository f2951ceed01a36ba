"""Tables as Markdown: pipe tables, in which no sign of a name or note has a meaning of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from mmconv.core.types import Table
from mmconv.report.tables.cells import (
    cell_parts,
    check_table,
    is_text,
    notes_below,
    one_line,
    shared_notes,
)

_MARKDOWN = re.compile(r"([\\`*_|<$~]|\](?=\()|&(?=#?\w+;))")


def to_markdown(table: Table, elsewhere: str | None = None) -> str:
    """A pipe table under its title, each cell on one line, with the notes below as a list.

    For `elsewhere` see `mmconv.report.tables.cells.notes_below`.
    """
    check_table(table)

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    rules = ("---" if is_text(table, column) else "---:" for column in table.columns)
    lines = [
        f"**{in_markdown(table.title)}**",
        "",
        line(["", *map(in_markdown, table.columns)]),
        line(["---", *rules]),
    ]
    for name, row in table.rows.items():
        cells = (" ".join(filter(None, cell_parts(row.get(c), table))) for c in table.columns)
        lines.append(line([in_markdown(name), *map(in_markdown, cells)]))
    return "\n".join([*lines, *notes_below(table, _item, elsewhere)]) + "\n"


def in_markdown(text: str) -> str:
    """The text on one line, in which no sign has a meaning of Markdown or of GitHub's formulas."""
    return _MARKDOWN.sub(r"\\\1", one_line(text))


def all_to_markdown(tables: Sequence[Table], folder: str) -> str:
    """Several tables below each other; what more than one of them notes is numbered at the end.

    The files in `folder` have all reasons of what is missing, and the most frequent stand here.
    """
    numbers = {note: number for number, note in enumerate(shared_notes(tables), start=1)}
    texts = []
    for table in tables:
        own = tuple(note for note in table.notes if note not in numbers)
        referred = sorted(numbers[note] for note in table.notes if note in numbers)
        if referred:
            many = "s" if len(referred) > 1 else ""
            own = (*own, f"See note{many} {', '.join(map(str, referred))} at the end.")
        texts.append(to_markdown(replace(table, notes=own), f"{folder}/{table.name}.md"))
    if numbers:
        listed = (f"{number}. {in_markdown(note)}" for note, number in numbers.items())
        texts.append("\n".join(["**Notes**", "", *listed]) + "\n")
    return "\n\n".join(texts)


def _item(note: str) -> str:
    return f"- {in_markdown(note)}"
