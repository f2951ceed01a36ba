"""MT-Bench-101's quantities: tasks, abilities, groups, the average; by turn, by whose history.

A task is the mean of its dialogues; everything above is the plain mean of its tasks (paper, section
4.2). Here they are estimated, by our convention and by the authors'; `tables` lays them out.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

from judges.parsers.convbench import HIGHEST_RATING, LOWEST_RATING
from mmconv.benchmarks.mtbench101.scoring import AUTHORS, DIALOGUE, RATING
from mmconv.benchmarks.mtbench101.taxonomy import AVERAGE, MEANS, TASKS
from mmconv.stats import (
    Column,
    Quantity,
    ScoreFrame,
    bounded,
    measure,
    paired_difference,
    summarise,
)
from mmconv.values import Summary

How: TypeAlias = Literal["dialogue", "mean"]
"""A dialogue as its own score has it, or as the mean of its turns."""

RANGE = float(HIGHEST_RATING - LOWEST_RATING)
"""How far two ratings can lie apart."""

AUTHORS_DIGITS = 2
"""The authors' average is rounded to so many digits before it is printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """One line of results: a model under one condition, and the scores that it has."""

    name: str
    frame: ScoreFrame
    condition: str

    def select(self, metric: str, task: str, turn: int | None = None) -> Column:
        """One row per score."""
        return self.frame.select(metric=metric, condition=self.condition, task=task, turn=turn)

    def dialogues(self, task: str, how: How) -> Column:
        """One row per dialogue of the task."""
        if how == "mean":
            return self.select(RATING, task).per_sample("mean")
        return self.select(DIALOGUE, task)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that were judged at all."""
        return tuple(task for task in TASKS if len(self.select(DIALOGUE, task)))


def tasks_of(entrant: Entrant, name: str) -> tuple[str, ...]:
    """The judged tasks behind a quantity: the task itself, or those of a mean."""
    return tuple(task for task in entrant.tasks if task in MEANS.get(name, (name,)))


def estimate(entrant: Entrant, name: str, how: How) -> Summary:
    """A task, ability, group or the average with its interval; some task of it was judged."""
    mean = measure(mean_of_tasks(entrant, name, tasks_of(entrant, name), how))
    return bounded(mean, LOWEST_RATING, HIGHEST_RATING)


def mean_of_tasks(
    entrant: Entrant, name: str, tasks: Collection[str], how: How, group: str = ""
) -> Quantity:
    """The plain mean of some tasks, for a table and for a comparison of runs."""
    columns = {task: entrant.dialogues(task, how) for task in tasks}
    return Quantity(name=name, columns=columns, group=group, reach=RANGE, cautious=True)


def authors_dialogues(entrant: Entrant, task: str) -> Column:
    """One row per dialogue: the minimum of the turns that the authors' reading has a number for."""
    return entrant.select(AUTHORS, task).per_sample("min", partial=True)


def authors_score(entrant: Entrant, name: str) -> float | None:
    """A quantity by the authors' convention, None if no dialogue of it was read.

    Unread turns do not take part in a dialogue's minimum, unread dialogues in a task, unread tasks
    in a mean. Source: `get_final_results` in the authors' code, which rounds the average.
    """
    means = [_authors_task(entrant, task) for task in tasks_of(entrant, name)]
    found = [mean for mean in means if mean is not None]
    if not found:
        return None
    score = math.fsum(found) / len(found)
    return round(score, AUTHORS_DIGITS) if name == AVERAGE else score


def by_turn(entrant: Entrant, task: str, turn: int) -> Summary | None:
    """The mean rating of one turn over the dialogues that have it (paper, Figure 4)."""
    column = entrant.select(RATING, task, turn)
    return bounded(summarise(column), LOWEST_RATING, HIGHEST_RATING) if len(column) else None


def history_effect(golden: Entrant, own: Entrant, task: str, turn: int) -> Summary | None:
    """What one's own history changes at a turn, paired by dialogue (paper, Figure 6)."""
    columns = [entrant.select(RATING, task, turn) for entrant in (golden, own)]
    if not all(map(len, columns)):
        return None
    return bounded(paired_difference(*columns), -RANGE, RANGE)


def count_readings(entrant: Entrant, tasks: Collection[str], reading: str) -> int:
    """How many judgements of some tasks the authors read so, compared with us."""
    found = entrant.frame.select(
        metric=AUTHORS, condition=entrant.condition, task=tasks, reading=reading
    )
    return len(found)


def _authors_task(entrant: Entrant, task: str) -> float | None:
    values = [value for value in authors_dialogues(entrant, task).values if value is not None]
    return math.fsum(values) / len(values) if values else None
