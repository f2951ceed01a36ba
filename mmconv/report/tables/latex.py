r"""Tables in LaTeX, in the style of the package booktabs, for pdfLaTeX and its successors.

ConvBench's quantities are mathematics (`S2_hat` becomes `$\hat{S}_2$`), signs of numbers minus and
plus. A table that is too wide shrinks to the line; one that is too long continues on the next page,
and LaTeX needs a second run to align it. The first lines of each file name the packages needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from mmconv.core.types import Cell, Table
from mmconv.report.tables.cells import (
    NONE,
    cell_parts,
    is_text,
    notes_below,
    one_line,
    show_counts_once,
)

PAGE_LINES = 40
"""The most lines of a table on one page: values, intervals, counts and notes."""

PACKAGES = r"% \usepackage{booktabs, graphicx, longtable}"
"""The first line of each file: the packages that the tables of a run need."""

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
# Latin letters and what the encoding of pdfLaTeX knows besides
_BEYOND = re.compile("[^\u0000-\u024f\u2010-\u2026\u20ac]")


def to_latex(table: Table) -> str:
    """A `table` environment, or a `longtable` if there are many rows; parts stacked in a cell."""
    table = show_counts_once(table)
    body = [line for name, row in table.rows.items() for line in _row(table, name, row)]
    notes = notes_below(table)
    is_long = len(body) + sum(1 + len(note) // _NOTE_WIDTH for note in notes) > PAGE_LINES
    lines = _long(table, body) if is_long else _floating(table, body)
    return "\n".join([*_preamble(table), *lines]) + "\n"


def _floating(table: Table, body: list[str]) -> Iterator[str]:
    yield r"\begin{table}"
    yield r"\centering"
    yield from _heading(table)
    # as wide as it is, but never wider than the line
    yield r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
    yield rf"\begin{{tabular}}{{{_alignment(table)}}}"
    yield from (r"\toprule", _columns(table), r"\midrule", *body, r"\bottomrule")
    yield r"\end{tabular}}"
    yield from _notes(table)
    yield r"\end{table}"


def _long(table: Table, body: list[str]) -> Iterator[str]:
    # one that is too wide grows into both margins
    yield r"\begingroup\footnotesize\setlength{\tabcolsep}{4pt}"
    yield r"\LTleft=0pt plus 1fill minus 1fill \LTright=\LTleft"
    yield rf"\begin{{longtable}}{{{_alignment(table)}}}"
    yield "".join(_heading(table)) + r" \\"
    yield from (r"\toprule", _columns(table), r"\midrule", r"\endhead")
    yield from (r"\bottomrule", r"\endfoot", *body)
    yield r"\end{longtable}"
    yield from _notes(table)
    yield r"\endgroup"


def _preamble(table: Table) -> Iterator[str]:
    # the same for all: a document with several tables has the first one's
    yield PACKAGES
    cells = (cell.value for row in table.rows.values() for cell in row.values())
    texts = [table.title, *table.columns, *table.rows, *table.notes]
    if any(map(_BEYOND.search, [*texts, *(text for text in cells if isinstance(text, str))])):
        yield "% XeLaTeX or LuaLaTeX with a font that has these letters"


def _heading(table: Table) -> tuple[str, str]:
    return rf"\caption{{{_escape(one_line(table.title))}}}", rf"\label{{tab:{table.name}}}"


def _alignment(table: Table) -> str:
    return "l" + "".join("l" if is_text(table, column) else "r" for column in table.columns)


def _columns(table: Table) -> str:
    return _line(["", *map(_in_text, table.columns)])


def _row(table: Table, name: str, row: Mapping[str, Cell]) -> Iterator[str]:
    parts = [cell_parts(row.get(column), table) for column in table.columns]
    values, *below = ([part[place] for part in parts] for place in range(3))
    lines = [[_in_text(name), *map(_in_cell, values)]]
    for cells in filter(any, below):
        small = (rf"{{\scriptsize {_in_cell(cell)}}}" if cell else "" for cell in cells)
        lines.append(["", *small])
    # the star keeps a row on one page
    yield from (_line(cells) + "*" for cells in lines[:-1])
    yield _line(lines[-1])


def _notes(table: Table) -> Iterator[str]:
    for note in notes_below(table):
        yield rf"\par{{\raggedright\footnotesize {_in_text(note)}\par}}" if note else ""


def _in_text(text: str) -> str:
    line = one_line(text)
    leading = _LEADING.match(line)
    start = leading.end() if leading else 0
    pieces = [_formula(leading[0])] if leading else []
    if _S.search(line, start):
        for match in _EXPRESSION.finditer(line, start):
            pieces += [_escape(line[start : match.start()]), _formula(match[0])]
            start = match.end()
    return "".join([*pieces, _escape(line[start:])])


def _in_cell(text: str) -> str:
    return _SIGN.sub(lambda sign: f"${sign[0]}$", _in_text(text))


def _formula(text: str) -> str:
    def symbol(match: re.Match[str]) -> str:
        letter, index, accent = match.groups()
        return rf"\{accent}{{{letter}}}_{index}" if accent else f"{letter}_{index}"

    return f"${_SYMBOL.sub(symbol, text)}$"


def _escape(text: str) -> str:
    return "".join(_ESCAPES.get(sign, sign) for sign in text)


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
