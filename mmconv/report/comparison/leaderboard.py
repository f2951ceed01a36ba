"""A leaderboard: finished runs of one benchmark, a row each, the best first.

Numbers are those of the runs' own tables, where `mmconv.benchmarks.shared.leaderboard` finds them;
made here are only ranks, and the shares of a whole run's answers that were cut off. Which runs may
stand beside each other is told in `mmconv.report.comparison.runs`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmconv.benchmarks.shared.endings import ending_cells
from mmconv.benchmarks.shared.leaderboard import Board, BoardPart, find_boards
from mmconv.core.errors import ConfigError
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import Named, merge_tables, quantities_by_key
from mmconv.report.comparison.ranks import rank_ranges
from mmconv.report.comparison.runs import (
    check_alike,
    check_clusters,
    check_samples,
    open_runs,
    other_settings,
)
from mmconv.report.costs import tell_unmetered
from mmconv.report.data_quality import Notable, find_notable, read_shortfall
from mmconv.report.tables.cells import is_text
from mmconv.run_folder.layout import ModelSummary
from mmconv.run_folder.saved_run import FinishedRun
from mmconv.stats import Quantity, ScoreFrame, note_intervals

NAME = "leaderboard"
"""What the names of all its tables begin with."""

RANK = "rank"
MISSING = "missing (%)"
WARNED = "warning"

RANKS = (
    "A rank a–b: by paired differences in {column}, with Holm's correction over all pairs of runs, "
    "a - 1 of the {n} runs are better and {n} - b worse at the 5 % level; the others are not told "
    "apart. With 95 % confidence all true ranks lie within."
)
UNRANKED = "No ranks by {column}: they are given by scores that two runs or more have."
USAGE = "Tokens and prices are of all calls, also of those whose replies were in the store."

_LEAST = frozenset({"lose", MISSING})
"""Columns of scores of which the least is best; of all that is no score it stands first too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderboard:
    """Its tables, and what must be known before their numbers, which each table notes too.

    `brief` is that with a line for each run.
    """

    warnings: tuple[str, ...]
    brief: tuple[str, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A run, what is read of its scores, and what is amiss with it."""

    run: FinishedRun
    tables: Mapping[str, Table]
    samples: Mapping[str, str]
    quantities: Mapping[tuple[str, str], Quantity]
    answers: Mapping[str, Cell]
    amiss: tuple[Notable, ...]

    @property
    def warnings(self) -> list[str]:
        """What is amiss, in whole sentences."""
        return [f"WARNING: {self.run.label}: {each.sentence}" for each in self.amiss]

    @property
    def brief(self) -> list[str]:
        """The same in one line; none where nothing is amiss."""
        told = "; ".join(each.short for each in self.amiss)
        return [f"WARNING: {self.run.label}: {told}."] if told else []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """What a board is sorted by: a column's values, and the quantity that ranks runs by it."""

    name: str
    values: Mapping[str, float]
    least: bool
    quantity: tuple[str, str] | None

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

    `columns` are those shown, in their order; all if there are none. `despite` names what may
    differ besides the candidates: some of the `KINDS` of `mmconv.report.comparison.runs`.
    Raises `ConfigError` for a column that is not there and for runs that cannot stand beside each
    other, and as `read_finished` does.
    """
    runs = open_runs(folders)
    alike = [note for run in runs[1:] for note in check_alike(runs[0], run, despite)]
    entries = [_read(run) for run in runs]
    for entry in entries[1:]:
        alike += _check_samples(entries[0], entry, despite)
    alike = [*dict.fromkeys(alike)]
    warnings = (*alike, *(told for entry in entries for told in entry.warnings))
    named = [Named(label=run.label, candidate=run.candidate, tables=run.tables) for run in runs]
    merged = {table.name: table for table in merge_tables(named)}
    least = runs[0].manifest.facts.get("least", ())
    boards = find_boards(runs[0].spec, [entry.tables for entry in entries], least)
    filled = [(board, tables) for board in boards if (tables := _fill(board, entries, merged))]
    usage = _usage(entries)
    everything = [*(table for _, tables in filled for table in tables), usage]
    _check_columns(sort, columns, everything)
    made: list[Table] = []
    for board, tables in filled:
        made += _ranked(tables, _find_key(board, tables, sort, everything), entries)
    made.append(_in_order(usage, made[0].rows if made else usage.rows))
    shown = [
        _choose(replace(each, notes=(*warnings, *each.notes)), columns)
        for each in note_intervals(made)
    ]
    return Leaderboard(
        warnings=warnings,
        brief=(*alike, *(told for entry in entries for told in entry.brief)),
        tables=tuple(each for each in shown if each.columns),
    )


def _read(run: FinishedRun) -> _Entry:
    frame = ScoreFrame(run.scores())
    # other models may speak in a run, and their answers are scored too
    own = {"model": run.candidate} if run.candidate in frame.distinct("model") else {}
    return _Entry(
        run=run,
        tables={table.name: table for table in run.tables},
        samples=frame.clusters(),
        quantities=quantities_by_key(frame, run),
        answers=ending_cells(lambda *, metric: frame.select(turn=None, metric=metric, **own)),
        amiss=find_notable(read_shortfall(run.folder), run.tables),
    )


def _check_samples(first: _Entry, other: _Entry, despite: Collection[str]) -> tuple[str, ...]:
    samples, labels = (first.samples, other.samples), (first.run.label, other.run.label)
    return (
        *check_clusters(samples, labels, despite),
        *check_samples(samples, labels, despite),
    )


def _fill(board: Board, entries: Sequence[_Entry], merged: Mapping[str, Table]) -> list[Table]:
    """The board's tables, as far as any run has numbers for them."""
    filled = [_fill_part(board, part, entries, merged) for part in board.parts]
    tables = [table for table in filled if table.rows]
    if tables:
        tables[0] = _with_gaps(tables[0], _headline(board, tables[0]), entries)
    return tables


def _headline(board: Board, table: Table) -> str:
    return board.headline if board.headline in table.columns else table.columns[0]


def _with_gaps(table: Table, headline: str, entries: Sequence[_Entry]) -> Table:
    """The table with how much the headline lacks, and a mark on runs with which much is amiss."""
    rows = {label: dict(row) for label, row in table.rows.items()}
    for entry in entries:
        row = rows.get(entry.run.label, {})
        cell = row.get(headline)
        lost = 0 if cell is None else sum(cell.missing.values())
        if cell is not None and cell.n is not None and cell.n + lost:
            row[MISSING] = Cell(value=100 * lost / (cell.n + lost))
        if entry.amiss:
            row[WARNED] = Cell(value="yes")
    added = [name for name in (MISSING, WARNED) if any(name in row for row in rows.values())]
    return replace(table, columns=(*table.columns, *added), rows=rows)


def _fill_part(
    board: Board, part: BoardPart, entries: Sequence[_Entry], merged: Mapping[str, Table]
) -> Table:
    rows: dict[str, dict[str, Cell]] = {}
    for entry in entries:
        found = {
            name: place.find(entry.tables, entry.run.candidate)
            for name, place in part.columns.items()
        }
        if row := {name: cell for name, cell in found.items() if cell is not None}:
            rows[entry.run.label] = row
    there = dict.fromkeys(name for row in rows.values() for name in row)
    names = dict.fromkeys(place.table for place in part.columns.values())
    sources = [merged[name] for name in names if name in merged]
    lacking = [entry.run.label for entry in entries if entry.run.label not in rows]
    absent = (f"Without such numbers: {', '.join(lacking)}.",) if rows and lacking else ()
    return Table(
        name="_".join(filter(None, (NAME, board.name, part.name))),
        title=part.title,
        columns=tuple(name for name in part.columns if name in there),
        rows=rows,
        notes=(
            *absent,
            *part.notes,
            *dict.fromkeys(note for each in sources for note in _notes(each, part)),
        ),
        digits=max((source.digits for source in sources), default=2),
        signed=part.signed,
    )


def _notes(source: Table, part: BoardPart) -> Iterator[str]:
    """What a table that numbers are from says, but not of its columns that are left out."""
    shown = {place.column for place in part.columns.values()}
    for note in source.notes:
        about, colon, _ = note.partition(":")
        if not colon or about not in source.columns or about in shown:
            yield note


def _usage(entries: Sequence[_Entry]) -> Table:
    """What a run's answers were like and what it took, and where it lies."""
    rows = {entry.run.label: _usage_row(entry) for entry in entries}
    settings = other_settings(*(entry.run for entry in entries))
    uncounted = [entry.run.label for entry in entries if entry.run.summary is None]
    told = f"Only scored from a store, so that nothing was counted: {', '.join(uncounted)}."
    return Table(
        name=f"{NAME}_runs",
        title="How the answers ended, and what the runs took",
        columns=tuple(dict.fromkeys(name for row in rows.values() for name in row)),
        rows=rows,
        notes=(
            *settings,
            *([told] if uncounted else []),
            *(note for entry in entries for note in _unpriced(entry)),
            USAGE,
        ),
    )


def _unpriced(entry: _Entry) -> Iterator[str]:
    """The roles whose models have a price, but whose calls did not all tell their tokens."""
    roles = {} if entry.run.summary is None else entry.run.summary.models
    for role, counts in roles.items():
        if counts.total_cost_usd is None and entry.run.spec.models[role].price is not None:
            told = tell_unmetered(counts.total_unmetered, counts.requested + counts.cached)
            yield f"{entry.run.label}: {role}: {told}."


def _usage_row(entry: _Entry) -> dict[str, Cell]:
    roles = {} if entry.run.summary is None else entry.run.summary.models
    row = {"run": Cell(value=entry.run.folder.resolve().name)}
    row |= {name: cell for name, cell in entry.answers.items() if cell.n or cell.missing}
    for role, counts in roles.items():
        row |= {f"{role}: {name}": cell for name, cell in _role_cells(counts)}
    return row


def _role_cells(counts: ModelSummary) -> Iterator[tuple[str, Cell]]:
    yield "thousand tokens in", Cell(value=counts.total_input_tokens / 1000)
    yield "thousand tokens out", Cell(value=counts.total_output_tokens / 1000)
    if counts.total_cost_usd is not None:
        yield "US dollars", Cell(value=counts.total_cost_usd)


def _check_columns(sort: str | None, columns: Sequence[str], tables: Sequence[Table]) -> None:
    """Raise `ConfigError` for a column that no table has, or that is text and sorts nothing."""
    shown = dict.fromkeys(name for table in tables for name in table.columns)
    numbers = dict.fromkeys(
        name for table in tables for name in table.columns if not is_text(table, name)
    )
    for known, wanted in (([RANK, *shown, WARNED], columns), ([*numbers], [sort] if sort else [])):
        for name in wanted:
            if name not in known:
                raise ConfigError(f"no column {name!r}; there are: {', '.join(known)}")


def _find_key(
    board: Board, tables: Sequence[Table], sort: str | None, everything: Sequence[Table]
) -> _Key:
    """What the board is sorted by: its own column of that name, else that of another table."""
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


def _ranked(tables: Sequence[Table], key: _Key, entries: Sequence[_Entry]) -> Iterator[Table]:
    """A board's tables in the order of the key, the first with ranks where there are any."""
    told = f"Sorted by {key.name}, the {'least' if key.least else 'largest'} first."
    first, *rest = (_in_order(table, key.order) for table in tables)
    ranks = _find_ranks(key, entries)
    if len(ranks) > 1:
        ranked = RANKS.format(column=key.name, n=len(ranks))
        yield replace(_with_ranks(first, ranks), notes=(told, ranked, *first.notes))
        notes: tuple[str, ...] = (told,)
    else:
        # each table tells it, as the first may have none of the columns that are shown
        notes = told, UNRANKED.format(column=key.name)
        yield replace(first, notes=(*notes, *first.notes))
    for table in rest:
        yield replace(table, notes=(*notes, *table.notes))


def _find_ranks(key: _Key, entries: Sequence[_Entry]) -> dict[str, tuple[int, int]]:
    if key.quantity is None:
        return {}
    found = {
        entry.run.label: entry.quantities.get(key.quantity)
        for entry in entries
        if entry.run.label in key.values
    }
    quantities = {label: each for label, each in found.items() if each is not None}
    return rank_ranges(quantities, least=key.least)


def _with_ranks(table: Table, ranks: Mapping[str, tuple[int, int]]) -> Table:
    cells = {
        label: Cell(value=str(best) if best == worst else f"{best}–{worst}")
        for label, (best, worst) in ranks.items()
    }
    rows = {
        label: ({RANK: cells[label]} if label in cells else {}) | dict(row)
        for label, row in table.rows.items()
    }
    return replace(table, columns=(RANK, *table.columns), rows=rows)


def _in_order(table: Table, labels: Iterable[str]) -> Table:
    """The table with these rows first, as far as it has them."""
    order = dict.fromkeys([*labels, *table.rows])
    return replace(table, rows={each: table.rows[each] for each in order if each in table.rows})


def _choose(table: Table, columns: Sequence[str]) -> Table:
    """The table with these of its columns; all if none is named."""
    if not columns:
        return table
    kept = tuple(name for name in columns if name in table.columns)
    rows = {
        label: {name: row[name] for name in kept if name in row}
        for label, row in table.rows.items()
    }
    return replace(table, columns=kept, rows=rows)
