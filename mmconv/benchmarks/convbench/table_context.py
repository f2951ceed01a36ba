"""What ConvBench's tables tell besides the scores."""

from __future__ import annotations

from dataclasses import dataclass

from mmconv.benchmarks.convbench.attribution import Thresholds
from mmconv.benchmarks.convbench.official import Convention


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext:
    """Who was judged and by whom, which conventions hold, and what every table notes."""

    candidate: str
    judge: str
    official: Convention
    failure: Thresholds
    notes: tuple[str, ...] = ()
