"""A leaderboard: finished runs of one benchmark, one row each, the best first.

Its numbers are those of the runs' own tables, at the places that
`mmconv.benchmarks.base.compare` describes; only ranks and the endings of all answers of a run
are computed here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from mmconv.benchmarks.base.compare import Board, BoardPart, find_boards
from mmconv.benchmarks.base.metrics import endings_metrics
from mmconv.core.errors import ConfigError
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import LEVEL, Key, merge_notes, quantities_by_key
from mmconv.report.comparison.runs import check_alike, check_samples, open_runs, other_settings
from mmconv.report.costs import unknown_price
from mmconv.report.data_quality import Statement, read_notable
from mmconv.report.tables.cells import is_text, two_digits
from mmconv.run_folder.saved_run import FinishedRun
from mmconv.stats import Contrast, Quantity, ScoreFrame, contrast, holm, note_intervals

NAME = "leaderboard"

RANK = "rank"
MISSING = "missing (%)"
WARNED = "warning"

RANKS = (
    "A rank a–b: by paired differences in {column}, with Holm's correction over all pairs of runs, "
    "a - 1 of the {n} runs are better and {n} - b worse at the 5 % level; the others cannot be "
    "distinguished. With 95 % confidence all true ranks are in these ranges.{power}"
)
UNRANKED = "No ranks by {column}: only scores of two or more runs have ranks."
USAGE = "Tokens and prices are of all calls, cached replies included."

_LEAST = frozenset({"lose", MISSING})
"""Columns of scores of which the least is best; columns of usage have the least first too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderboard:
    """The runs, the tables, and their warnings; `brief` has one line for each run."""

    runs: tuple[FinishedRun, ...]
    warnings: tuple[str, ...]
    brief: tuple[str, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    run: FinishedRun
    tables: Mapping[str, Table]
    samples: Mapping[str, str]
    quantities: Mapping[Key, Quantity]
    endings: Mapping[str, Cell]
    notable: tuple[Statement, ...]

    @classmethod
    def read(cls, run: FinishedRun) -> _Entry:
        frame = ScoreFrame(run.scores())
        # other models may answer in a run, and their answers are scored too
        is_shared = run.candidate in frame.distinct("model")
        own = frame.only(model=run.candidate) if is_shared else frame
        endings = {metric.name: metric.measure(own) for metric in endings_metrics(NAME)}
        return cls(
            run=run,
            tables={table.name: table for table in run.tables},
            samples=frame.clusters(),
            quantities=quantities_by_key(frame, run),
            endings={name: cell for name, cell in endings.items() if cell},
            notable=read_notable(run),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """The column by which a board is sorted, and the quantity that ranks runs by it."""

    name: str
    values: Mapping[str, float]
    least: bool
    quantity: Key | None

    @property
    def order(self) -> list[str]:
        """The labels of the runs that have a value, the best first."""
        return sorted(self.values, key=self.values.__getitem__, reverse=not self.least)


def make_leaderboard(
    folders: Sequence[Path],
    *,
    sort: str | None = None,
    columns: Sequence[str] = (),
    despite: Collection[str] = (),
) -> Leaderboard:
    """Rank finished runs by each board's headline, or by the column `sort`.

    `columns` are shown in their order; all if there are none. `despite` has the kinds of mismatches
    to accept, among `mmconv.report.comparison.runs.KINDS`. Raises `ConfigError` for an unknown
    column and for runs that are not comparable, and as `read_finished` does.
    """
    runs = open_runs(folders)
    mismatches = [note for run in runs[1:] for note in check_alike(runs[0], run, despite)]
    first, *others = entries = [_Entry.read(run) for run in runs]
    for entry in others:
        labels = (first.run.label, entry.run.label)
        samples = (first.samples, entry.samples)
        mismatches += check_samples(samples, labels, despite, same=True)
    mismatches = [*dict.fromkeys(mismatches)]
    warnings, brief = [*mismatches], [*mismatches]
    for entry in entries:
        start = f"WARNING: {entry.run.label}: "
        warnings += (f"{start}{sentence}" for sentence in entry.notable)
        if entry.notable:
            brief.append(f"{start}{'; '.join(each.short for each in entry.notable)}.")
    tables = [_choose(table, columns) for table in _tables(entries, sort, columns)]
    return Leaderboard(
        runs=runs,
        warnings=tuple(warnings),
        brief=tuple(brief),
        tables=tuple(
            replace(table, notes=(*warnings, *table.notes)) for table in tables if table.columns
        ),
    )


def _tables(entries: Sequence[_Entry], sort: str | None, columns: Sequence[str]) -> Sequence[Table]:
    first = entries[0].run
    least = first.manifest.provenance.get("least", ())
    boards = find_boards(first.spec, [entry.tables for entry in entries], least)
    filled = [(board, tables) for board in boards if (tables := _fill(board, entries))]
    usage = _usage(entries)
    everything = [*(table for _, tables in filled for table in tables), usage]
    shown = dict.fromkeys(name for table in everything for name in table.columns)
    numbers = [
        name
        for name in shown
        if any(name in table.columns and not is_text(table, name) for table in everything)
    ]
    for known, names in (([RANK, *shown, WARNED], columns), (numbers, [sort] if sort else [])):
        for name in names:
            if name not in known:
                raise ConfigError(f"no column {name!r}; there are: {', '.join(known)}")
    sorted_tables: list[Table] = []
    for board, tables in filled:
        key = _find_key(board, tables, sort, everything)
        sorted_tables += _ranked(tables, key, entries, columns)
    sorted_tables.append(_in_order(usage, sorted_tables[0].rows if sorted_tables else usage.rows))
    return note_intervals(sorted_tables)


def _fill(board: Board, entries: Sequence[_Entry]) -> list[Table]:
    """The board's tables with numbers of any run.

    The first one also has how much of its headline is missing, and marks runs with warnings.
    """
    filled = (_fill_part(board, part, entries) for part in board.parts)
    tables = [table for table in filled if table.rows]
    if not tables:
        return []
    headline = _headline(board, tables[0])
    rows = {label: dict(row) for label, row in tables[0].rows.items()}
    for entry in entries:
        row = rows.get(entry.run.label, {})
        cell = row.get(headline)
        lost = 0 if cell is None else sum(cell.missing.values())
        if cell is not None and cell.n is not None and cell.n + lost:
            row[MISSING] = Cell(value=100 * lost / (cell.n + lost))
        if entry.notable:
            row[WARNED] = Cell(value="yes")
    added = [name for name in (MISSING, WARNED) if any(name in row for row in rows.values())]
    tables[0] = replace(tables[0], columns=(*tables[0].columns, *added), rows=rows)
    return tables


def _headline(board: Board, table: Table) -> str:
    return board.headline if board.headline in table.columns else table.columns[0]


def _fill_part(board: Board, part: BoardPart, entries: Sequence[_Entry]) -> Table:
    rows: dict[str, dict[str, Cell]] = {}
    for entry in entries:
        cells = {
            name: place.find(entry.tables, entry.run.candidate)
            for name, place in part.columns.items()
        }
        if row := {name: cell for name, cell in cells.items() if cell is not None}:
            rows[entry.run.label] = row
    filled = {name for row in rows.values() for name in row}
    absent = [entry.run.label for entry in entries if entry.run.label not in rows]
    names = dict.fromkeys(place.table for place in part.columns.values())
    sources = [
        [(entry.run, entry.tables[name]) for entry in entries if name in entry.tables]
        for name in names
    ]
    tables = [table for source in sources for _, table in source]
    shown = {place.column for place in part.columns.values()}
    others = {column for table in tables for column in table.columns} - shown
    # notes on columns that are left out are left out too
    notes = [
        note
        for source in sources
        for note in merge_notes(source)
        if _is_about(note, shown) or not _is_about(note, others)
    ]
    return Table(
        name="_".join(filter(None, (NAME, board.name, part.name))),
        title=part.title,
        columns=tuple(name for name in part.columns if name in filled),
        rows=rows,
        notes=(
            *([f"Without these numbers: {', '.join(absent)}."] if rows and absent else []),
            *part.notes,
            *dict.fromkeys(notes),
        ),
        digits=max((table.digits for table in tables), default=2),
        signed=part.signed,
    )


def _is_about(note: str, columns: Iterable[str]) -> bool:
    """Whether a note explains one of these columns: it begins with a part of their title."""
    about, colon, _ = note.partition(":")
    return bool(colon) and any(about.casefold() in column.casefold() for column in columns)


def _usage(entries: Sequence[_Entry]) -> Table:
    rows: dict[str, dict[str, Cell]] = {}
    for entry in entries:
        row = {"run": Cell(value=entry.run.folder.resolve().name), **entry.endings}
        for role, counts in entry.run.summary.models.items() if entry.run.summary else ():
            row[f"{role}: thousand tokens in"] = Cell(value=counts.total_input_tokens / 1000)
            row[f"{role}: thousand tokens out"] = Cell(value=counts.total_output_tokens / 1000)
            if counts.total_cost_usd is not None:
                row[f"{role}: US dollars"] = Cell(value=counts.total_cost_usd)
        rows[entry.run.label] = row
    notes = [*other_settings(*(entry.run for entry in entries))]
    if uncounted := [entry.run.label for entry in entries if entry.run.summary is None]:
        notes.append(f"Only scored from a cache, so nothing was counted: {', '.join(uncounted)}.")
    for run in (entry.run for entry in entries):
        for role, counts in run.summary.models.items() if run.summary else ():
            if counts.total_cost_usd is None and run.spec.models[role].price is not None:
                reason = unknown_price(counts.total_unmetered, counts.requested + counts.cached)
                notes.append(f"{run.label}: {role}: {reason}.")
    about = (*notes, USAGE)
    return Table.of(f"{NAME}_runs", "Endings of answers, and usage", rows, notes=about)


def _find_key(
    board: Board, tables: Sequence[Table], sort: str | None, everything: Sequence[Table]
) -> _Key:
    name = sort or _headline(board, tables[0])
    table = next(table for table in (*tables, *everything) if name in table.columns)
    places = {
        column: place
        for part in board.parts
        if table in tables and not part.signed
        for column, place in part.columns.items()
    }
    cells = {label: row[name].value for label, row in table.rows.items() if name in row}
    return _Key(
        name=name,
        values={label: value for label, value in cells.items() if isinstance(value, int | float)},
        least=name in _LEAST.union(board.least) or table is everything[-1],
        quantity=places[name].quantity if name in places else None,
    )


def _ranked(
    tables: Sequence[Table], key: _Key, entries: Sequence[_Entry], columns: Sequence[str]
) -> Iterator[Table]:
    notes = [f"Sorted by {key.name}, the {'least' if key.least else 'largest'} first."]
    quantities = {
        entry.run.label: entry.quantities[key.quantity]
        for entry in entries
        if key.quantity and key.quantity in entry.quantities and entry.run.label in key.values
    }
    first, *rest = (_in_order(table, key.order) for table in tables)
    if len(quantities) < 2:
        # in each table, as the first may have none of the columns that are shown
        notes.append(UNRANKED.format(column=key.name))
    elif not columns or RANK in columns:
        first = _with_ranks(first, key, quantities)
    for table in (first, *rest):
        yield replace(table, notes=(*notes, *table.notes))


def _with_ranks(table: Table, key: _Key, quantities: Mapping[str, Quantity]) -> Table:
    differences = pair_contrasts(quantities)
    ranks = rank_ranges(quantities, differences, least=key.least)
    cells = {
        label: {RANK: Cell(value=str(best) if best == worst else f"{best}–{worst}")}
        for label, (best, worst) in ranks.items()
    }
    sizes = [each.detectable(LEVEL / len(differences)) or 0.0 for each in differences.values()]
    scale = max(quantity.scale for quantity in quantities.values())
    found = f" A true difference of {two_digits(scale * max(sizes))} is found with 80 % power."
    note = RANKS.format(column=key.name, n=len(ranks), power=found if any(sizes) else "")
    return replace(
        table,
        columns=(RANK, *table.columns),
        rows={label: cells.get(label, {}) | dict(row) for label, row in table.rows.items()},
        notes=(note, *table.notes),
    )


def pair_contrasts(quantities: Mapping[str, Quantity]) -> dict[tuple[str, str], Contrast]:
    """The differences of all pairs of runs; runs by their labels."""
    return {
        (left, right): contrast(quantities[left], quantities[right], (left, right))
        for left, right in combinations(quantities, 2)
    }


def rank_ranges(
    labels: Collection[str],
    differences: Mapping[tuple[str, str], Contrast],
    *,
    least: bool = False,
) -> dict[str, tuple[int, int]]:
    """The best and the worst rank that each of N runs may have; runs by their labels.

    The best is 1 plus the number of runs that are better than it by the paired difference, at
    `LEVEL` after Holm's correction over all pairs; the worst is N minus the number of those that
    are worse. With 95 % confidence all true ranks are within (Mogstad et al., Review of Economic
    Studies 91, 2024). A pair without a p-value is not distinguished. With `least` the lowest is
    best.
    """
    p_values = {pair: test.p for pair, test in differences.items() if test.p is not None}
    better, worse = (dict.fromkeys(labels, 0) for _ in range(2))
    for (left, right), p in holm(p_values).items():
        change = differences[left, right].summary.mean
        if p < LEVEL and change:
            ahead, behind = (left, right) if (change < 0) != least else (right, left)
            better[behind] += 1
            worse[ahead] += 1
    return {label: (1 + better[label], len(labels) - worse[label]) for label in labels}


def _in_order(table: Table, labels: Iterable[str]) -> Table:
    order = dict.fromkeys([*labels, *table.rows])
    return replace(table, rows={label: table.rows[label] for label in order if label in table.rows})


def _choose(table: Table, columns: Sequence[str]) -> Table:
    if not columns:
        return table
    chosen = tuple(name for name in columns if name in table.columns)
    rows = {
        label: {name: row[name] for name in chosen if name in row}
        for label, row in table.rows.items()
    }
    return replace(table, columns=chosen, rows=rows)
