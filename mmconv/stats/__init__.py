"""Our own estimates, computed alike for every benchmark: means, shares, differences, intervals.

A `ScoreFrame` keeps scores compactly and hands out `Column`s; the estimates read columns and
return `mmconv.core.types.Summary`. The authors' official aggregations are not here but in
`mmconv.benchmarks`, how far raters agree is in `mmconv.stats.agreement`; nothing is printed here.
"""

from mmconv.stats.column import Column
from mmconv.stats.contrasts import Contrast, Kind, Quantity, contrast, holm
from mmconv.stats.estimates import (
    FEWEST_CLUSTERS,
    INTERVALS,
    adjust,
    as_cell,
    average,
    bounded,
    note_intervals,
    pair,
    paired_difference,
    summarise,
    summarise_share,
    summarise_share_change,
)
from mmconv.stats.frame import ScoreFrame
from mmconv.stats.ratios import summarise_ratio

__all__ = [
    "FEWEST_CLUSTERS",
    "INTERVALS",
    "Column",
    "Contrast",
    "Kind",
    "Quantity",
    "ScoreFrame",
    "adjust",
    "as_cell",
    "average",
    "bounded",
    "contrast",
    "holm",
    "note_intervals",
    "pair",
    "paired_difference",
    "summarise",
    "summarise_ratio",
    "summarise_share",
    "summarise_share_change",
]
