"""Which quantities runs of a benchmark are compared by; a benchmark without its own has its means.

The functions named here hand out the columns and weights behind a benchmark's tables. What is
subtracted, and from what, is described in `mmconv.stats.contrasts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias, cast

from mmconv.benchmarks.metrics import default_metrics, quantities
from mmconv.benchmarks.registry import CLASSES, TITLES, find_class, find_part
from mmconv.benchmarks.shared.endings import METRICS
from mmconv.benchmarks.shared.scoring import Scale, ends_of
from mmconv.core.config import RunSpec
from mmconv.stats import Quantity, ScoreFrame

_DESCRIBED: frozenset[str] = frozenset()
"""The benchmarks whose metrics say in what runs are compared."""

ComparedQuantities: TypeAlias = Callable[[ScoreFrame, RunSpec], Iterator[Quantity]]
"""Takes the scores of a run and what was run.

Names do not depend on what else a run has: those of one condition are the same in a run of that
condition alone and in one of several.
"""


def find_quantities(benchmark: str, scale: Scale = None) -> ComparedQuantities:
    """The function of a shipped benchmark, or `plain_means` on the scale of one's own."""
    if benchmark in CLASSES or benchmark not in TITLES:
        return partial(_of_class, benchmark, scale)
    return cast("ComparedQuantities", find_part(benchmark, "compared:compared_quantities"))


def _of_class(benchmark: str, scale: Scale, frame: ScoreFrame, spec: RunSpec) -> Iterator[Quantity]:
    """In the metrics of the class; if its code cannot be imported here, in the default ones."""
    try:
        yield from find_class(benchmark)(spec).quantities(frame)
    except ImportError:
        names = [name for name in frame.distinct("metric") if name not in METRICS]
        scales = {name: ends_of(scale, name) for name in names}
        metrics = default_metrics(frame, frame.distinct("condition"), scales, table="")
        yield from quantities(metrics, frame)


def _of_metrics(benchmark: str, frame: ScoreFrame, spec: RunSpec) -> Iterator[Quantity]:
    return quantities(find_part(benchmark, "metrics:metrics")(spec.options), frame)
