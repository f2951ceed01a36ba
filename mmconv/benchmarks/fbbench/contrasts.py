"""What runs of FB-Bench are compared by: its scores over all tasks, and task by task.

Columns are those of `mmconv.benchmarks.fbbench.quantities`, the groups those of its main table.
"""

from __future__ import annotations

from collections.abc import Iterator

from mmconv.benchmarks.fbbench.options import MAINTENANCE
from mmconv.benchmarks.fbbench.quantities import PERCENT, Where, find_cells, tasks
from mmconv.benchmarks.fbbench.tables import QUANTITIES
from mmconv.stats import Quantity, ScoreFrame


def quantities(frame: ScoreFrame, candidate: str) -> Iterator[Quantity]:
    """Error correction, response maintenance and both together, of all tasks and of each."""
    places: dict[str, Where] = {"all tasks": {}} | {task: {"task": task} for task in tasks(frame)}
    for name, where in places.items():
        for group, scenarios in QUANTITIES.items():
            found = find_cells(frame, "score", scenarios, where)
            if found:
                columns = {f"{scenario}/{task}": each for (scenario, task), each in found.items()}
                yield Quantity(
                    name=name,
                    columns=columns,
                    weights=dict.fromkeys(columns, 1 / len(columns)),
                    group=f"{group} (%)",
                    scale=PERCENT,
                    share=len(columns) == 1 and scenarios == (MAINTENANCE,),
                )
