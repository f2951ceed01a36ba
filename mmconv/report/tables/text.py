"""Tables as plain text: aligned columns, folded and split where a terminal is too narrow for them.

Without a width a row is one line, however long, as files and other programs want it. With one,
nothing is left out or cut short: titles and texts are folded between words, and columns that still
do not fit stand in blocks below each other, each beginning with the rows' names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from rich.cells import cell_len, chop_cells

from mmconv.core.types import Table
from mmconv.report.tables.cells import (
    cell_parts,
    check_table,
    is_text,
    notes_below,
    one_line,
    shared_notes,
)

_GAP = "  "
_HANGING = "  "

_READABLE = 24
"""How wide a text stays at least, if it is that long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A title and a cell per row; `is_text` says that cells may be folded, and stand on the left.

    `natural` is the width that folds nothing, `least` the narrowest that breaks no word or number.
    """

    title: str
    cells: tuple[str, ...]
    is_text: bool
    natural: int
    least: int

    @classmethod
    def of(cls, title: str, cells: Sequence[str], *, is_text: bool) -> _Column:
        widest = max(map(cell_len, cells), default=0)
        words = [word for cell in cells for word in cell.split()] if is_text else cells
        least = max(map(cell_len, (*title.split(), *words)), default=0)
        return cls(
            title=title,
            cells=tuple(cells),
            is_text=is_text,
            natural=max(cell_len(title), widest),
            least=max(least, min(widest, _READABLE)) if is_text else least,
        )

    def lines(self, place: int, width: int, indent: str) -> list[str]:
        """A cell in lines; a number is one, in which its parts stand where they are aligned."""
        cell = self.cells[place]
        return fold(cell, width, indent) if self.is_text else [cell]


def to_text(table: Table, width: float = math.inf, elsewhere: str | None = None) -> str:
    """The table under its title, a line per row, as far as `width` allows, and the notes below.

    A row shows each value with its interval, n and how many miss; for `elsewhere` see
    `mmconv.report.tables.cells.notes_below`.
    """
    check_table(table)
    names = _Column.of("", [one_line(name) for name in table.rows], is_text=True)
    columns = [_column(table, column) for column in table.columns]
    lines = [*fold(table.title, width)]
    for block in _blocks(names, columns, width):
        lines += ["", *_laid_out(block, width)]
    for note in notes_below(table, elsewhere=elsewhere):
        lines += fold(note, width, _HANGING)
    return "\n".join(lines) + "\n"


def all_to_text(
    tables: Sequence[Table], width: float = math.inf, elsewhere: Callable[[str], str] | None = None
) -> str:
    """Several tables as plain text; notes that more than one of them has stand at the end, once.

    `elsewhere` gives the place, by a table's name, where all reasons of what is missing stand; only
    the most frequent ones are below the tables then.
    """
    shared = shared_notes(tables)
    texts = [
        to_text(
            replace(table, notes=tuple(note for note in table.notes if note not in shared)),
            width,
            elsewhere and elsewhere(table.name),
        )
        for table in tables
    ]
    below = ("\n".join(fold(note, width, _HANGING)) + "\n" for note in shared)
    return "\n".join([*texts, *below])


def fold(text: str, width: float, indent: str = "") -> list[str]:
    """The text in lines of at most `width`, later ones indented; a longer word keeps its length.

    A text that fits is one line, blanks and all.
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
    """The text in lines as `fold` makes them, but ended within a word that is longer than `width`.

    That is behind a hyphen or the like, if one stands in the second half of the line.
    """
    line, *others = fold(text, width)
    if cell_len(line) > width:
        end = len(chop_cells(line, width)[0])
        end = max(line.rfind(sign, end // 2, end) for sign in "-_/.,:") + 1 or end
        others = [line[end:], *others]
        line = line[:end]
    return [line, *(fold_anywhere(" ".join(others), width) if others else [])]


def _column(table: Table, column: str) -> _Column:
    """A column as text, in which the parts of numbers' cells stand under each other."""
    parts = [cell_parts(row.get(column), table) for row in table.rows.values()]
    if is_text(table, column):
        return _Column.of(one_line(column), [value for value, _, _ in parts], is_text=True)
    widths = [max(map(cell_len, each)) for each in zip(*parts, strict=True)]
    cells = [
        " ".join(_right(text, size) for text, size in zip(cell, widths, strict=True) if size)
        for cell in parts
    ]
    return _Column.of(one_line(column), cells, is_text=False)


def _blocks(names: _Column, columns: Sequence[_Column], width: float) -> list[list[_Column]]:
    """As many columns beside each other as fit when they are folded, always with the names."""
    blocks = [[names]]
    for column in columns:
        if len(blocks[-1]) > 1 and _total(_least([*blocks[-1], column])) > width:
            blocks.append([names])
        blocks[-1].append(column)
    return blocks


def _laid_out(block: Sequence[_Column], width: float) -> Iterator[str]:
    """The lines of a block: titles, a rule, rows."""
    widths = _widths(block, width)
    titles = [fold(column.title, size) for column, size in zip(block, widths, strict=True)]
    tallest = max(map(len, titles))
    # titles stand on the rule, so blank lines go above the short ones
    raised = [[""] * (tallest - len(lines)) + lines for lines in titles]
    yield from _side_by_side(block, raised, widths)
    yield "-" * _total(widths)
    indents = [_HANGING, *[""] * (len(block) - 1)]
    for place in range(len(block[0].cells)):
        cells = [
            column.lines(place, size, indent)
            for column, size, indent in zip(block, widths, indents, strict=True)
        ]
        yield from _side_by_side(block, cells, widths)


def _side_by_side(
    block: Sequence[_Column], cells: Sequence[Sequence[str]], widths: Sequence[int]
) -> Iterator[str]:
    align = [_left if column.is_text else _right for column in block]
    for line in zip_longest(*cells, fillvalue=""):
        padded = (put(text, size) for put, text, size in zip(align, line, widths, strict=True))
        yield _GAP.join(padded).rstrip()


def _widths(block: Sequence[_Column], width: float) -> list[int]:
    """Natural widths, reduced where they are too much: titles of numbers first, then texts."""
    widths = [column.natural for column in block]
    for texts in (False, True):
        folding = [place for place, column in enumerate(block) if column.is_text == texts]
        while _total(widths) > width:
            able = [place for place in folding if widths[place] > block[place].least]
            if not able:
                break
            widths[max(able, key=widths.__getitem__)] -= 1
    return widths


def _least(block: Sequence[_Column]) -> list[int]:
    return [column.least for column in block]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _left(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text
