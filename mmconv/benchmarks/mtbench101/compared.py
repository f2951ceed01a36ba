"""What runs of MT-Bench-101 are compared by: dialogues by task, and what one's own history changes.

Names and columns are those of `mmconv.benchmarks.mtbench101.quantities`.
"""

from __future__ import annotations

from collections.abc import Iterator

from mmconv.benchmarks.mtbench101.options import GOLDEN, SELF, MTBench101Options
from mmconv.benchmarks.mtbench101.quantities import RANGE, Entrant, How, mean_of_tasks, tasks_of
from mmconv.benchmarks.mtbench101.scoring import RATING
from mmconv.benchmarks.mtbench101.tables import MEAN_TITLE, MINIMUM_TITLE, QUANTITIES
from mmconv.benchmarks.mtbench101.taxonomy import TASKS
from mmconv.benchmarks.shared.options import read_options
from mmconv.config import RunSpec
from mmconv.stats import Quantity, ScoreFrame, pair

HISTORIES = "own history - golden"


def compared_quantities(frame: ScoreFrame, spec: RunSpec) -> Iterator[Quantity]:
    """The average, groups, abilities and tasks under each condition, then the histories' effect."""
    ways: dict[str, How] = {MEAN_TITLE: "mean"}
    if read_options(MTBench101Options, spec.options, spec.benchmark).minimum:
        ways = {MINIMUM_TITLE: "dialogue", **ways}
    entrants = {
        condition: Entrant(name=condition, frame=frame, condition=condition)
        for condition in frame.distinct("condition")
    }
    for condition, entrant in entrants.items():
        for title, how in ways.items():
            group = title if condition == GOLDEN else f"{title}, {condition} history"
            yield from _by_task(entrant, how, group)
    if {GOLDEN, SELF} <= entrants.keys():
        yield from _histories(entrants[GOLDEN], entrants[SELF])


def _by_task(entrant: Entrant, how: How, group: str) -> Iterator[Quantity]:
    for name in QUANTITIES:
        if tasks := tasks_of(entrant, name):
            yield mean_of_tasks(entrant, name, tasks, how, group)


def _histories(golden: Entrant, own: Entrant) -> Iterator[Quantity]:
    for task in TASKS:
        for turn in golden.frame.turns():
            given, made = (each.select(RATING, task, turn) for each in (golden, own))
            if len(given) and len(made):
                name = f"{task}, turn {turn}"
                yield Quantity(
                    name=name,
                    columns={name: pair(given, made)},
                    group=HISTORIES,
                    reach=2 * RANGE,
                    kind="change",
                )
