"""In which quantities runs of a benchmark are compared: those of its metrics."""

from __future__ import annotations

from collections.abc import Iterator

from mmconv.benchmarks.metrics import default_metrics, quantities
from mmconv.benchmarks.registry import find_class
from mmconv.benchmarks.shared.endings import METRICS
from mmconv.benchmarks.shared.scoring import Scale, ends_of
from mmconv.core.config import RunSpec
from mmconv.stats import Quantity, ScoreFrame


def find_quantities(frame: ScoreFrame, spec: RunSpec, scale: Scale = None) -> Iterator[Quantity]:
    """The quantities of a run with these scores, by the metrics of its benchmark.

    If the code of a user's benchmark cannot be imported here, by the default metrics on its scale.
    """
    try:
        yield from find_class(spec.benchmark)(spec).quantities(frame)
    except ImportError:
        names = [name for name in frame.distinct("metric") if name not in METRICS]
        scales = {name: ends_of(scale, name) for name in names}
        metrics = default_metrics(frame, frame.distinct("condition"), scales, table="")
        yield from quantities(metrics, frame)
