"""What the tables of ConvBench mean, in plain sentences for the page and for a terminal.

A sentence says no more than its interval allows. The numbers come from the tables `deltas`,
`attribution_net`, and of compared runs `differences` and `delta_differences`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from mmconv.benchmarks.convbench.quantities import DIRECT, DUE, FAILED, PAIRWISE, Grading
from mmconv.core.types import Cell, Table
from mmconv.report.page.grids import number
from mmconv.stats import FEWEST_CLUSTERS

CLAIMS = {
    "S2_hat - S2": ("With perfect perception, reasoning", "reasoning comes from perception"),
    "S3_hat - S3": ("With perfect perception, creation", "creation comes from perception"),
    "S3_tilde - S3_hat": (
        "With perfect reasoning on top, creation",
        "creation comes from reasoning",
    ),
}
"""Delta -> how its sentence starts, and what a gain says of the errors without the given turn."""


Keys: TypeAlias = Collection[tuple[str, str]]
"""Rows and columns of a table. Differences that are `equal`, the same for every sample, have no
interval."""


def delta_sentences(tables: Iterable[Table], equal: Keys | None = None) -> tuple[str, ...]:
    """One sentence for each delta of a turn, by the first grading that has a value for it.

    Without `equal` it is not told why one has no interval.
    """
    deltas = next((table for table in tables if table.name == "deltas"), None)
    return () if deltas is None else tuple(_sentences(deltas, equal))


def _sentences(deltas: Table, equal: Keys | None) -> Iterator[str]:
    for name, (start, meaning) in CLAIMS.items():
        row = deltas.rows.get(name, {})
        for grading in (DIRECT, PAIRWISE):
            cell = row.get(grading.title)
            if cell is not None and isinstance(cell.value, float):
                change = _gain_or_loss(cell, cell.value, grading, deltas)
                if cell.low is not None and round(cell.value, deltas.digits) == 0:
                    yield f"{start} stays as it is on average {_interval(cell, deltas)}."
                elif cell.low is None:
                    why = "" if equal is None else f": {_why_none((name, grading.title) in equal)}"
                    yield f"{start} {change} ({_n(cell)}; no interval{why})."
                else:
                    yield f"{start} {change} {_sureness(cell, deltas, meaning)}."
                break


def _why_none(equal: bool) -> str:
    """Why there is no interval; the scores of one image are a cluster."""
    return "every sample differs by the same" if equal else f"fewer than {FEWEST_CLUSTERS} images"


def _gain_or_loss(cell: Cell, value: float, grading: Grading, table: Table) -> str:
    if value == 0 and cell.low is None:
        return "stays as it is on average"
    size = number(abs(value), replace(table, signed=False))
    return f"{'gains' if value > 0 else 'loses'} {size} {_UNITS[grading.name]}"


def _sureness(cell: Cell, table: Table, meaning: str) -> str:
    """The interval, and what it lets one say."""
    low, high = cell.low or 0.0, cell.high or 0.0
    interval = _interval(cell, table)
    if low <= 0 <= high:
        return f"{interval}: with {_n(cell)}, this cannot be told from chance"
    if low > 0:
        return f"{interval}: part of what is wrong in {meaning}"
    return f"{interval}: what is given does not help this model"


def _interval(cell: Cell, table: Table) -> str:
    low, high = cell.low or 0.0, cell.high or 0.0
    return f"(95 % interval {number(low, table)} to {number(high, table)})"


_UNITS = {DIRECT.name: "points of 10", PAIRWISE.name: "percentage points of wins"}


def attribution_sentences(table: Table, column: str) -> tuple[str, ...]:
    """Which level the failures of each level are due to, from the table `attribution_net`."""
    found: dict[str, dict[str, Cell]] = {}
    for name, row in table.rows.items():
        level, due, blamed = name.partition(DUE)
        if due and column in row:
            found.setdefault(level, {})[blamed] = row[column]
    return tuple(_blamed(level, cells, table) for level, cells in found.items())


def count_failures(table: Table, column: str) -> str:
    """How many failures of each level the column's shares are of, for what shows shares alone."""
    levels: dict[str, Cell] = {}
    for name, row in table.rows.items():
        if column in row and row[column].low is not None:
            levels.setdefault(name.partition(DUE)[0], row[column])
    return ", ".join(f"{_of_all(cell)} in {level}" for level, cell in levels.items())


def no_failures(net: Table, failures: Table | None, column: str) -> tuple[str, ...]:
    """Of which levels nothing failed in a column, from `attribution_net`, which has no row of them.

    The table `failures` says over how many samples; runs of before have none.
    """
    rows = {} if failures is None else failures.rows
    failed = {name.partition(DUE)[0] for name, row in net.rows.items() if column in row}
    nothing = {
        level: row[column]
        for name, row in rows.items()
        if (level := name.removesuffix(FAILED)) != name
        and level not in failed
        and column in row
        and row[column].n
    }
    grading = column.removesuffix(" failures")
    return tuple(f"No {each} failed ({grading}, {_n(cell)})." for each, cell in nothing.items())


def _blamed(level: str, cells: Mapping[str, Cell], table: Table) -> str:
    """One level's sentence, which claims what the intervals bear: see `_claim`.

    Without an interval a net share of few failures may be anything, and is not told.
    """
    known = {blamed: cell for blamed, cell in cells.items() if cell.low is not None}
    if not known:
        return _too_few(level, next(iter(cells.values())))
    blamed = max(known, key=lambda each: _surely(known[each]))
    if not _surely(known[blamed])[0] and len(known) < len(cells):
        # the largest share may be one that is not told
        return f"{_chance(level)} ({_followed(known[blamed])})."
    others = [cell for other, cell in cells.items() if other != blamed]
    whole = replace(table, digits=0)
    claim = _claim(level, blamed, known[blamed], others)
    return f"{claim}{_size(level, blamed, known[blamed], whole)}."


def _claim(level: str, blamed: str, cell: Cell, others: Iterable[Cell]) -> str:
    """What may be said of the largest share.

    It is "most" where its whole interval is above a half and above those of the others, all of
    which are known, "some" where that is above 0.
    """
    source = f"{level} itself" if blamed == level else blamed
    lowest, _ = _surely(cell)
    if not lowest:
        return f"{_chance(level)}; the largest share is that of {source}: "
    above = all(other.high is not None and lowest > other.high for other in others)
    amount = "Most" if lowest > HALF and above else "Some"
    return f"{amount} failures in {level} come from {source}: "


def _chance(level: str) -> str:
    return f"Where failures in {level} come from cannot be told from chance"


def _size(level: str, blamed: str, cell: Cell, whole: Table) -> str:
    """The share with its interval and n; one of more than all failures is told as what it means."""
    counted = _followed(cell)
    value, low, high = (each or 0.0 for each in (_share(cell), cell.low, cell.high))
    # what is printed as 0 or 100 % is neither below nor above it
    below, over = low <= -HALF_UP, high >= ALL + HALF_UP
    if value < ALL + HALF_UP:
        start = "below 0" if below else number(low, whole)
        end = "over 100" if over else number(high, whole)
        beyond = [*(["below 0"] if below else []), *(["over 100 %"] if over else [])]
        means = f"stand{'s' if len(beyond) == 1 else ''} for failures that perfect turns add"
        harm = f"; {' and '.join(beyond)} {means}" if beyond else ""
        return f"{number(value, whole)} % net (95 % interval {start} to {end} %; {counted}{harm})"
    if blamed != level:
        return (
            f"perfect {blamed} takes away more than all of them, since the perfect turn before it "
            f"adds some ({counted})"
        )
    ends = " to ".join(_more_or_fewer(end - ALL, whole) for end in (low, high))
    added = _more_or_fewer(value - ALL, whole)
    return (
        f"perfect earlier turns take none of them away on balance, and with them there are {added} "
        f"(95 % interval {ends}; {counted})"
    )


def _more_or_fewer(percent: float, whole: Table) -> str:
    return f"{number(abs(percent), whole)} % {'fewer' if percent < 0 else 'more'}"


def _too_few(level: str, cell: Cell) -> str:
    failures = _all(cell)
    if failures == cell.n:
        many = "s" if failures > 1 else ""
        return f"{failures} failure{many} in {level}: too few to attribute."
    followed = cell.n or "none"
    return f"Of {failures} failures in {level}, {followed} could be followed: too few to attribute."


def _followed(cell: Cell) -> str:
    return f"{_of_all(cell)} failures{' followed' if any(cell.missing.values()) else ''}"


def _n(cell: Cell) -> str:
    """How many scores a cell is over, each trial's of a sample by itself."""
    return f"n = {_of_all(cell)}"


def _of_all(cell: Cell) -> str:
    """What a cell counts, of all where it lacks some."""
    return f"{cell.n} of {_all(cell)}" if any(cell.missing.values()) else str(cell.n)


def _all(cell: Cell) -> int:
    """What a cell counts and what it lacks."""
    return (cell.n or 0) + sum(cell.missing.values())


HALF, ALL = 50.0, 100.0
"""Net shares in percent: above the first it is most of the failures, above the second no part."""

HALF_UP = 0.5
"""From here on a share without decimals is rounded away from zero."""


def _surely(cell: Cell) -> tuple[float, float]:
    """Shares that are surely above 0 go before others; among those the larger share does."""
    return (0.0 if cell.low is None else max(cell.low, 0.0)), _share(cell)


def _share(cell: Cell) -> float:
    return cell.value if isinstance(cell.value, float) else 0.0


COMPARED = {
    "differences": (
        "with nothing given",
        {
            "S1": "perception",
            "S2": "reasoning",
            "S3": "creation",
            "S0": "the whole conversation",
        },
    ),
    "delta_differences": (
        "by what perfect turns change",
        {
            "S2_hat - S2": "the gain of reasoning by perfect perception",
            "S3_hat - S3": "the gain of creation by perfect perception",
            "S3_tilde - S3_hat": "the gain of creation by perfect reasoning on top",
        },
    ),
    "failure_differences": (
        "by how many samples fail",
        {
            f"creation{FAILED}": "the share of failed creations",
            f"creation{DUE}perception": "what comes from perception",
            f"creation{DUE}reasoning": "what comes from reasoning",
            f"creation{DUE}creation": "what comes from creation itself",
        },
    ),
}
"""Table of differences -> by what its sentence compares runs, and how that names its rows."""


def comparison_sentences(
    table: Table, labels: Sequence[str], significant: Keys, equal: Keys
) -> tuple[str, ...]:
    """How each run differs from the baseline, from one of the tables `COMPARED`.

    By the first grading that both have. Of the `labels` the first is the baseline's. What differs
    is what is `significant`, as in the table itself.
    """
    told = []
    baseline, *others = labels
    by_what, names = COMPARED[table.name]
    for other in others:
        ending = "" if len(others) == 1 else f", {other}"
        rows = {f"{name}{ending}": level for name, level in names.items()}
        if parts := "; ".join(_compared(table, rows, significant, equal)):
            told.append(f"{other} against {baseline}, {by_what}: {parts}.")
    return tuple(told)


_COLUMNS = {
    **{grading.title: _UNITS[grading.name] for grading in (DIRECT, PAIRWISE)},
    # a lost comparison is no error by itself, and of those nothing is said
    DIRECT.failures: "percentage points of the samples",
}
"""Column of differences -> the unit of its numbers, in the order in which one is chosen."""


def _compared(
    table: Table, rows: Mapping[str, str], significant: Keys, equal: Keys
) -> Iterator[str]:
    """The differences in the rows of the levels."""
    for column, unit in _COLUMNS.items():
        found = {
            level: cells[column]
            for row, level in rows.items()
            if column in (cells := table.rows.get(row, {}))
            and isinstance(cells[column].value, float)
        }
        if found:
            sure, same = (
                {level for row, level in rows.items() if (row, column) in keys}
                for keys in (significant, equal)
            )
            bare = {level: cell for level, cell in found.items() if cell.low is None}
            rest = {level: cell for level, cell in found.items() if cell.low is not None}
            yield from _differences(rest, sure, table, unit)
            yield from _without_intervals(bare, same)
            return


def _differences(
    found: Mapping[str, Cell], sure: Collection[str], table: Table, unit: str
) -> Iterator[str]:
    """First the levels that are `sure` to differ, then those that may do by chance."""
    chance: list[str] = []
    for level in sorted(found, key=lambda each: each not in sure):
        cell = found[level]
        low, high = cell.low or 0.0, cell.high or 0.0
        if level not in sure and low <= 0 <= high:
            chance.append(level)
            continue
        size = number(abs(_share(cell)), replace(table, signed=False))
        interval = f"95 % interval {number(low, table)} to {number(high, table)}"
        way = "higher" if _share(cell) > 0 else "lower"
        doubt = "" if level in sure else ", which may be chance among so many differences"
        yield f"{level} is {size} {unit} {way} ({interval}){doubt}"
    if chance:
        most = max(cell.n or 0 for cell in found.values())
        what = (
            f"difference in {_listed(chance, 'or')}" if len(chance) < len(found) else "difference"
        )
        yield f"with n = {most}, no {what} can be told from chance"


def _without_intervals(found: Collection[str], same: Collection[str]) -> Iterator[str]:
    """In the levels that are the `same`, every sample differs by as much."""
    without: dict[bool, list[str]] = {}
    for level in found:
        without.setdefault(level in same, []).append(level)
    for equal, levels in without.items():
        yield f"for {_listed(levels, 'and')} there is no interval: {_why_none(equal)}"


def _listed(names: Sequence[str], before_last: str) -> str:
    *most, last = names
    return f"{', '.join(most)} {before_last} {last}" if most else last
