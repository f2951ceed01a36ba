"""Findings of ablations: the largest change, and the level that failures come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from statistics import NormalDist

from mmconv.benchmarks.ablations.metrics import (
    DELTAS,
    DUE,
    LADDERS,
    LEVELS,
    QUANTITIES,
    Grading,
)
from mmconv.benchmarks.base.corrections import CORRECTED
from mmconv.benchmarks.base.layouts import CONTROL, Rows, write_estimate
from mmconv.core.types import Cell
from mmconv.stats.contrasts import POWER


def largest_gain(rows: Rows) -> Iterator[str]:
    """Where perfect earlier turns change scores most, if that is not chance or the judge.

    Three changes are tested together, as three controls are. If none is significant, the size that
    would have been found in each of them. What people's labels show needs no control.
    """
    title = next((column for row in rows.values() for column in row), "")
    corrected = f"{title}{CORRECTED}"
    by_people = any(corrected in row for row in rows.values())
    unit = corrected if by_people else title
    gains = {
        name: cell
        for name, row in rows.items()
        if not name.startswith("S0") and (cell := _known(row.get(unit)))
    }
    changed = {name: cell for name, cell in gains.items() if is_one_of_three(cell)}
    sure = {
        name: cell
        for name, cell in changed.items()
        if by_people or not any(map(is_one_of_three, _controls(rows[name])))
    }
    if sure:
        name, cell = max(sure.items(), key=lambda item: abs(_value(item[1])))
        condition, turn = QUANTITIES[DELTAS[name][1]]
        change = f"{write_estimate(cell, signed=True)} in {unit}"
        yield f"Largest change: {LEVELS[turn]} with perfect {condition}, {change}."
    elif gains and not changed:
        least = max(map(_detectable, gains.values()))
        yield (
            "No turn changes significantly with perfect earlier turns; three changes are tested "
            f"together. A true change of {least:.2g} in {unit} is found with 80 % power."
        )


def causes(grading: Grading, rows: Rows) -> Iterator[str]:
    """From which level the failures come, as far as bounds, sampling error and controls allow.

    What people's labels show needs no control.
    """
    for level, (_, conditions) in LADDERS.items():
        shares = {cause: rows.get(f"{level}{DUE}{cause}", {}) for cause in conditions[1:]}
        by_people = {
            cause: cell
            for cause, row in shares.items()
            if (cell := _known(row.get(f"{grading.bounds.title}{CORRECTED}")))
        }
        if claims := [*islice(_claims(level, by_people, {}), 1)]:
            yield f"{claims[0].removesuffix('.')}, corrected by people."
            continue
        if any(is_one_of_three(row.get(grading.points.title)) for row in shares.values()):
            yield (
                f"Nothing is said of failures in {level}: verdicts also change where a right turn "
                "is replaced by a perfect one (control)."
            )
            continue
        bounds, fixed = (
            {cause: cell for cause, row in shares.items() if (cell := _known(row.get(title)))}
            for title in (grading.bounds.title, grading.fixed.title)
        )
        yield from islice(_claims(level, bounds, fixed), 1)


def _claims(level: str, bounds: Mapping[str, Cell], fixed: Mapping[str, Cell]) -> Iterator[str]:
    """What can be said of the failures in a level, the strongest first."""
    whole, part = (
        f"failures in {level} come from",
        f"Of the failures in {level} that perfect turns fix",
    )
    for cells, least, claim in (
        (bounds, 50.0, f"Most {whole}"),
        (fixed, 50.0, f"{part}, most come from"),
        (fixed, 0.0, f"{part}, some come from"),
        (bounds, 0.0, f"Some {whole}"),
    ):
        for cause, cell in sorted(cells.items(), key=lambda item: -_value(item[1])):
            if (cell.low or 0.0) > least:
                yield f"{claim} {cause}: {write_estimate(cell, unit='%')}."


def _controls(row: Mapping[str, Cell]) -> list[Cell]:
    """The controls of a row."""
    return [cell for column, cell in row.items() if column.startswith(CONTROL)]


def _known(cell: Cell | None) -> Cell | None:
    """The cell if it has a value and an interval."""
    is_known = cell is not None and isinstance(cell.value, float) and cell.low is not None
    return cell if is_known else None


def _is_sure(cell: Cell | None, wider: float = 1.0) -> bool:
    """Whether the interval of a change, this much wider, does not hold 0."""
    known = _known(cell)
    if known is None:
        return False
    low, high = known.low or 0.0, known.high or 0.0
    return abs(low + high) > wider * (high - low)


_OF_ONE, _OF_THREE = (NormalDist().inv_cdf(1 - 0.025 / tests) for tests in (1, 3))

is_one_of_three = partial(_is_sure, wider=_OF_THREE / _OF_ONE)
"""Whether a change or a control is not 0 at the 5 % level over the three of a run (Bonferroni)."""


def _detectable(cell: Cell) -> float:
    """The least true change that is found with 80 % power as one of three, by its interval."""
    half = ((cell.high or 0.0) - (cell.low or 0.0)) / 2
    return half * (_OF_THREE + POWER) / _OF_ONE


def _value(cell: Cell) -> float:
    return cell.value if isinstance(cell.value, float) else 0.0
