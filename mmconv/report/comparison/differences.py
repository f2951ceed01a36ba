"""Two or more runs of one benchmark: their tables side by side, and paired differences.

Each run's own estimates are taken from its folder as they are. Differences are paired per sample
and clustered as the benchmark clusters, quantity by quantity (`mmconv.benchmarks.shared.compared`);
scores are streamed, and two runs are held at a time. Which runs may be compared is in
`mmconv.report.comparison.runs`. The command line and the service call `compare`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmconv.benchmarks.shared.compared import find_quantities
from mmconv.core.errors import ConfigError
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.ranks import LEVEL
from mmconv.report.comparison.runs import check_alike, check_clusters, open_runs, other_settings
from mmconv.run_folder.saved_run import FinishedRun
from mmconv.stats import INTERVALS, Contrast, Kind, Quantity, ScoreFrame, as_cell, contrast, holm
from mmconv.stats.cautious_means import CAUTIOUS

_ANY = "candidate"
_JUDGED = "judged by "


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A run's tables, by the label that it has among others; in them it is `candidate`.

    `shared` are texts that do not name the candidate, whatever words are in them.
    """

    label: str
    candidate: str
    tables: Sequence[Table]
    shared: frozenset[str] = frozenset()

    def renamed(self, text: str, name: str) -> str:
        """The text with another name where the candidate's stands."""
        return self._pattern.sub(lambda _: name, text) if self.is_named(text) else text

    def row_name(self, row: str) -> str:
        """The name of the row in a table with rows of other runs."""
        return self.renamed(row, self.label) if self.is_named(row) else f"{row}, {self.label}"

    def is_named(self, text: str) -> bool:
        """Whether the text names the candidate."""
        return text not in self.shared and self._pattern.search(text) is not None

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(rf"(?<![\w.-]){re.escape(self.candidate)}(?![\w.-])")


def merge_tables(runs: Sequence[Named]) -> list[Table]:
    """Every table that any of the runs has, in the order of the first that has it."""
    names = dict.fromkeys(table.name for run in runs for table in run.tables)
    merged = []
    for name in names:
        having = [(run, table) for run in runs for table in run.tables if table.name == name]
        merged.append(_merge(having))
    return merged


def _merge(having: Sequence[tuple[Named, Table]]) -> Table:
    having = [(replace(run, shared=_shared(run, having)), table) for run, table in having]
    _, first = having[0]
    return replace(
        first,
        title=_title(having),
        columns=tuple(
            dict.fromkeys(
                run.renamed(column, _ANY) for run, table in having for column in table.columns
            )
        ),
        rows=_rows(having),
        notes=_notes(having),
        digits=max(table.digits for _, table in having),
    )


def _shared(run: Named, having: Sequence[tuple[Named, Table]]) -> frozenset[str]:
    """What the tables of other candidates have."""
    others = (table for other, table in having if other.candidate != run.candidate)
    return frozenset(
        text
        for table in others
        for text in (table.title.partition(_JUDGED)[0], *table.columns, *table.rows)
    )


def _title(having: Sequence[tuple[Named, Table]]) -> str:
    """The first table's title with all runs in the candidate's place, and their judges.

    A judge may have the candidate's name, and that stays.
    """
    run, first = having[0]
    title, judged, _ = first.title.partition(_JUDGED)
    judges = dict.fromkeys(table.title.partition(_JUDGED)[2] for _, table in having)
    labels = ", ".join(each.label for each, _ in having)
    return run.renamed(title, labels) + judged + " and ".join(filter(None, judges))


def _rows(having: Sequence[tuple[Named, Table]]) -> dict[str, dict[str, Cell]]:
    """Rows of one name together, the runs in their order."""
    kinds: dict[str, list[tuple[str, dict[str, Cell]]]] = {}
    for run, table in having:
        for name, row in table.rows.items():
            cells = {run.renamed(column, _ANY): cell for column, cell in row.items()}
            kinds.setdefault(run.renamed(name, _ANY), []).append((run.row_name(name), cells))
    return dict(row for kind in kinds.values() for row in kind)


def _notes(having: Sequence[tuple[Named, Table]]) -> tuple[str, ...]:
    """What all tables say, and whose it is where they do not; a rule belongs to no run."""
    notes = dict.fromkeys(note for _, table in having for note in table.notes)
    named: list[str] = []
    for note in notes:
        whose = [run for run, table in having if note in table.notes]
        known = len(whose) == len(having) or any(run.is_named(note) for run in whose)
        labels = ", ".join(run.label for run in whose)
        named.append(note if known or note == INTERVALS else f"{labels}: {note}")
    return tuple(named)


PAIRED = (
    "Paired per sample: n counts the samples of which both runs have every number that a row is "
    "made of, missing the others."
)

DIFFERS = "differs"
"""The column that names those whose difference is significant."""

_SIGNIFICANT = (
    f"{DIFFERS}: the columns whose difference is apart from 0 at the 5 % level, by Holm's "
    "correction over the differences of this table that have an interval ({n})."
)
_NONE_SIGNIFICANT = (
    "By Holm's correction over the differences of this table that have an interval ({n}), none is "
    "apart from 0 at the 5 % level."
)

ONCE = "Differences between quantities that are made of the same numbers are corrected for once."
"""What tables add where there are such."""

_TRIALS = "A sample counts once for each of its trials."

SCORE_DIFFERENCES = "differences"
"""The table of the differences between scores."""

_TABLES: Mapping[Kind, tuple[str, str]] = {
    "score": (SCORE_DIFFERENCES, "Scores"),
    "change": ("delta_differences", "What conditions change"),
    "failure": ("failure_differences", "Samples that fail, and what it comes from (%)"),
}
"""Kind of quantity -> the name of the table of its differences, and how its title begins."""

DIFFERENCES = frozenset(name for name, _ in _TABLES.values())
"""The names of the tables of differences."""

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What came of it: the runs, the baseline first, and the tables that name them by their labels.

    `warnings` say what differs besides the candidates; they stand among every table's notes too.
    `significant` are the rows and columns of differences that the column `differs` names.
    """

    runs: tuple[FinishedRun, ...]
    warnings: tuple[str, ...]
    tables: tuple[Table, ...]
    significant: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """A run's quantities by name and group, and its samples, each with its cluster."""

    run: FinishedRun
    samples: Mapping[str, str]
    quantities: Mapping[_Key, Quantity]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Other:
    """What a run is like beside the baseline."""

    run: FinishedRun
    samples: int
    common: int
    contrasts: Mapping[_Key, Contrast]
    warnings: tuple[str, ...]
    overlap: tuple[str, ...]

    def row(self, quantity: str, *, alone: bool) -> str:
        """The name of the row of a difference; where no other run has one, it is the quantity's."""
        return quantity if alone else f"{quantity}, {self.run.label}"


def compare(folders: Sequence[Path], *, despite: Collection[str] = ()) -> Comparison:
    """Compare finished runs with the first of them.

    `despite` names what may differ besides the candidates: some of the `KINDS` of
    `mmconv.report.comparison.runs`. Raises `ConfigError` for runs that cannot be compared,
    and as `read_finished` does.
    """
    first, *rest = open_runs(folders)
    warnings = [note for run in rest for note in check_alike(first, run, despite)]
    measured = _measure(first)
    others = [_beside(measured, run, despite) for run in rest]
    notes = tuple(
        dict.fromkeys([*warnings, *(note for other in others for note in other.warnings)])
    )
    sizes = _runs(measured, others, notes)
    made = [_differences(measured, others, notes, kind) for kind in _TABLES]
    differences = [table for table, _ in made]
    taken = {sizes.name, *(table.name for table in differences)}
    merged = merge_tables(
        [
            Named(label=run.label, candidate=run.candidate, tables=run.tables)
            for run in (first, *rest)
        ]
    )
    # a benchmark of one's own may have named a table like one that is made here
    own = [
        _warned(replace(table, name=f"own_{table.name}") if table.name in taken else table, notes)
        for table in merged
    ]
    # with many runs the scores come before their differences
    leading = 0 if len(rest) == 1 else 1
    return Comparison(
        runs=(first, *rest),
        warnings=notes,
        tables=(
            sizes,
            *own[:leading],
            *(table for table in differences if table.rows),
            *own[leading:],
        ),
        significant=frozenset(key for _, significant in made for key in significant),
    )


def quantities_by_key(frame: ScoreFrame, run: FinishedRun) -> dict[_Key, Quantity]:
    """What a run, of which these are the scores, is compared by; by name and group."""
    found = find_quantities(frame, run.spec, run.manifest.facts.get("scale"))
    return {(each.name, each.group): each for each in found}


def _measure(run: FinishedRun) -> _Measured:
    frame = ScoreFrame(run.scores())
    return _Measured(run=run, samples=frame.clusters(), quantities=quantities_by_key(frame, run))


def _beside(first: _Measured, run: FinishedRun, despite: Collection[str]) -> _Other:
    """Subtract the baseline from a run; raises `ConfigError` if their samples do not allow it."""
    measured = _measure(run)
    common = len(first.samples.keys() & measured.samples.keys())
    if not common:
        raise ConfigError(f"{first.run.folder} and {run.folder} have no sample in common")
    names = (first.run.label, run.label)
    warnings = check_clusters((first.samples, measured.samples), names, despite)
    return _Other(
        run=run,
        samples=len(measured.samples),
        common=common,
        contrasts={
            key: contrast(quantity, measured.quantities[key], names)
            for key, quantity in first.quantities.items()
            if key in measured.quantities
        },
        warnings=warnings,
        overlap=tuple(_overlap(first, measured, common)),
    )


def _overlap(first: _Measured, other: _Measured, common: int) -> Iterator[str]:
    """What the two do not share: samples, and quantities."""
    left, right = first.run.label, other.run.label
    if first.samples.keys() != other.samples.keys():
        yield (
            f"{left} has {len(first.samples)} samples, {right} {len(other.samples)}: differences "
            f"are over the {common} that both have, the runs' own numbers over all of theirs."
        )
    for one, two in ((first, other), (other, first)):
        lacking: dict[str, list[str]] = {}
        for name, group in one.quantities:
            if (name, group) not in two.quantities:
                lacking.setdefault(group, []).append(name)
        known = {group for _, group in two.quantities}
        missing = [
            f"{group}: {', '.join(names)}" if group in known else f"{group} (all of it)"
            for group, names in lacking.items()
        ]
        if missing:
            yield f"Not compared, since {two.run.label} does not have it: {'; '.join(missing)}."


def _runs(first: _Measured, others: Sequence[_Other], warnings: tuple[str, ...]) -> Table:
    sizes = {first.run.label: (first.run, len(first.samples), len(first.samples))}
    sizes |= {other.run.label: (other.run, other.samples, other.common) for other in others}
    return Table(
        name="runs",
        title=f"Runs of {first.run.spec.benchmark}, compared with {first.run.label}",
        columns=("judge", "samples", "common", "run"),
        rows={
            label: {
                "judge": Cell(value=run.judge),
                "samples": Cell(value=float(samples)),
                "common": Cell(value=float(common)),
                "run": Cell(value=run.folder.resolve().name),
            }
            for label, (run, samples, common) in sizes.items()
        },
        notes=(
            *warnings,
            *(note for other in others for note in other.overlap),
            *other_settings(first.run, *(other.run for other in others)),
            *([_TRIALS] if any(run.spec.trials > 1 for run, _, _ in sizes.values()) else []),
        ),
        digits=0,
    )


def _differences(
    first: _Measured, others: Sequence[_Other], warnings: tuple[str, ...], kind: Kind
) -> tuple[Table, list[_Key]]:
    """A row per quantity of one kind and run.

    Beside the table, the rows and columns of the differences that are significant.
    """
    compared = {key for other in others for key in other.contrasts}
    keys = [key for key, each in first.quantities.items() if each.kind == kind and key in compared]
    alone = len(others) == 1
    rows: dict[str, dict[str, Cell]] = {}
    tested: dict[_Key, Contrast] = {}
    for quantity in dict.fromkeys(name for name, _ in keys):
        for other in others:
            row = other.row(quantity, alone=alone)
            for key in keys:
                if key[0] == quantity and (found := other.contrasts.get(key)):
                    cell = as_cell(found.summary, first.quantities[key].scale)
                    rows.setdefault(row, {})[key[1]] = cell
                    if found.p is not None:
                        tested[row, key[1]] = found
    significant, count = _significant(tested)
    for row in dict.fromkeys(row for row, _ in significant):
        groups = (group for name, group in significant if name == row)
        rows[row][DIFFERS] = Cell(value=", ".join(groups))
    correction = (_SIGNIFICANT if significant else _NONE_SIGNIFICANT).format(n=count)
    runs = others[0].run.label if alone else "each run"
    name, what = _TABLES[kind]
    table = Table(
        name=name,
        title=f"{what}: {runs} minus {first.run.label}",
        columns=(*dict.fromkeys(group for _, group in keys), *([DIFFERS] if significant else [])),
        rows=rows,
        notes=(
            *warnings,
            *(note for other in others for note in other.overlap),
            *([correction] if tested else []),
            *([ONCE] if count < len(tested) else []),
            PAIRED,
            INTERVALS,
            *([CAUTIOUS] if any(first.quantities[key].cautious for key in keys) else []),
        ),
        signed=True,
    )
    return table, significant


def _significant(tested: Mapping[_Key, Contrast]) -> tuple[list[_Key], int]:
    """The rows and groups whose difference is significant, corrected for all different ones.

    Beside them, how many different ones there are.
    """
    p_values: dict[tuple[int | None, float | None], float] = {
        (each.made_of, each.p): each.p for each in tested.values() if each.p is not None
    }
    corrected = holm(p_values)
    significant = [key for key, each in tested.items() if corrected[each.made_of, each.p] < LEVEL]
    return significant, len(p_values)


def _warned(table: Table, warnings: tuple[str, ...]) -> Table:
    return replace(table, notes=(*warnings, *table.notes))
