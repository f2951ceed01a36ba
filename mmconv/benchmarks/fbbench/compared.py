"""What runs of FB-Bench are compared by: its scores over all tasks, and task by task.

Quantities and their intervals are those of its tables, the groups those of the main one.
"""

from __future__ import annotations

from collections.abc import Iterator

from mmconv.benchmarks.fbbench.quantities import Where, macro_mean, tasks
from mmconv.benchmarks.fbbench.tables import QUANTITIES
from mmconv.core.config import RunSpec
from mmconv.stats import Quantity, ScoreFrame


def compared_quantities(frame: ScoreFrame, spec: RunSpec) -> Iterator[Quantity]:
    """Error correction, response maintenance and both together, of all tasks and of each."""
    places: dict[str, Where] = {"all tasks": {}} | {task: {"task": task} for task in tasks(frame)}
    for name, where in places.items():
        for group, scenarios in QUANTITIES.items():
            quantity = macro_mean(frame, scenarios, where, name=name, group=f"{group} (%)")
            if quantity is not None:
                yield quantity
