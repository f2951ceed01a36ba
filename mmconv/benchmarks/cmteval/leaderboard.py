"""What a leaderboard shows of CMT-Eval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mmconv.benchmarks.cmteval.data import SUBSETS
from mmconv.benchmarks.cmteval.metrics import MAIN, OVERALL
from mmconv.benchmarks.shared.leaderboard import (
    CANDIDATE_LABEL,
    Board,
    BoardPart,
    CellPlace,
    Tables,
)


def boards(_runs: Sequence[Tables]) -> Iterator[Board]:
    """All subsets together, then each."""
    return map(_board, (OVERALL, *SUBSETS))


def _board(subset: str) -> Board:
    columns = {
        title: CellPlace(
            table="scores",
            row=f"{CANDIDATE_LABEL}, {subset}",
            column=title,
            quantity=(subset, title),
        )
        for title in MAIN
    }
    parts = [BoardPart(title=f"CMT-Eval, {subset}", columns=columns)]
    return Board(name=subset, headline="DLS", parts=parts)
