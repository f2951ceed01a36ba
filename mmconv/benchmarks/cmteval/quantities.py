"""CMT-Eval's quantities: which scores a cell is made of, by model and subset.

Estimates come from `mmconv.stats`, with intervals clustered by dialogue. How they are laid out is
told in `mmconv.benchmarks.cmteval.tables`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from judges.parsers.cmteval import HIGHEST, LOWEST
from mmconv.benchmarks.cmteval.fields import SUBSETS
from mmconv.core.types import Cell, Summary
from mmconv.stats import Column, Quantity, ScoreFrame, as_cell, bounded, combine, measure, summarise

OVERALL = "overall"
"""The plain mean of the subsets."""

RANGE = float(HIGHEST - LOWEST)
"""How far two scores can lie apart."""

WHOLE = 0
"""The turn number of a score that a whole dialogue has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A model's dialogues of one subset, the unit that every table is built on."""

    model: str
    subset: str

    @property
    def label(self) -> str:
        """What tables call it."""
        return f"{self.model}, {self.subset}"

    def column(
        self, frame: ScoreFrame, metric: str, *, turn: int | None = None, **where: str
    ) -> Column:
        """The scores of a metric there, a row per turn or, for turn 0, per dialogue."""
        return frame.select(metric=metric, turn=turn, model=self.model, subset=self.subset, **where)

    def by_dialogue(self, frame: ScoreFrame, metric: str) -> Column:
        """One row per dialogue: for a metric of turns, the mean of those that it has.

        A dialogue with a turn that has no value has none.
        """
        if metric in ("DLS", "DLS_min", "surplus"):
            return self.column(frame, metric, turn=WHOLE)
        return self.column(frame, metric).per_sample("mean")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Scores that share something: a metric, by turn or by dialogue, narrowed down by tags."""

    metric: str
    turn: int | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    act: str | None = None

    def column(self, frame: ScoreFrame, place: Place) -> Column:
        """Its scores of one model and subset; a turn with several speech acts is in each."""
        where: dict[str, str | tuple[str, ...]] = {**self.where}
        if self.act is not None:
            # the tag tells how often a label names the act, and a label may name it twice
            where[self.act] = frame.distinct(self.act)
        return frame.select(
            metric=self.metric, turn=self.turn, model=place.model, subset=place.subset, **where
        )

    def cells(self, frame: ScoreFrame, places: list[Place]) -> dict[str, Cell]:
        """A cell for each place that has scores, and for several models their plain mean."""
        columns = {place: self.column(frame, place) for place in places}
        there = {place: column for place, column in columns.items() if len(column)}
        cells = {place.label: on_scale(summarise(column)) for place, column in there.items()}
        for subset in _shared(places):
            models = {place.model: each for place, each in there.items() if place.subset == subset}
            if len(models) > 1:
                weights = dict.fromkeys(models, 1 / len(models))
                cells[mean_label(subset)] = on_scale(combine(models, weights))
        return cells


def find_places(frame: ScoreFrame, metric: str) -> list[Place]:
    """Every model with every subset that it has scores of, subsets in the paper's order."""
    places = [
        Place(model=model, subset=subset) for model in frame.distinct("model") for subset in SUBSETS
    ]
    return [place for place in places if len(place.column(frame, metric))]


def column_labels(places: list[Place]) -> tuple[str, ...]:
    """The columns of a table that has one per place, and the mean over several models."""
    return (*(place.label for place in places), *map(mean_label, _shared(places)))


def mean_label(subset: str) -> str:
    """What tables call the plain mean over models."""
    return f"mean over models, {subset}"


def overall(frame: ScoreFrame, metric: str, places: list[Place]) -> Cell:
    """The plain mean of the subsets' unrounded means (paper, Table 8), not weighted by size."""
    columns = {place.subset: place.by_dialogue(frame, metric) for place in places}
    return on_scale(measure(mean_of_subsets(columns)))


def mean_of_subsets(columns: Mapping[str, Column], group: str = "") -> Quantity:
    """The plain mean over subsets, for a table and for a comparison of runs."""
    return Quantity(name=OVERALL, columns=columns, group=group, reach=RANGE, cautious=True)


def on_scale(summary: Summary) -> Cell:
    """A mean of scores as a cell, its interval cut where the scale ends."""
    return as_cell(bounded(summary, LOWEST, HIGHEST))


def _shared(places: list[Place]) -> Iterator[str]:
    """The subsets that several models have."""
    for subset in SUBSETS:
        if sum(place.subset == subset for place in places) > 1:
            yield subset
