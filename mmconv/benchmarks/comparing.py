"""Which quantities runs of a benchmark are compared by; a benchmark without its own has its means.

The functions named here hand out the columns and weights behind a benchmark's tables. What is
subtracted, and from what, is told in `mmconv.stats.contrasts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias, cast

from mmconv.benchmarks.registry import TITLES, find_part
from mmconv.config import RunSpec
from mmconv.stats import Quantity, ScoreFrame

ComparedQuantities: TypeAlias = Callable[[ScoreFrame, RunSpec], Iterator[Quantity]]
"""Takes the scores of a run and what was run.

Names do not depend on what else a run has: those of one condition are the same in a run of that
condition alone and in one of several.
"""


def find_quantities(benchmark: str) -> ComparedQuantities:
    """The function of a shipped benchmark, or `plain_means`."""
    if benchmark not in TITLES:
        return plain_means
    return cast("ComparedQuantities", find_part(benchmark, "compared:compared_quantities"))


def plain_means(frame: ScoreFrame, spec: RunSpec) -> Iterator[Quantity]:
    """The mean of every metric under every condition, turn by turn where there are turns.

    Where all of a run's values are 0 or 1 it is a share.
    """
    turns = (None, *frame.turns())
    for metric in frame.distinct("metric"):
        for condition in frame.distinct("condition"):
            for turn in turns:
                column = frame.select(metric=metric, condition=condition, turn=turn)
                if len(column):
                    name = metric if turn is None else f"{metric}, turn {turn}"
                    own = column.per_sample("mean")
                    shares = (name,) if own.is_binary else ()
                    yield Quantity(name=name, columns={name: own}, group=condition, shares=shares)
