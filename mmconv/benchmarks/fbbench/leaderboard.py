"""What a leaderboard shows of FB-Bench."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mmconv.benchmarks.fbbench.metrics import ALL_TASKS, COLUMNS
from mmconv.benchmarks.shared.leaderboard import (
    CANDIDATE_LABEL,
    Board,
    BoardPart,
    CellPlace,
    Tables,
)


def boards(_runs: Sequence[Tables]) -> Iterator[Board]:
    """All tasks."""
    columns = {
        name: CellPlace(
            table="scores", row=CANDIDATE_LABEL, column=name, quantity=(ALL_TASKS, f"{name} (%)")
        )
        for name in COLUMNS
    }
    yield Board(headline="overall", parts=[BoardPart(title="FB-Bench (%)", columns=columns)])
