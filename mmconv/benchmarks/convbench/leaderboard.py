"""What a leaderboard shows of ConvBench."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mmconv.benchmarks.convbench.quantities import DELTAS, DUE, GRADINGS, LEVELS, QUANTITIES
from mmconv.benchmarks.shared.leaderboard import Board, BoardPart, CellPlace, Tables

_FREE = ("S1", "S2", "S3", "S0")
"""The quantities of the free setting."""


def boards(_runs: Sequence[Tables]) -> Iterator[Board]:
    """Scores, those with perfect earlier turns, deltas and net attribution, for each grading."""
    for grading in GRADINGS:

        def graded(
            table: str, names: Iterable[str], group: str = grading.title
        ) -> dict[str, CellPlace]:
            return {
                name: CellPlace(table=table, row=name, column=group, quantity=(name, group))
                for name in names
            }

        scores = BoardPart(
            title=f"ConvBench, {grading.title}",
            columns=graded("scores", ("R1", "R2", *_FREE)),
        )
        given = BoardPart(
            name="given",
            title=f"Scores with perfect earlier turns, {grading.title}",
            columns=graded("scores", (name for name in QUANTITIES if name not in _FREE)),
        )
        deltas = BoardPart(
            name="deltas",
            title=f"What perfect earlier turns change, {grading.title}",
            columns=graded("deltas", DELTAS),
            signed=True,
        )
        attribution = BoardPart(
            name="attribution",
            title=f"Which level failed creations come from, net (%), {grading.name}",
            columns={
                level: CellPlace(
                    table="attribution_net",
                    row=f"creation{DUE}{level}",
                    column=grading.failures,
                )
                for level in LEVELS.values()
            },
        )
        yield Board(name=grading.name, headline="R1", parts=(scores, given, deltas, attribution))
