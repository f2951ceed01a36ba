"""Tables as files: text for a terminal, CSV, JSON, Markdown and LaTeX.

Text, Markdown and LaTeX are for readers: numbers have the table's digits, rounded half up (away
from zero) from the shortest decimal that names the float, so 0.125 becomes 0.13. CSV and JSON are
for programs: numbers stand there in full. A value that is not there is an en dash (empty in CSV,
null in JSON) with the count and reasons of what is missing beside it, never 0 or NaN; a cell that
the row does not have is blank. Nothing is computed here but the rounding.
"""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from pathlib import Path
from typing import Any

import orjson

from mmconv.values import Cell, Table

_NONE = "–"
# the longest float has 309 digits before the point
_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)
_FIELDS = ("", ".low", ".high", ".n", ".missing", ".why")
_MARKDOWN = re.compile(r"([\\`*_|<])")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    # a bracket after a line's end would be read as that command's argument
    "[": "{[}",
    "]": "{]}",
    "–": "--",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}


def to_text(table: Table) -> str:
    """Aligned plain text: under each value its interval in brackets, its n and how many miss."""
    _check(table)
    blocks = [
        [
            ("" if line else _one_line(name), *cells)
            for line, cells in enumerate(_stacked(table, row))
        ]
        for name, row in table.rows.items()
    ]
    lines = [("", *map(_one_line, table.columns)), *(line for block in blocks for line in block)]
    widths = [max(_width(line[place]) for line in lines) for place in range(len(lines[0]))]
    body = ["  ".join(_padded(line, widths)).rstrip() for line in lines]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([table.title, "", body[0], rule, *body[1:], *_after(table)]) + "\n"


def to_csv(table: Table) -> str:
    """One line per row; a column C becomes C, C.low, C.high, C.n, C.missing and C.why.

    C.missing counts all that is missing, C.why tells how many for which reason.
    """
    _check(table)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["row", *(column + field for column in table.columns for field in _FIELDS)])
    for name, row in table.rows.items():
        cells = [row.get(column) for column in table.columns]
        writer.writerow([name, *(entry for cell in cells for entry in _csv_entries(cell))])
    return stream.getvalue()


def to_json(table: Table) -> str:
    """One object: name, title, columns, digits, notes, and rows -> row -> column -> cell.

    A cell has value, n, missing (reason -> count), low and high.
    """
    _check(table)
    document = {
        "name": table.name,
        "title": table.title,
        "columns": table.columns,
        "digits": table.digits,
        "notes": table.notes,
        "rows": {
            name: {column: _json_cell(row[column]) for column in table.columns if column in row}
            for name, row in table.rows.items()
        },
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def to_markdown(table: Table) -> str:
    """A pipe table under its title, each cell on one line, with the notes below as a list."""
    _check(table)

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    lines = [
        f"**{_in_markdown(table.title)}**",
        "",
        line(["", *map(_in_markdown, table.columns)]),
        line(["---", *("---:" for _ in table.columns)]),
    ]
    for name, row in table.rows.items():
        cells = (" ".join(filter(None, _parts(row.get(c), table.digits))) for c in table.columns)
        lines.append(line([_in_markdown(name), *map(_in_markdown, cells)]))
    return "\n".join([*lines, *_after(table, lambda note: f"- {_in_markdown(note)}")]) + "\n"


def to_latex(table: Table) -> str:
    """A `table` environment in the manner of the package booktabs, stacked as the text is."""
    _check(table)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_in_latex(table.title)}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
        _latex_line(["", *map(_in_latex, table.columns)]),
        r"\midrule",
    ]
    for name, row in table.rows.items():
        for number, cells in enumerate(_stacked(table, row)):
            small = [rf"{{\scriptsize {_in_latex(cell)}}}" if cell else "" for cell in cells]
            plain = [_in_latex(cell) for cell in cells]
            lines.append(_latex_line(["", *small] if number else [_in_latex(name), *plain]))
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += _after(table, lambda note: rf"\par{{\footnotesize {_in_latex(note)}}}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "txt": to_text,
    "csv": to_csv,
    "json": to_json,
    "md": to_markdown,
    "tex": to_latex,
}
"""The renderings by file name suffix."""


def write_tables(folder: Path, tables: Sequence[Table]) -> tuple[Path, ...]:
    """Write every table in every format as `<name>.<suffix>`, and return the files.

    Makes the folder if it is not there. Raises `ValueError` for two tables of one name, or a name
    that is no plain file name.
    """
    names = [table.name for table in tables]
    if len(set(names)) < len(names):
        raise ValueError(f"two tables have one name: {sorted(names)}")
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for table in tables:
        for suffix, render in FORMATS.items():
            file = folder / f"{table.name}.{suffix}"
            file.write_text(render(table), encoding="utf-8", newline="\n")
            files.append(file)
    return tuple(files)


def _check(table: Table) -> None:
    """Refuse what only a bug can bring: a bad name, an unknown column, a number that is none."""
    if not re.fullmatch(r"[\w-][\w.-]*", table.name):
        raise ValueError(f"a table's name is a plain file name, not {table.name!r}")
    for name, row in table.rows.items():
        if unknown := row.keys() - set(table.columns):
            raise ValueError(f"table {table.name}: row {name!r} has columns {sorted(unknown)}")
        for column, cell in row.items():
            for number in (cell.value, cell.low, cell.high):
                if not isinstance(number, str | None) and not math.isfinite(number):
                    raise ValueError(f"table {table.name}: {name!r}, {column!r} is {number}")


def _parts(cell: Cell | None, digits: int) -> tuple[str, str, str]:
    """What a reader sees of a cell: value, interval, counts; each may be empty."""
    if cell is None:
        return "", "", ""
    interval = ""
    if cell.low is not None and cell.high is not None:
        interval = f"[{_rounded(cell.low, digits)}, {_rounded(cell.high, digits)}]"
    counts = [] if cell.n is None else [f"n={cell.n}"]
    if missing := sum(cell.missing.values()):
        counts.append(f"{missing} missing")
    return _value(cell.value, digits), interval, ", ".join(counts)


def _stacked(table: Table, row: Mapping[str, Cell]) -> Iterator[tuple[str, ...]]:
    """The lines of a row, one text per column: the values, then intervals and counts if any."""
    parts = [_parts(row.get(column), table.digits) for column in table.columns]
    yield tuple(value for value, _, _ in parts)
    for below in (tuple(part[1] for part in parts), tuple(part[2] for part in parts)):
        if any(below):
            yield below


def _after(table: Table, shape: Callable[[str], str] = str) -> list[str]:
    """The notes, then a line per row on what is missing and why, after an empty line."""
    notes = list(table.notes)
    for name, row in table.rows.items():
        reasons = [f"{column}: {why}" for column, cell in row.items() if (why := _why(cell))]
        if reasons:
            notes.append(f"missing in {name}: {'; '.join(reasons)}")
    return ["", *map(shape, notes)] if notes else []


def _why(cell: Cell) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in cell.missing.items() if count)


def _value(value: float | str | None, digits: int) -> str:
    if value is None:
        return _NONE
    return _one_line(value) if isinstance(value, str) else _rounded(value, digits)


def _rounded(number: float, digits: int) -> str:
    exact = Decimal(repr(float(number)))
    rounded = exact.quantize(Decimal(1).scaleb(-digits), context=_EXACT)
    # what rounds to zero has no sign
    return f"{rounded if rounded else abs(rounded):f}"


def _csv_entries(cell: Cell | None) -> tuple[float | str | None, ...]:
    if cell is None:
        return (None,) * len(_FIELDS)
    missing = None if cell.n is None and not cell.missing else sum(cell.missing.values())
    return cell.value, cell.low, cell.high, cell.n, missing, _why(cell)


def _json_cell(cell: Cell) -> dict[str, Any]:
    return {
        "value": cell.value,
        "n": cell.n,
        "missing": dict(cell.missing),
        "low": cell.low,
        "high": cell.high,
    }


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _in_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", _one_line(text))


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in _one_line(text))


def _latex_line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _padded(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """The first cell to the left, the others to the right."""
    for place, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        space = " " * (width - _width(cell))
        yield space + cell if place else cell + space


def _width(text: str) -> int:
    """Columns on a terminal: Chinese characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF")
        for sign in text
    )
