"""Tables as the page prints them: texts for cells, with the digits that their intervals support."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from mmconv.benchmarks.base.layouts import supported_digits
from mmconv.benchmarks.options import Display
from mmconv.core.types import Cell, Table
from mmconv.report.tables.cells import cell_parts, missing_notes, word_reasons
from mmconv.stats import FEWEST_CLUSTERS

STAR = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A cell as texts; `why` says what is missing, `words` that the value is not a number.

    In a heat map `shade` is from 0 to 1; `size` is n, of all if some are missing; `few` marks cells
    with too few samples.
    """

    value: str
    interval: str = ""
    counts: str = ""
    why: str = ""
    words: bool = False
    shade: float | None = None
    size: str = ""
    few: bool = False


Lines: TypeAlias = Mapping[str, tuple[Shown | None, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A printed table: the cells of each row by its name.

    `groups` are titles with their numbers of columns; `more` rows are cut; `link` with the name of
    a row is a link within the page.
    """

    id: str
    title: str
    columns: tuple[str, ...]
    lines: Lines
    notes: tuple[str, ...] = ()
    groups: tuple[tuple[str, int], ...] = ()
    more: int = 0
    link: str = ""

    def is_words(self, column: int) -> bool:
        """Whether the cells of a column are texts."""
        cells = [cell for line in self.lines.values() if (cell := line[column])]
        return bool(cells) and all(cell.words for cell in cells)


def grid(
    table: Table,
    *,
    notes: Iterable[str] | None = None,
    most: int = 300,
    is_rounded: bool = False,
    starred: Collection[tuple[str, str]] = (),
) -> Grid:
    """The first `most` rows of a table, with these notes, or else its own and what is missing.

    Each column has the digits that its intervals support, unless the table `is_rounded` already.
    Rows and columns that are `starred` get a mark.
    """
    digits = {
        column: table.digits
        if is_rounded
        else column_digits(
            (row[column] for row in table.rows.values() if column in row), table.digits
        )
        for column in table.columns
    }
    lines: dict[str, tuple[Shown | None, ...]] = {}
    for name, row in table.rows.items():
        cells = [
            shown(row.get(column), replace(table, digits=digits[column]))
            for column in table.columns
        ]
        lines[name] = tuple(
            replace(cell, value=f"{cell.value} {STAR}")
            if cell and (name, column) in starred
            else cell
            for cell, column in zip(cells, table.columns, strict=True)
        )
    size, shown_lines = _same_size(lines)
    if notes is None:
        notes = (*table.notes, *missing_notes(table))
    stars = [f"{STAR} significant at the 5 % level (Holm's correction)"] if starred else []
    return Grid(
        id=table.name,
        title=table.title,
        columns=table.columns,
        lines=dict(islice(shown_lines.items(), most)),
        notes=(*size, *notes, *stars),
        more=max(0, len(lines) - most),
    )


def column_digits(cells: Iterable[Cell], most: int) -> int:
    """The decimals that half of the intervals of these cells support.

    Only the page rounds like this; printed tables and files keep their digits.
    """
    digits = sorted(
        supported_digits(cell.low, cell.high, most)
        for cell in cells
        if cell.low is not None and cell.high is not None and cell.high > cell.low
    )
    return digits[len(digits) // 2] if digits else most


def shown(cell: Cell | None, table: Table) -> Shown | None:
    """A cell as texts, rounded like its table."""
    if cell is None:
        return None
    parts = cell_parts(cell, table, interval="{} to {}", size="n = {}")
    if isinstance(cell.value, str):
        return Shown(value=parts[0], words=True)
    value, interval = (part.replace("-", "\N{MINUS SIGN}") for part in parts[:2])
    return Shown(value=value, interval=interval, counts=parts[2], why=word_reasons(cell.missing))


def _same_size(lines: Lines) -> tuple[list[str], Lines]:
    counts = [cell.counts for line in lines.values() for cell in line if cell and cell.counts]
    if len(counts) < 2 or len({*counts}) > 1 or "missing" in counts[0]:
        return [], lines
    bare = {
        name: tuple(cell and replace(cell, counts="") for cell in line)
        for name, line in lines.items()
    }
    return [f"{counts[0]} throughout."], bare


def heat_map(table: Table, tag: str, turn: int, display: Display) -> Grid:
    """A table with its cells shaded; columns `GROUP, CONDITION` are grouped."""
    columns = [(column, *column.partition(", ")[::2]) for column in table.columns]
    groups = Counter(group for _, group, _ in columns)
    ends: dict[str, tuple[float, float]] = {}
    for group in groups:
        names = [column for column, other, _ in columns if other == group]
        cells = [row[name] for row in table.rows.values() for name in names if name in row]
        values = [cell.value for cell in cells if isinstance(cell.value, float)]
        ends[group] = min(values, default=0.0), max(values, default=1.0)
    return Grid(
        id=table.name,
        title=f"Turn {turn}, {display.turns.get(turn, tag)}",
        columns=tuple(display.labels.get(condition, condition) for _, _, condition in columns),
        groups=(("", 1), *groups.items()),
        lines={
            name: tuple(
                _shaded(row.get(column), table, ends[group]) for column, group, _ in columns
            )
            for name, row in table.rows.items()
        },
        link=f"{tag}={turn}:",
    )


def _shaded(cell: Cell | None, table: Table, ends: tuple[float, float]) -> Shown | None:
    text = shown(cell, table)
    if text is None or cell is None:
        return None
    size, missing = cell.n or 0, sum(cell.missing.values())
    counted = f"{size:,}{f'/{size + missing:,}' if missing else ''}" if size or missing else ""
    hint = "; ".join(filter(None, (text.interval, text.counts, text.why)))
    bare = replace(text, interval="", counts="", why=hint, size=counted)
    if not isinstance(cell.value, float):
        return bare
    low, high = ends
    shade = (cell.value - low) / (high - low) if high > low else 0.5
    return replace(bare, shade=shade, few=size < FEWEST_CLUSTERS)
