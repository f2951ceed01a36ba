"""What runs of ConvBench are compared by: the paper's quantities, its deltas, and failures.

Names and columns are those of `quantities` and `attribution`.
"""

from __future__ import annotations

from collections.abc import Iterator

from mmconv.benchmarks.convbench.attribution import Thresholds, failing, follow
from mmconv.benchmarks.convbench.quantities import (
    DELTAS,
    GRADINGS,
    MEANS,
    PAIRWISE,
    QUANTITIES,
    Grading,
    quantity_column,
)
from mmconv.config import RunSpec
from mmconv.stats import Column, Quantity, ScoreFrame, pair


def compared_quantities(frame: ScoreFrame, spec: RunSpec) -> Iterator[Quantity]:
    """R1, R2, S1 to S0_tilde, the deltas and what fails, as far as they were judged."""
    thresholds = Thresholds.chosen(spec.options)
    for grading in GRADINGS:
        names = (*MEANS, *QUANTITIES)
        columns = {name: quantity_column(frame, grading, name) for name in names}
        there = {name: each for name, each in columns.items() if len(each)}
        yield from _levels(grading, there)
        yield from _deltas(grading, there)
        yield from _failures(frame, grading, thresholds)


def _levels(grading: Grading, there: dict[str, Column]) -> Iterator[Quantity]:
    for name, found in there.items():
        if name in QUANTITIES or found.present.any():
            yield Quantity(
                name=name,
                columns={name: found},
                group=grading.title,
                scale=grading.scale,
                reach=grading.reach,
                shares=(name,) if grading is PAIRWISE and name not in MEANS else (),
            )


def _deltas(grading: Grading, there: dict[str, Column]) -> Iterator[Quantity]:
    for name, (start, goal) in DELTAS.items():
        if start in there and goal in there:
            yield Quantity(
                name=name,
                columns={name: pair(there[start], there[goal])},
                group=grading.title,
                scale=grading.scale,
                reach=2 * grading.reach,
                kind="change",
            )


def _failures(frame: ScoreFrame, grading: Grading, thresholds: Thresholds) -> Iterator[Quantity]:
    for each in failing(follow(frame, grading, thresholds.of(grading))):
        yield Quantity(
            name=each.name,
            columns={each.name: each.column},
            group=grading.failures,
            scale=100.0,
            reach=1.0 if each.is_share else 2.0,
            shares=(each.name,) if each.is_share else (),
            kind="failure",
        )
