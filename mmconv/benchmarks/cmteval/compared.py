"""What runs of CMT-Eval are compared by: its main table, by subset and over all of them.

Columns are those of `mmconv.benchmarks.cmteval.quantities`.
"""

from __future__ import annotations

from collections.abc import Iterator

from mmconv.benchmarks.cmteval.quantities import RANGE, find_places, mean_of_subsets
from mmconv.benchmarks.cmteval.tables import MAIN
from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.stats import Quantity, ScoreFrame


def compared_quantities(frame: ScoreFrame, spec: RunSpec) -> Iterator[Quantity]:
    """IS, Adp and DLS of each subset, and their plain mean where there are several."""
    candidate = spec.seats[CANDIDATE].label
    places = [place for place in find_places(frame, "TLS") if place.model == candidate]
    for title, metric in MAIN.items():
        columns = {place.subset: place.by_dialogue(frame, metric) for place in places}
        for subset, column in columns.items():
            yield Quantity(name=subset, columns={subset: column}, group=title, reach=RANGE)
        if len(columns) > 1:
            yield mean_of_subsets(columns, title)
