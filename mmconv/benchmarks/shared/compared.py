"""Which quantities runs of a benchmark are compared by; a benchmark without its own has its means.

The functions named here hand out the columns and weights behind a benchmark's tables. What is
subtracted, and from what, is told in `mmconv.stats.contrasts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf
from typing import TypeAlias, cast

from mmconv.benchmarks.metrics import quantities
from mmconv.benchmarks.registry import TITLES, find_part
from mmconv.benchmarks.shared.scoring import Scale, ends_of
from mmconv.core.config import RunSpec
from mmconv.stats import Column, Quantity, ScoreFrame

_DESCRIBED = frozenset({"convbench", "mtbench101"})
"""The benchmarks whose metrics say in what runs are compared."""

ComparedQuantities: TypeAlias = Callable[[ScoreFrame, RunSpec], Iterator[Quantity]]
"""Takes the scores of a run and what was run.

Names do not depend on what else a run has: those of one condition are the same in a run of that
condition alone and in one of several.
"""


def find_quantities(benchmark: str, scale: Scale = None) -> ComparedQuantities:
    """The function of a shipped benchmark, or `plain_means` on the scale of one's own."""
    if benchmark not in TITLES:
        return partial(plain_means, scale=scale)
    if benchmark in _DESCRIBED:
        return partial(_of_metrics, benchmark)
    return cast("ComparedQuantities", find_part(benchmark, "compared:compared_quantities"))


def _of_metrics(benchmark: str, frame: ScoreFrame, spec: RunSpec) -> Iterator[Quantity]:
    return quantities(find_part(benchmark, "metrics:metrics")(spec.options), frame)


def plain_means(frame: ScoreFrame, spec: RunSpec, scale: Scale = None) -> Iterator[Quantity]:
    """The `plain_mean` of every metric under every condition, turn by turn where there are turns.

    Those of all turns together are the numbers of the benchmark's own table.
    """
    turns = (None, *frame.turns())
    for metric in frame.distinct("metric"):
        for condition in frame.distinct("condition"):
            for turn in turns:
                scores = frame.select(metric=metric, condition=condition, turn=turn)
                if len(scores):
                    name = metric if turn is None else f"{metric}, turn {turn}"
                    yield plain_mean(scores, name, condition, ends_of(scale, metric))


def plain_mean(
    scores: Column, name: str, condition: str, ends: Sequence[float | None] | None
) -> Quantity:
    """The mean over samples of each one's mean score, so that every sample weighs alike.

    A sample that lacks one of its scores is missing. Where all scores are 0 or 1 it is a share,
    unless `ends`, those of the scale, are others; an infinite one is None in manifests.
    """
    is_share = scores.is_binary and (ends is None or tuple(ends) == (0, 1))
    lowest, highest = (0.0, 1.0) if is_share else ends or (None, None)
    return Quantity(
        name=name,
        columns={name: scores.per_sample("mean")},
        group=condition,
        reach=inf if lowest is None or highest is None else highest - lowest,
        shares=(name,) if is_share else (),
    )
