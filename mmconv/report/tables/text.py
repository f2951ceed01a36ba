"""Tables as plain text: aligned columns, folded and split if a terminal is too narrow for them.

Without a width a row is one line, for files and programs. With one, nothing is cut: titles and
texts are folded between words, and columns that still do not fit go into blocks below each other,
each with the names of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len, chop_cells

from mmconv.core.types import Table
from mmconv.report.tables.cells import (
    cell_parts,
    is_text,
    notes_below,
    one_line,
    shared_notes,
    without_notes,
)

_GAP = "  "
_HANGING = "  "

_READABLE = 24
"""The width that a text keeps at least, if it is that long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A title and a cell per row; cells of text may be folded, and are aligned to the left."""

    title: str
    cells: Sequence[str]
    is_text: bool

    @property
    def natural(self) -> int:
        """The width that folds nothing."""
        return max(map(cell_len, (self.title, *self.cells)))

    @property
    def least(self) -> int:
        """The narrowest width that breaks no word or number, and leaves texts readable."""
        words = " ".join(self.cells).split() if self.is_text else self.cells
        least = max(map(cell_len, (*self.title.split(), *words)), default=0)
        widest = max(map(cell_len, self.cells), default=0)
        return max(least, min(widest, _READABLE)) if self.is_text else least

    def pad(self, text: str, width: int) -> str:
        blanks = " " * (width - cell_len(text))
        return text + blanks if self.is_text else blanks + text


def to_text(table: Table, width: float = math.inf) -> str:
    """The table under its title, and its notes."""
    names = _Column(title="", cells=[one_line(name) for name in table.rows], is_text=True)
    # as many columns next to each other as fit when they are folded, always with the names
    blocks = [[names]]
    for title in table.columns:
        column = _column(table, title)
        if len(blocks[-1]) > 1 and _total([part.least for part in (*blocks[-1], column)]) > width:
            blocks.append([names])
        blocks[-1].append(column)
    lines = [*fold(table.title, width)]
    for block in blocks:
        lines += ["", *_block_lines(block, width)]
    for note in notes_below(table):
        lines += fold(note, width, _HANGING)
    return "\n".join(lines) + "\n"


def all_to_text(tables: Sequence[Table], width: float = math.inf) -> str:
    """Several tables as plain text; shared notes once at the end."""
    shared = shared_notes(tables)
    texts = [to_text(without_notes(table, shared), width) for table in tables]
    return "\n".join([*texts, *("\n".join(fold(note, width, _HANGING)) + "\n" for note in shared)])


def fold(text: str, width: float, indent: str = "") -> list[str]:
    """The text in lines of at most `width`, later ones indented; a longer word keeps its length.

    A text that fits is one line, with all its blanks.
    """
    if cell_len(text) <= width:
        return [text]
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}" if line.strip() else line + word
        if line.strip() and cell_len(longer) > width:
            lines.append(line)
            longer = indent + word
        line = longer
    return [*lines, line]


def fold_anywhere(text: str, width: int) -> list[str]:
    """As `fold`, but a word longer than `width` is broken, after a hyphen if it can be."""
    line, *others = fold(text, width)
    if cell_len(line) > width:
        end = len(chop_cells(line, width)[0])
        end = max(line.rfind(sign, end // 2, end) for sign in "-_/.,:") + 1 or end
        others = [line[end:], *others]
        line = line[:end]
    return [line, *(fold_anywhere(" ".join(others), width) if others else [])]


def _column(table: Table, title: str) -> _Column:
    rows = [cell_parts(row.get(title), table) for row in table.rows.values()]
    if is_text(table, title):
        return _Column(title=one_line(title), cells=[value for value, _, _ in rows], is_text=True)
    widths = [max(map(cell_len, parts)) for parts in zip(*rows, strict=True)]
    cells = [
        " ".join(
            " " * (width - cell_len(part)) + part
            for part, width in zip(row, widths, strict=True)
            if width
        )
        for row in rows
    ]
    return _Column(title=one_line(title), cells=cells, is_text=False)


def _block_lines(block: Sequence[_Column], width: float) -> Iterator[str]:
    widths = _widths(block, width)

    def side_by_side(cells: Sequence[Sequence[str]]) -> Iterator[str]:
        for line in zip_longest(*cells, fillvalue=""):
            padded = map(_Column.pad, block, line, widths)
            yield _GAP.join(padded).rstrip()

    titles = [fold(column.title, size) for column, size in zip(block, widths, strict=True)]
    tallest = max(map(len, titles))
    # titles end at the rule, so blank lines go above the short ones
    yield from side_by_side([[""] * (tallest - len(lines)) + lines for lines in titles])
    yield "-" * _total(widths)
    for place in range(len(block[0].cells)):
        yield from side_by_side(
            [
                fold(column.cells[place], size, _HANGING if column is block[0] else "")
                if column.is_text
                else [column.cells[place]]
                for column, size in zip(block, widths, strict=True)
            ]
        )


def _widths(block: Sequence[_Column], width: float) -> list[int]:
    """Natural widths, reduced if they are too much: titles of numbers first, then texts."""
    widths = [column.natural for column in block]
    least = [column.least for column in block]
    for texts in (False, True):
        while _total(widths) > width:
            places = [
                place
                for place, column in enumerate(block)
                if column.is_text == texts and widths[place] > least[place]
            ]
            if not places:
                break
            widths[max(places, key=widths.__getitem__)] -= 1
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)
