"""Metrics and tables of scenes: ConvBench's, by level, and the level at which a model breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmconv.benchmarks.ablations.findings import causes, largest_gain
from mmconv.benchmarks.ablations.metrics import ladder
from mmconv.benchmarks.ablations.quantities import MEANINGS, QUANTITIES, Grading
from mmconv.benchmarks.base.layouts import Layout, Rows, write_estimate
from mmconv.benchmarks.base.metrics import (
    Group,
    Mean,
    Metric,
    Official,
    Select,
    endings_metrics,
    share,
)
from mmconv.core.types import Cell
from mmconv.stats import ScoreFrame

CHECKED = Grading(
    name="checked", metric="right", group=share("right (%)"), threshold=1.0, exact=True
)
OTHERS = {
    "share": ("scores", share("share right (%)")),
    "chance": ("scores", share("by guessing (%)")),
    "format": ("replies", share("format kept (%)")),
    "read": ("replies", share("readable (%)")),
}
"""Score -> the table and the column that show it."""
BREAKS = Group(title="below one half at level", lowest=1.0, highest=10.0)
NEVER = ">10"

RIGHT = (
    "Right: all facts of perception, the answer of reasoning, all rules of creation. Share right: "
    "of the facts or rules. An unreadable reply is not right."
)
BROKEN = (
    "The level at which the curve falls below one half. The curve is the best one that never rises "
    "with the level; the interval is from 1,000 resamples within levels."
)
EXACT = "A program checks every reply against the truth, so no judge errs."
SEED = 20_240_901


def metrics() -> Iterator[Metric]:
    """All metrics of a run."""
    yield from ladder(CHECKED)
    for name, (condition, turn) in QUANTITIES.items():
        if not turn:
            continue
        for score, (table, group) in OTHERS.items():
            of = Select(score, condition=condition, turn=turn)
            yield Mean(name, of=of, group=group, table=table, meaning=MEANINGS[name], compare=None)
        right = Select("right", condition=condition, turn=turn)
        meaning = MEANINGS[name]
        for table in ("levels", "families"):
            yield Mean(
                f"{name}, {meaning}", of=right, group=CHECKED.group, table=table, compare=None
            )
        compute = partial(breaking_level, condition=condition, turn=turn)
        yield Official(f"{name}, {meaning}", compute=compute, group=BREAKS, table="breaks")
    yield from endings_metrics("answers")
    for name in ("S1", "S2"):
        guessed = Select("chance", condition="free", turn=int(name[1]))
        yield Mean(name, of=guessed, group=share("guessed (%)"), table="guesses", compare=None)


def layouts(levels: Sequence[int]) -> Iterator[Layout]:
    """The tables in their order."""
    yield Layout("scores", "Scenes, answered by {candidate}", notes=(RIGHT, EXACT), digits=1)
    yield Layout("breaks", "Where {candidate} breaks", notes=(BROKEN,), findings=_breaks, digits=1)
    yield Layout(
        "levels",
        "Right answers by level (%)",
        columns={"level": tuple(map(str, levels))},
        column_label="level {level}",
        digits=0,
    )
    yield Layout(
        "families",
        "Right answers by family (%)",
        columns={"family": None},
        digits=0,
    )
    yield Layout("deltas", "What perfect earlier turns change", findings=largest_gain, digits=1)
    yield Layout(
        "attribution_net",
        "Which level the failures come from (%)",
        notes=(EXACT,),
        findings=partial(causes, CHECKED),
        digits=1,
    )
    yield Layout("replies", "How readable the replies of {candidate} are", digits=1, detail=True)
    yield Layout(
        "failures",
        "How many samples fail, and what the failures come from (% of samples)",
        detail=True,
    )
    yield Layout(
        "answers",
        "How the answers of {candidate} ended",
        rows={"condition": ("free", "perception", "reasoning"), "turn": None},
        row_label="{condition}, turn {turn}",
        columns="name",
        detail=True,
    )
    yield Layout(
        "guesses",
        "How often guesses are right, by family and level (%)",
        rows={"family": None},
        row_label="{family}, {name}",
        columns={"level": tuple(map(str, levels))},
        column_label="level {level}",
        digits=1,
        detail=True,
    )


def breaking_level(frame: ScoreFrame, *, condition: str, turn: int) -> Cell | None:
    """The level at which right answers fall below one half, with a 95 % interval.

    None for fewer than two levels. A model that never falls below is at `NEVER`.
    """
    by_level = {
        int(level): [
            value
            for value in frame.select(
                metric="right", condition=condition, turn=turn, level=level
            ).values
            if value is not None
        ]
        for level in frame.distinct("level")
    }
    levels = np.array(sorted(level for level, values in by_level.items() if values), dtype=float)
    if len(levels) < 2:
        return None
    counts = np.array([len(by_level[int(level)]) for level in levels])
    right = np.array([sum(by_level[int(level)]) for level in levels])
    draws = np.random.default_rng(SEED).binomial(counts, right / counts, (1000, len(levels)))
    crossings = [_crossing(levels, draw / counts, counts) for draw in draws]
    low, high = np.quantile(crossings, (0.025, 0.975))
    value = _crossing(levels, right / counts, counts)
    if value > levels[-1]:
        return Cell(value=NEVER, n=int(counts.sum()))
    return Cell(value=value, n=int(counts.sum()), low=float(low), high=min(float(high), 10.0))


def _crossing(
    levels: NDArray[np.float64], shares: NDArray[np.float64], weights: NDArray[np.int64]
) -> float:
    """Where the falling curve crosses one half; beyond the last level if it never does."""
    curve = _falling(shares, weights)
    if curve[0] < 0.5:
        return float(levels[0])
    below = np.flatnonzero(curve < 0.5)
    if not len(below):
        return float(levels[-1]) + 1.0
    at = int(below[0])
    part = (curve[at - 1] - 0.5) / (curve[at - 1] - curve[at])
    return float(levels[at - 1] + part * (levels[at] - levels[at - 1]))


def _falling(shares: NDArray[np.float64], weights: NDArray[np.int64]) -> NDArray[np.float64]:
    """The closest curve that never rises: neighbours that rise are pooled."""
    pools: list[list[float]] = []
    for share_, weight in zip(shares.tolist(), weights.tolist(), strict=True):
        pools.append([share_, weight, 1])
        while len(pools) > 1 and pools[-2][0] < pools[-1][0]:
            (one, heavy, some), (other, light, more) = pools[-2:]
            total = heavy + light
            pools[-2:] = [[(one * heavy + other * light) / total, total, some + more]]
    return np.repeat([pool[0] for pool in pools], [int(pool[2]) for pool in pools])


def _breaks(rows: Rows) -> Iterator[str]:
    """Where each turn of the free condition breaks."""
    cells = {
        MEANINGS[name]: rows.get(f"{name}, {MEANINGS[name]}", {}).get(BREAKS.title)
        for name in ("S1", "S2", "S3")
    }
    levels = [f"{name} {write_estimate(cell, most=1)}" for name, cell in cells.items() if cell]
    if levels:
        yield f"Level at which right answers fall below one half: {', '.join(levels)}."
