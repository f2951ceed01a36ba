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
    """Aligned plain text, a line per row: each value with its interval, n and how many miss."""
    _check(table)
    columns = [_column(table, column) for column in table.columns]
    names = [_one_line(name) for name in table.rows]
    width = max(map(_width, ["", *names]))
    widths = [max(_width(cell) for cell in column) for column in columns]
    aligned = [_left if _is_text(table, title) else _right for title in table.columns]
    lines = [
        "  ".join(
            [_left(name, width)]
            + [
                align(column[place], size)
                for align, column, size in zip(aligned, columns, widths, strict=True)
            ]
        ).rstrip()
        for place, name in enumerate(["", *names])
    ]
    rule = "-" * (width + sum(widths) + 2 * len(widths))
    return "\n".join([table.title, "", lines[0], rule, *lines[1:], *_after(table)]) + "\n"


def _column(table: Table, column: str) -> list[str]:
    """A column as text: its title, then a cell per row, whose parts stand under each other."""
    parts = [_parts(row.get(column), table) for row in table.rows.values()]
    if _is_text(table, column):
        return [_one_line(column), *(value for value, _, _ in parts)]
    widths = [max(map(_width, ["", *each])) for each in zip(*parts, strict=True)] or [0, 0, 0]
    cells = [
        " ".join(_right(text, size) for text, size in zip(cell, widths, strict=True) if size)
        for cell in parts
    ]
    return [_one_line(column), *cells]


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
        cells = (" ".join(filter(None, _parts(row.get(c), table))) for c in table.columns)
        lines.append(line([_in_markdown(name), *map(_in_markdown, cells)]))
    return "\n".join([*lines, *_after(table, lambda note: f"- {_in_markdown(note)}")]) + "\n"


def to_latex(table: Table) -> str:
    """A `table` environment in the manner of the package booktabs, parts stacked in a cell."""
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


def as_printed(tables: Iterable[Table], *, intervals: bool = False) -> dict[str, Any]:
    """Table -> row -> column -> value, n and missing (reason -> count), numbers as printed.

    That is rounded, for comparison with what was published; with `intervals` low and high stand
    there too. Raises `ValueError` for two tables of one name.
    """
    document: dict[str, Any] = {}
    for table in tables:
        _check(table)
        if table.name in document:
            raise ValueError(f"two tables have one name: {table.name!r}")
        document[table.name] = {
            name: {
                column: _printed(row[column], table, intervals)
                for column in table.columns
                if column in row
            }
            for name, row in table.rows.items()
        }
    return document


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


def _parts(cell: Cell | None, table: Table) -> tuple[str, str, str]:
    """What a reader sees of a cell: value, interval, counts; each may be empty."""
    if cell is None:
        return "", "", ""
    interval = ""
    if cell.low is not None and cell.high is not None:
        low, high = _rounded(cell.low, table), _rounded(cell.high, table)
        interval = f"[{low}, {high}]"
    counts = [] if cell.n is None else [f"n={cell.n}"]
    if missing := sum(cell.missing.values()):
        counts.append(f"{missing} missing")
    return _value(cell.value, table), interval, ", ".join(counts)


def _stacked(table: Table, row: Mapping[str, Cell]) -> Iterator[tuple[str, ...]]:
    """The lines of a row, one text per column: the values, then intervals and counts if any."""
    parts = [_parts(row.get(column), table) for column in table.columns]
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


def _value(value: float | str | None, table: Table) -> str:
    if value is None:
        return _NONE
    return _one_line(value) if isinstance(value, str) else _rounded(value, table)


def _rounded(number: float, table: Table) -> str:
    exact = Decimal(repr(float(number)))
    rounded = exact.quantize(Decimal(1).scaleb(-table.digits), context=_EXACT)
    # what rounds to zero has no sign
    text = f"{rounded if rounded else abs(rounded):f}"
    return f"+{text}" if table.signed and rounded > 0 else text


def _printed(cell: Cell, table: Table, intervals: bool) -> dict[str, Any]:
    def printed(value: float | str | None) -> float | str | None:
        return value if isinstance(value, str | None) else float(_rounded(value, table))

    entry = {"value": printed(cell.value), "n": cell.n, "missing": dict(cell.missing)}
    ends = {"low": printed(cell.low), "high": printed(cell.high)} if intervals else {}
    return entry | ends


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


def _is_text(table: Table, column: str) -> bool:
    cells = [row[column].value for row in table.rows.values() if column in row]
    return all(isinstance(value, str) for value in cells)


def _left(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _right(text: str, width: int) -> str:
    return " " * (width - _width(text)) + text


def _width(text: str) -> int:
    """Columns on a terminal: Chinese characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF")
        for sign in text
    )
