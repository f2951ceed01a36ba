"""Two or more runs of one benchmark: their tables side by side, and paired differences.

Each run's own estimates are those of its folder. Differences are paired per sample and clustered
as the benchmark clusters, for each of its quantities (`mmconv.benchmarks.base.compare`). Scores
are streamed, two runs at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from mmconv.benchmarks.base.compare import find_quantities
from mmconv.benchmarks.base.corrections import CORRECTED, NOTE, correct_difference
from mmconv.core.errors import ConfigError
from mmconv.core.types import Cell, Summary, Table
from mmconv.report.comparison.runs import check_alike, check_samples, open_runs, other_settings
from mmconv.report.tables.cells import two_digits
from mmconv.run_folder.saved_run import FinishedRun
from mmconv.stats import INTERVALS, Contrast, Kind, Quantity, ScoreFrame, as_cell, contrast, holm
from mmconv.stats.estimates import CAUTIOUS

LEVEL = 0.05
"""The share of true differences of zero that may be called differences."""

DIFFERS = "differs"
"""The column that names the columns whose difference is significant."""

SCORE_DIFFERENCES = "differences"

_TABLES: Mapping[Kind, tuple[str, str]] = {
    "score": (SCORE_DIFFERENCES, "Scores"),
    "change": ("delta_differences", "Changes between conditions"),
    "failure": ("failure_differences", "Failed samples, and the levels they come from (%)"),
}
"""Kind of quantity -> the name of the table of its differences, and how its title begins."""

BY_JUDGE = "differences_by_judge"

ALONE = (
    "Each interval is for itself: they show whether judges agree and are not corrected for many."
)

PAIRED = (
    "Paired per sample: n counts the samples of which both runs have every number that a row is "
    "made of; the others are missing."
)

ONCE = "Differences between quantities that are made of the same numbers are corrected for once."

EQUIVALENT = (
    "Equivalent within {margin:g} (two one-sided tests, each alone at the 5 % level; the 90 % "
    "interval is within the margin):"
)

_CORRECTION = (
    "at the 5 % level after Holm's correction over the {n} differences of all tables of this "
    "comparison that have an interval."
)

_TRIALS = "A sample counts once for each of its trials."

_ANY = "candidate"

Key: TypeAlias = tuple[str, str]


def rename_candidate(name: str, candidate: str, label: str) -> str | None:
    """A row or column that begins with the candidate's name, with the label there; else None.

    It is `NAME`, `NAME, SUBSET`, `NAME - OPPONENT` or `NAME (CONDITION)`, perhaps after a title and
    a colon, as benchmarks name the rows of a candidate.
    """
    title = "" if name.startswith(candidate) else "".join(name.partition(": ")[:2])
    own = name.removeprefix(title)
    rest = own.removeprefix(candidate)
    is_own = own.startswith(candidate) and (not rest or rest.startswith((", ", " - ", " (")))
    return f"{title}{label}{rest}" if is_own else None


def merge_tables(runs: Sequence[FinishedRun]) -> list[Table]:
    """Every table that any of the runs has, in the order of the first that has it."""
    names = dict.fromkeys(table.name for run in runs for table in run.tables)
    return [
        _merge([(run, table) for run in runs for table in run.tables if table.name == name])
        for name in names
    ]


def _merge(parts: Sequence[tuple[FinishedRun, Table]]) -> Table:
    columns: dict[str, None] = {}
    kinds: dict[str, dict[str, Mapping[str, Cell]]] = {}
    for run, table in parts:
        names = {
            name: rename_candidate(name, run.candidate, _ANY) or name for name in table.columns
        }
        columns |= dict.fromkeys(names.values())
        for name, row in table.rows.items():
            kind = rename_candidate(name, run.candidate, _ANY) or name
            own = rename_candidate(name, run.candidate, run.label) or f"{name}, {run.label}"
            kinds.setdefault(kind, {})[own] = {names[column]: cell for column, cell in row.items()}
    _, first = parts[0]
    others = [run.label for run, table in parts if table.title != first.title]
    return replace(
        first,
        title=f"{first.title}; also {', '.join(others)}" if others else first.title,
        columns=tuple(columns),
        rows={name: cells for kind in kinds.values() for name, cells in kind.items()},
        notes=tuple(merge_notes(parts)),
        digits=max(table.digits for _, table in parts),
    )


def merge_notes(parts: Sequence[tuple[FinishedRun, Table]]) -> Iterator[str]:
    """The notes of tables of runs, once each; one that not all have begins with whose it is."""
    for note in dict.fromkeys(note for _, table in parts for note in table.notes):
        labels = [run.label for run, table in parts if note in table.notes]
        is_clear = len(labels) == len(parts) or any(label in note for label in labels)
        yield note if is_clear or note == INTERVALS else f"{', '.join(labels)}: {note}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A run's paired difference from the baseline in a quantity, also as people correct it.

    Runs are named by their labels. Its row is the quantity, with several runs also the run's label;
    its column is the quantity's group. `detectable` is the least true difference that is found with
    80 % power among all that are tested, None without a test.
    """

    row: str
    run: str
    quantity: Quantity
    test: Contrast
    corrected: Summary | None
    is_significant: bool = False
    detectable: float | None = None

    @property
    def column(self) -> str:
        """The column of its tables."""
        return self.quantity.group

    @property
    def cells(self) -> dict[str, Cell]:
        """Its cells by column; a corrected one has a column of its own."""
        summaries = {self.column: self.test.summary, f"{self.column}{CORRECTED}": self.corrected}
        return {
            column: as_cell(summary, self.quantity.scale, share=True)
            for column, summary in summaries.items()
            if summary is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The runs, the baseline first, and the tables that name them by their labels.

    `warnings` are differences besides the candidates; they are in every table's notes too.
    `differences` are in the order of their tables.
    """

    runs: tuple[FinishedRun, ...]
    warnings: tuple[str, ...]
    tables: tuple[Table, ...]
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """A run's quantities by name and group, and its samples, each with its cluster.

    `labels` are the quantities as people rated them, `judges` as each of several judges did, with
    its label at the end of the group.
    """

    run: FinishedRun
    samples: Mapping[str, str]
    quantities: Mapping[Key, Quantity]
    labels: Mapping[Key, Quantity]
    judges: Mapping[Key, Quantity]

    @classmethod
    def read(cls, run: FinishedRun) -> _Measured:
        frame = ScoreFrame(run.scores())
        labels = run.labels()
        return cls(
            run=run,
            samples=frame.clusters(),
            quantities=quantities_by_key(frame, run),
            labels={} if labels is None else quantities_by_key(ScoreFrame(labels), run),
            judges={
                (name, f"{group}, {judge}"): replace(quantity, group=f"{group}, {judge}")
                for judge, rows in run.judges().items()
                for (name, group), quantity in quantities_by_key(ScoreFrame(rows), run).items()
            },
        )


def compare(
    folders: Sequence[Path], *, despite: Collection[str] = (), margin: float | None = None
) -> Comparison:
    """Compare finished runs with the first of them.

    `despite` has the kinds of mismatches to accept, among `mmconv.report.comparison.runs.KINDS`.
    Notes name the differences that are within the `margin`, in the unit of their columns.
    Raises `ConfigError` for runs that cannot be compared, and as `read_finished` does.
    """
    runs = open_runs(folders)
    baseline, *rest = runs
    warnings = [note for run in rest for note in check_alike(baseline, run, despite)]
    first = _Measured.read(baseline)
    sizes = {baseline.label: (len(first.samples), len(first.samples))}
    overlap: list[str] = []
    found: list[Difference] = []
    by_judge: list[Difference] = []
    for run in rest:
        other = _Measured.read(run)
        common = len(first.samples.keys() & other.samples.keys())
        if not common:
            raise ConfigError(f"{baseline.folder} and {run.folder} have no sample in common")
        sizes[run.label] = len(other.samples), common
        labels, samples = (baseline.label, run.label), (first.samples, other.samples)
        warnings += check_samples(samples, labels, despite)
        overlap += _overlap(first, other, common)
        people = first.labels, other.labels
        found += _paired(first.quantities, other.quantities, labels, people, runs=len(runs))
        by_judge += _paired(first.judges, other.judges, labels, runs=len(runs))
    notes = tuple(dict.fromkeys(warnings))
    differences = _in_order(_tested(found))
    made = [_table(kind, runs, differences, (*notes, *overlap)) for kind in _TABLES]
    if margin is not None:
        within = f"{EQUIVALENT.format(margin=margin)} {_within(differences, margin)}."
        made = [replace(table, notes=(within, *table.notes)) for table in made]
    merged = merge_tables(runs)
    own = [replace(table, notes=(*notes, *table.notes)) for table in merged]
    # with many runs the scores come before their differences
    leading = 0 if len(rest) == 1 else 1
    shown = [table for table in (*made, _by_judge(baseline, _in_order(by_judge))) if table.rows]
    return Comparison(
        runs=runs,
        warnings=notes,
        tables=(_sizes(runs, sizes, (*notes, *overlap)), *own[:leading], *shown, *own[leading:]),
        differences=tuple(differences),
    )


def _paired(
    left: Mapping[Key, Quantity],
    right: Mapping[Key, Quantity],
    labels: tuple[str, str],
    people: tuple[Mapping[Key, Quantity], Mapping[Key, Quantity]] = ({}, {}),
    *,
    runs: int,
) -> Iterator[Difference]:
    for key in (key for key in left if key in right):
        corrected = None
        if all(key in each for each in people):
            rated = people[0][key], people[1][key]
            corrected = correct_difference((left[key], right[key]), rated)
        yield Difference(
            row=key[0] if runs == 2 else f"{key[0]}, {labels[1]}",
            run=labels[1],
            quantity=left[key],
            test=contrast(left[key], right[key], labels),
            corrected=corrected,
        )


def quantities_by_key(frame: ScoreFrame, run: FinishedRun) -> dict[Key, Quantity]:
    """The quantities of a run with these scores, by name and group."""
    quantities = find_quantities(frame, run.spec, run.manifest.provenance.get("scale"))
    return {(quantity.name, quantity.group): quantity for quantity in quantities}


def _overlap(first: _Measured, other: _Measured, common: int) -> Iterator[str]:
    left, right = first.run.label, other.run.label
    if first.samples.keys() != other.samples.keys():
        yield (
            f"{left} has {len(first.samples)} samples, {right} {len(other.samples)}: differences "
            f"are over the {common} that both have, the runs' own numbers over all of theirs."
        )
    for one, two in ((first, other), (other, first)):
        missing: dict[str, list[str]] = {}
        for name, group in one.quantities:
            if (name, group) not in two.quantities:
                missing.setdefault(group, []).append(name)
        known = {group for _, group in two.quantities}
        listed = [
            f"{group}: {', '.join(names)}" if group in known else f"{group} (all of it)"
            for group, names in missing.items()
        ]
        if listed:
            yield f"Not compared, since {two.run.label} does not have it: {'; '.join(listed)}."


def _sizes(
    runs: Sequence[FinishedRun], sizes: Mapping[str, tuple[int, int]], notes: Sequence[str]
) -> Table:
    """The runs, their judges, and how many samples they have in common with the first."""
    return Table(
        name="runs",
        title=f"Runs of {runs[0].spec.benchmark}, compared with {runs[0].label}",
        columns=("judge", "samples", "common", "run"),
        rows={
            run.label: {
                "judge": Cell(value=run.judge),
                "samples": Cell(value=float(sizes[run.label][0])),
                "common": Cell(value=float(sizes[run.label][1])),
                "run": Cell(value=run.folder.resolve().name),
            }
            for run in runs
        },
        notes=(
            *notes,
            *other_settings(*runs),
            *([_TRIALS] if any(run.spec.trials > 1 for run in runs) else []),
        ),
        digits=0,
    )


def _tested(differences: Sequence[Difference]) -> list[Difference]:
    """The differences, corrected for all of them; those of the same numbers count once."""
    p_values = {_test_of(each): each.test.p for each in differences if each.test.p is not None}
    corrected = holm(p_values)
    level = LEVEL / max(len(p_values), 1)
    return [
        replace(
            each,
            is_significant=corrected[_test_of(each)] < LEVEL,
            detectable=each.quantity.scale * (each.test.detectable(level) or 0.0),
        )
        if _test_of(each) in corrected
        else each
        for each in differences
    ]


def _test_of(difference: Difference) -> tuple[int | None, float | None]:
    return difference.test.made_of, difference.test.p


def _in_order(differences: Sequence[Difference]) -> list[Difference]:
    """The differences table by table, in each one quantity after the other of all runs."""
    kinds, names = [*_TABLES], [*dict.fromkeys(each.quantity.name for each in differences)]

    def order(each: Difference) -> tuple[int, int]:
        return kinds.index(each.quantity.kind), names.index(each.quantity.name)

    return sorted(differences, key=order)


def _rows(differences: Iterable[Difference]) -> dict[str, dict[str, Cell]]:
    rows: dict[str, dict[str, Cell]] = {}
    for each in differences:
        rows.setdefault(each.row, {}).update(each.cells)
    return rows


def _table(
    kind: Kind,
    runs: Sequence[FinishedRun],
    differences: Sequence[Difference],
    notes: Sequence[str],
) -> Table:
    """The differences between quantities of one kind."""
    tests = [_test_of(each) for each in differences if each.detectable is not None]
    shown = [each for each in differences if each.quantity.kind == kind]
    rows = _rows(shown)
    significant: dict[str, list[str]] = {}
    for each in shown:
        if each.is_significant:
            significant.setdefault(each.row, []).append(each.column)
    for row, names in significant.items():
        rows[row][DIFFERS] = Cell(value=", ".join(names))
    columns = [*dict.fromkeys(each.column for each in shown)]
    filled = {column for cells in rows.values() for column in cells}
    every = [each for column in columns for each in (column, f"{column}{CORRECTED}")]
    what = f"{DIFFERS}: significant" if significant else "None of these differences is significant"
    is_tested = any(each.detectable is not None for each in shown)
    name, title = _TABLES[kind]
    return Table(
        name=name,
        title=f"{title}: {runs[1].label if len(runs) == 2 else 'each run'} minus {runs[0].label}",
        columns=tuple(each for each in (*every, DIFFERS) if each in filled),
        rows=rows,
        notes=(
            *notes,
            *([f"{what} {_CORRECTION.format(n=len({*tests}))}"] if is_tested else []),
            *_power(shown, columns),
            *([ONCE] if len({*tests}) < len(tests) else []),
            *([NOTE] if any(each.corrected is not None for each in shown) else []),
            PAIRED,
            INTERVALS,
            *([CAUTIOUS] if any(len(each.quantity.columns) > 1 for each in shown) else []),
        ),
        signed=True,
    )


def _power(differences: Sequence[Difference], columns: Sequence[str]) -> Iterator[str]:
    tested = [each for each in differences if each.detectable is not None]
    sizes = [
        f"{two_digits(max(found))} in {column}"
        for column in columns
        if (found := [each.detectable or 0.0 for each in tested if each.column == column])
    ]
    if not all(each.is_significant for each in tested):
        yield f"True differences that every row finds with 80 % power: {', '.join(sizes)}."


def _by_judge(baseline: FinishedRun, differences: Sequence[Difference]) -> Table:
    """The differences in scores and changes by each of several judges alone, without tests."""
    shown = [each for each in differences if each.quantity.kind != "failure"]
    return Table(
        name=BY_JUDGE,
        title=f"By judge: differences from {baseline.label}",
        columns=tuple(dict.fromkeys(each.column for each in shown)),
        rows=_rows(shown),
        notes=(ALONE, PAIRED, INTERVALS),
        signed=True,
    )


def _within(differences: Iterable[Difference], margin: float) -> str:
    """The differences that are equivalent within a margin, by column."""
    found: dict[str, list[str]] = {}
    for each in differences:
        if each.test.is_within(margin / each.quantity.scale):
            found.setdefault(each.column, []).append(each.row)
    return "; ".join(f"{group}: {', '.join(rows)}" for group, rows in found.items()) or "none"
