r"""Tables in LaTeX, in the manner of the package booktabs, for pdfLaTeX and its successors.

ConvBench's quantities are set as mathematics (`S2_hat` becomes `$\hat{S}_2$`), signs of numbers as
minus and plus. A table that is too wide is shrunk to the line; one that is too long for a page goes
on to the next; LaTeX aligns it closely in its first run and exactly in its second. The first lines
of each file say which packages all of them need.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TypeAlias

from mmconv.core.types import Cell, Table
from mmconv.report.tables.cells import (
    NONE,
    check_table,
    is_text,
    notes_below,
    one_line,
    stack_parts,
    tell_counts_once,
)

_Lines: TypeAlias = list[list[str]]
"""A row of a table: its lines, and their cells."""

PAGE_LINES = 40
"""The most lines of a table on one page: values, intervals and counts have their own; and notes."""

PACKAGES = r"% \usepackage{booktabs, graphicx, longtable}"
"""The first line of each file: what the tables of a run need between them."""

_NOTE_WIDTH = 100

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # after a line's end these would be read as that command's arguments
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    NONE: "--",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}
_SIGN = re.compile(r"(?<![\w.+-])[+-](?=\d)")
_SYMBOL = re.compile(r"(?<![\w-])([RS])([0-3])(?:_(hat|tilde))?(?![\w-])")
_EXPRESSION = re.compile(rf"{_SYMBOL.pattern}(?: - {_SYMBOL.pattern})?")
# R1 may also be the end of a model's name: it is a quantity at the start, or where an S is near
_LEADING = re.compile(rf"{_EXPRESSION.pattern}(?=,|$)")
_S = re.compile(r"(?<![\w-])S[0-3](?:_hat|_tilde)?(?![\w-])")
_UNPRINTED = re.compile(r"\\[a-z]+|[\\{}$]")
# Latin letters and what the encoding of pdfLaTeX knows besides
_BEYOND = re.compile("[^\u0000-\u024f\u2010-\u2026\u20ac]")


def to_latex(table: Table) -> str:
    """A `table` environment, a `longtable` if there are many rows; parts stacked in a cell."""
    check_table(table)
    table = tell_counts_once(table)
    rows = [_cells(table, name, row) for name, row in table.rows.items()]
    body = [line for lines in rows for line in _row(lines)]
    notes = sum(1 + len(note) // _NOTE_WIDTH for note in notes_below(table))
    if len(body) + notes > PAGE_LINES:
        return _join(_preamble(table), _long(table, rows, body))
    return _join(_preamble(table), _floating(table, body))


def _floating(table: Table, body: list[str]) -> Iterator[str]:
    yield r"\begin{table}"
    yield r"\centering"
    yield from _heading(table)
    # as wide as it is, but never wider than the line
    yield r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
    yield rf"\begin{{tabular}}{{{_alignment(table)}}}"
    yield r"\toprule"
    yield _columns(table)
    yield r"\midrule"
    yield from body
    yield r"\bottomrule"
    yield r"\end{tabular}}"
    yield from notes_below(table, _note)
    yield r"\end{table}"


def _long(table: Table, rows: Sequence[_Lines], body: list[str]) -> Iterator[str]:
    # one that is too wide grows into both margins
    yield r"\begingroup\footnotesize\setlength{\tabcolsep}{4pt}"
    yield r"\LTleft=0pt plus 1fill minus 1fill \LTright=\LTleft"
    yield rf"\begin{{longtable}}{{{_alignment(table)}}}"
    yield from _widest(rows)
    first, second = _heading(table)
    yield first + second + r" \\"
    yield r"\toprule"
    yield _columns(table)
    yield r"\midrule"
    yield r"\endhead"
    yield r"\bottomrule"
    yield r"\endfoot"
    yield from body
    yield r"\end{longtable}"
    yield from notes_below(table, _note)
    yield r"\endgroup"


def _preamble(table: Table) -> Iterator[str]:
    # the same for all: a document that takes several in has the first one's
    yield PACKAGES
    texts = [table.title, *table.columns, *table.rows, *table.notes]
    texts += [
        cell.value
        for row in table.rows.values()
        for cell in row.values()
        if isinstance(cell.value, str)
    ]
    if any(map(_BEYOND.search, texts)):
        yield "% XeLaTeX or LuaLaTeX with a font that has these letters"


def _heading(table: Table) -> tuple[str, str]:
    return rf"\caption{{{_escape(one_line(table.title))}}}", rf"\label{{tab:{table.name}}}"


def _alignment(table: Table) -> str:
    return "l" + "".join("l" if is_text(table, column) else "r" for column in table.columns)


def _columns(table: Table) -> str:
    return _line(["", *map(_in_text, table.columns)])


def _cells(table: Table, name: str, row: Mapping[str, Cell]) -> _Lines:
    values, *below = stack_parts(table, row)
    lines = [[_in_text(name), *map(_in_cell, values)]]
    for cells in below:
        lines.append(
            ["", *(rf"{{\scriptsize {_in_cell(cell)}}}" if cell else "" for cell in cells)]
        )
    return lines


def _row(lines: _Lines) -> Iterator[str]:
    # the star keeps a row on one page
    yield from (_line(cells) + "*" for cells in lines[:-1])
    yield _line(lines[-1])


def _widest(rows: Sequence[_Lines]) -> Iterator[str]:
    """Lines that are measured and not printed: head and rules are set before the rows are.

    One line for the values, intervals and counts each, of the longest cells of every column.
    """
    for lines in zip_longest(*rows):
        columns = zip(*filter(None, lines), strict=True)
        longest = (max(cells, key=_length) for cells in columns)
        yield " & ".join(longest) + r" \kill"


def _length(cell: str) -> int:
    """How many letters are printed of a cell, about."""
    return len(_UNPRINTED.sub("", cell))


def _note(note: str) -> str:
    return rf"\par{{\raggedright\footnotesize {_in_text(note)}\par}}" if note else ""


def _in_text(text: str) -> str:
    """Text with ConvBench's quantities as mathematics, where it is about them."""
    line = one_line(text)
    leading = _LEADING.match(line)
    if leading:
        rest = line[leading.end() :]
        return _formula(leading[0]) + (_mixed(rest) if _S.search(rest) else _escape(rest))
    return _mixed(line) if _S.search(line) else _escape(line)


def _mixed(line: str) -> str:
    pieces = []
    place = 0
    for found in _EXPRESSION.finditer(line):
        pieces += [_escape(line[place : found.start()]), _formula(found[0])]
        place = found.end()
    return "".join([*pieces, _escape(line[place:])])


def _in_cell(text: str) -> str:
    """A cell's text, its numbers with true signs."""
    return _SIGN.sub(lambda sign: f"${sign[0]}$", _in_text(text))


def _formula(text: str) -> str:
    return f"${_SYMBOL.sub(_symbol, text)}$"


def _symbol(found: re.Match[str]) -> str:
    letter, index, accent = found.groups()
    return rf"\{accent}{{{letter}}}_{index}" if accent else f"{letter}_{index}"


def _escape(text: str) -> str:
    return "".join(_ESCAPES.get(sign, sign) for sign in text)


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _join(*parts: Iterable[str]) -> str:
    return "\n".join(line for part in parts for line in part) + "\n"
