"""What a leaderboard shows of MT-Bench-101."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mmconv.benchmarks.mtbench101.metrics import MEAN_TITLE, MINIMUM_TITLE
from mmconv.benchmarks.mtbench101.options import SELF
from mmconv.benchmarks.mtbench101.taxonomy import AVERAGE, TASKS
from mmconv.benchmarks.shared.leaderboard import (
    Board,
    BoardPart,
    CellPlace,
    Tables,
)


def boards(runs: Sequence[Tables]) -> Iterator[Board]:
    """Each history, the golden one first."""
    yield _board(runs)
    yield _board(runs, SELF)


def _board(runs: Sequence[Tables], history: str = "") -> Board:
    """By the minimum of turns if all runs have it, else by the mean, which every run has."""
    after = f", {history} history" if history else ""
    scores = [tables["scores"] for tables in runs if "scores" in tables]
    minimum = all(any(MINIMUM_TITLE in name for name in table.columns) for table in scores)
    title = MINIMUM_TITLE if minimum else MEAN_TITLE

    def means(names: Iterable[str]) -> dict[str, CellPlace]:
        column = title + after
        return {
            name: CellPlace(table="scores", row=name, column=column, quantity=(name, column))
            for name in dict.fromkeys(names)
        }

    groups = BoardPart(
        title=f"MT-Bench-101 (1-10), {title}{after}",
        columns=means((AVERAGE, *(task.group for task in TASKS.values()))),
    )
    abilities = BoardPart(
        name="abilities",
        title=f"MT-Bench-101 (1-10) by ability, {title}{after}",
        columns=means(task.ability for task in TASKS.values()),
    )
    return Board(name=history, headline=AVERAGE, parts=(groups, abilities))
