"""What the tables of ConvBench mean, in plain sentences for the page and for a terminal.

A sentence says no more than its interval allows. The numbers come from the tables `deltas`,
`attribution_net`, and of compared runs `differences`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from mmconv.benchmarks.convbench.quantities import DIRECT, PAIRWISE, Grading
from mmconv.report.page.display import number
from mmconv.values import Cell, Table

CLAIMS = {
    "S2_hat - S2": ("With perfect perception, reasoning", "reasoning comes from perception"),
    "S3_hat - S3": ("With perfect perception, creation", "creation comes from perception"),
    "S3_tilde - S3_hat": (
        "With perfect reasoning on top, creation",
        "creation comes from reasoning",
    ),
}
"""Delta -> how its sentence starts, and what a gain says of the errors without the given turn."""


def delta_sentences(tables: Iterable[Table]) -> tuple[str, ...]:
    """One sentence for each delta of a turn, by the first grading that has a value for it."""
    deltas = next((table for table in tables if table.name == "deltas"), None)
    return () if deltas is None else tuple(_sentences(deltas))


def _sentences(deltas: Table) -> Iterator[str]:
    for name, (start, meaning) in CLAIMS.items():
        row = deltas.rows.get(name, {})
        for grading in (DIRECT, PAIRWISE):
            cell = row.get(grading.title)
            if cell is not None and isinstance(cell.value, float):
                yield f"{start} {_gain_or_loss(cell, cell.value, grading, deltas, meaning)}"
                break


def _gain_or_loss(cell: Cell, value: float, grading: Grading, table: Table, meaning: str) -> str:
    unsigned = replace(table, signed=False)
    verb = "gains" if value > 0 else "loses"
    size = f"{number(abs(value), unsigned)} {_UNITS[grading.name]}"
    if cell.low is None or cell.high is None:
        if value == 0:
            return (
                f"stays as it is on average over {cell.n} samples (no interval: too few samples, "
                "or all alike)."
            )
        return f"{verb} {size} (no interval: too few samples, or all alike)."
    interval = f"95 % interval {number(cell.low, table)} to {number(cell.high, table)}"
    if cell.low <= 0 <= cell.high:
        samples = f"{cell.n} of {_all(cell)}" if any(cell.missing.values()) else cell.n
        return (
            f"{verb} {size} ({interval}): with {samples} samples, this cannot be told from chance."
        )
    if value > 0:
        return f"{verb} {size} ({interval}): part of what is wrong in {meaning}."
    return f"{verb} {size} ({interval}): what is given does not help this model."


_UNITS = {DIRECT.name: "points of 10", PAIRWISE.name: "percentage points of wins"}


def attribution_sentences(table: Table, column: str) -> tuple[str, ...]:
    """Which level the failures of each level are due to, from the table `attribution_net`."""
    found: dict[str, list[tuple[str, Cell]]] = {}
    for name, row in table.rows.items():
        level, due, blamed = name.partition(DUE)
        if due and column in row:
            found.setdefault(level, []).append((blamed, row[column]))
    return tuple(filter(None, (_blamed(level, cells, table) for level, cells in found.items())))


DUE = " failed: due to "
"""What stands in a row's name between the level that failed and the level that is blamed."""


def _blamed(level: str, cells: Sequence[tuple[str, Cell]], table: Table) -> str:
    """One level's sentence: "most" stands there only where the whole interval is above a half.

    Without an interval a net share of few failures may be anything, and is not told.
    """
    known = [each for each in cells if each[1].low is not None]
    if not known:
        return _too_few(level, cells[0][1])
    blamed, cell = max(known, key=_surely)
    whole = replace(table, digits=0)
    low, high = (number(end or 0.0, whole) for end in (cell.low, cell.high))
    source = f"{level} itself" if blamed == level else blamed
    followed = f"; {cell.n} of {_all(cell)} failures followed" if any(cell.missing.values()) else ""
    share = f"{number(_share(cell), whole)} % net (95 % interval {low} to {high} %{followed})"
    lowest, _ = _surely((blamed, cell))
    if not lowest:
        return (
            f"With {cell.n} failures in {level}, where they come from cannot be told from chance; "
            f"the largest share is that of {source}, {share}."
        )
    amount = "Most" if lowest > HALF else "Some"
    return f"{amount} failures in {level} come from {source}: {share}."


def _too_few(level: str, cell: Cell) -> str:
    failures = _all(cell)
    if failures == cell.n:
        many = "s" if failures > 1 else ""
        return f"{failures} failure{many} in {level}: too few to attribute."
    followed = cell.n or "none"
    return f"Of {failures} failures in {level}, {followed} could be followed: too few to attribute."


def _all(cell: Cell) -> int:
    """What a cell counts and what it lacks."""
    return (cell.n or 0) + sum(cell.missing.values())


HALF = 50.0
"""A net share in percent above which it is most of the failures."""


def _surely(blamed: tuple[str, Cell]) -> tuple[float, float]:
    """Shares that are surely above 0 go before others; among those the larger share does."""
    cell = blamed[1]
    return (0.0 if cell.low is None else max(cell.low, 0.0)), _share(cell)


def _share(cell: Cell) -> float:
    return cell.value if isinstance(cell.value, float) else 0.0


LEVELS_COMPARED = {
    "S1": "perception",
    "S2": "reasoning",
    "S3": "creation",
    "S0": "the whole conversation",
}
"""What is scored freely -> how a sentence about two runs names it."""


def comparison_sentences(table: Table, baseline: str, others: Sequence[str]) -> tuple[str, ...]:
    """How each run differs from the baseline where nothing is given, from the table `differences`.

    By the first grading that both have.
    """
    return tuple(filter(None, (_compared(table, baseline, other, others) for other in others)))


def _compared(table: Table, baseline: str, other: str, others: Sequence[str]) -> str:
    ending = "" if len(others) == 1 else f", {other}"
    for grading in (DIRECT, PAIRWISE):
        found = {
            level: row[grading.title]
            for name, level in LEVELS_COMPARED.items()
            if grading.title in (row := table.rows.get(f"{name}{ending}", {}))
            and isinstance(row[grading.title].value, float)
        }
        if found:
            parts = _differences(found, table, _UNITS[grading.name])
            return f"{other} against {baseline}, with nothing given: {'; '.join(parts)}."
    return ""


def _differences(found: Mapping[str, Cell], table: Table, unit: str) -> Iterator[str]:
    """First what differs, then what cannot be told, then what has no interval."""
    chance, unknown = [], []
    for level, cell in found.items():
        if cell.low is None or cell.high is None:
            unknown.append(level)
        elif cell.low <= 0 <= cell.high:
            chance.append(level)
        else:
            size = number(abs(_share(cell)), replace(table, signed=False))
            interval = f"95 % interval {number(cell.low, table)} to {number(cell.high, table)}"
            way = "higher" if _share(cell) > 0 else "lower"
            yield f"{level} is {size} {unit} {way} ({interval})"
    samples = max(cell.n or 0 for cell in found.values())
    if chance:
        what = (
            f"difference in {_listed(chance, 'or')}" if len(chance) < len(found) else "difference"
        )
        yield f"with {samples} samples, no {what} can be told from chance"
    if unknown:
        yield f"for {_listed(unknown, 'and')} there is no interval: too few samples, or all alike"


def _listed(names: Sequence[str], before_last: str) -> str:
    *most, last = names
    return f"{', '.join(most)} {before_last} {last}" if most else last
