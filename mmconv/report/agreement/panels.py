"""Panels: ratings by judges and by people, matched by unit.

A unit is a sample with what else both sides distinguish: metric, condition, turn. What only one
side distinguishes must be chosen. `mmconv.stats.agreement.panel` measures the agreement.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from mmconv.core.errors import ConfigError, DataError
from mmconv.core.plans import name_trial, read_trial
from mmconv.stats.agreement.many_raters import Level
from mmconv.stats.agreement.panel import Panel
from mmconv.stats.agreement.two_raters import Matrix

FIELDS = ("metric", "condition", "turn")
"""What distinguishes ratings of one sample, besides the rater."""

TIE = "tie"
"""The label of a tie, unless another one is named."""

_SHOWN = 8
"""How many values are listed."""

_EXAMPLES = 3
"""How many ratings of the wrong kind are listed."""

Unit: TypeAlias = tuple[str | None, ...]
Raters: TypeAlias = dict[str, dict[Unit, "Rating"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """A rater's value for a sample, or None with a reason.

    `where` (file and row) and the `tags` of a run's score are for messages. `run` is the name of
    the run's folder, if the file names it.
    """

    where: str
    sample: str
    rater: str
    value: float | str | None
    why: str = "no value"
    metric: str | None = None
    condition: str | None = None
    turn: str | None = None
    cluster: str | None = None
    run: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


def require_fields(ratings: Sequence[Rating], **chosen: str | None) -> None:
    """Raise `ConfigError` for a choice by a field that no rating has."""
    for name, value in chosen.items():
        if value is not None and not distinct(name, ratings):
            present = [field for field in FIELDS if distinct(field, ratings)]
            raise ConfigError(
                f"--{name} {value}: no rating has the field {name}; fields besides sample, rater "
                f"and value: {list_values(present)}"
            )


def choose(ratings: Iterable[Rating], **chosen: str | None) -> list[Rating]:
    """The ratings whose fields have the chosen values, or miss the field; None chooses nothing.

    Raises `ConfigError` with the known values if there are ratings and none matches.
    """
    every = list(ratings)
    values = {name: value for name, value in chosen.items() if value is not None}

    def matching(values: Mapping[str, str]) -> list[Rating]:
        return [
            rating
            for rating in every
            if all(getattr(rating, name) in (None, value) for name, value in values.items())
        ]

    matches = matching(values)
    if every and not matches:
        offers = []
        for name in values:
            # the values among the ratings that match all other choices
            others = {other: value for other, value in values.items() if other != name}
            offers.append(f"{name} {list_values(distinct(name, matching(others) or every))}")
        named = ", ".join(f"{name} {value}" for name, value in values.items())
        raters = list_values(distinct("rater", every))
        raise ConfigError(f"no rating by {raters} has {named}; there are: {'; '.join(offers)}")
    return matches


def distinct(name: str, ratings: Iterable[Rating]) -> tuple[Any, ...]:
    """The values of a field in order of first appearance, without None."""
    values = dict.fromkeys(getattr(rating, name) for rating in ratings)
    return tuple(value for value in values if value is not None)


def label(value: float | str) -> str:
    """A value as people write it: numbers without trailing zeros."""
    return value if isinstance(value, str) else f"{value:.15g}"


def list_values(values: Iterable[float | str]) -> str:
    """The first values, and how many there are if not all are listed; "none" without any."""
    labels = [label(value) for value in values]
    more = f", ... ({len(labels)})" if len(labels) > _SHOWN else ""
    return ", ".join(labels[:_SHOWN]) + more or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The units of one metric ("" without any) that a judge and a person rated.

    `unrated` counts those that only judges rated; of these, `later_trials` are later trials of
    samples that people rated. The panel counts those that only people rated. `judges` are the
    judges' names in the panel's order, `labels` what its numbers stand for, none for ratings.
    """

    metric: str
    panel: Panel
    judges: tuple[str, ...]
    labels: tuple[str, ...]
    unrated: int
    later_trials: int


def match(
    judged: Sequence[Rating],
    human: Sequence[Rating],
    *,
    tie: str | None = None,
    level: Level | None = None,
) -> list[Match]:
    """One panel for each metric that people rated.

    A person's sample 2.0 or 002 is the judge's 2, unless it may be another. `tie` is the value of a
    tie (None: the label `tie`). `level` None is nominal for labels, else ordinal. Raises
    `InputError` if ratings of one unit cannot be distinguished, the two sides use different kinds
    of values, or nothing matches.
    """
    human = name_as_judged(judged, human)
    rated, scored = ([r for r in ratings if r.value is not None] for ratings in (human, judged))
    if not scored or not rated:
        raise _unmatched(["sample"], scored, rated, "No rating is left; choose fewer things.")
    shared = [name for name in FIELDS if distinct(name, judged) and distinct(name, human)]
    for name in FIELDS:
        for side, ratings in (("judges", judged), ("people", human)):
            if name not in shared and len(values := distinct(name, ratings)) > 1:
                raise ConfigError(
                    f"the {side} rated several {name}s ({list_values(values)}), which the other "
                    f"files do not distinguish; choose one with --{name}, or add a field {name} to "
                    "them"
                )
    scale = _scale(judged, human, tie, level)
    metrics: Sequence[str | None] = (None,)
    if "metric" in shared:
        metrics = named = distinct("metric", rated)
        known = distinct("metric", judged)
        if unknown := [metric for metric in named if metric not in known]:
            raise ConfigError(
                f"people rated {list_values(unknown)}, which no judge did "
                f"(judges: {list_values(known)}); choose with --metric, or use the judge's names"
            )
    matches = [
        _match(choose(judged, metric=metric), choose(rated, metric=metric), shared, scale)
        for metric in metrics
    ]
    if all(np.isnan(match.panel.judges).all() for match in matches):
        names = ["sample", *shared]
        different = [n for n in names if not {*distinct(n, scored)} & {*distinct(n, rated)}]
        advice = f"A unit must have the same {' and '.join(different or names)} in all files."
        raise _unmatched(different, scored, rated, advice, shared)
    return matches


def _unmatched(
    names: Sequence[str],
    judged: Sequence[Rating],
    human: Sequence[Rating],
    advice: str,
    shared: Sequence[str] = (),
) -> DataError:
    """The error for two sides that share no value of these fields or, without any, no unit."""
    sides = (("judges", judged), ("people", human))
    problems = [
        f"{side} have these {name}s: {list_values(distinct(name, ratings))}"
        for name in names
        for side, ratings in sides
    ]
    if not names:
        for side, ratings in sides:
            units = dict.fromkeys(_unit_name(_unit_of(rating, shared)) for rating in ratings)
            fields = " / ".join(("sample", *shared))
            problems.append(f"{side} rated these ({fields}): {list_values(units)}")
    return DataError("judges and people rated different units", problems, advice)


def name_as_judged(judged: Sequence[Rating], human: Sequence[Rating]) -> list[Rating]:
    """The ratings by people with the names of the judge's samples, if they are clear.

    Programs that take a column with a gap for fractions write 2.0 for 2.
    """

    def bare(sample: str) -> str:
        """The name with its number as ConvBench has it, and without stray blanks."""
        key, trial = read_trial(sample.strip())
        number = re.fullmatch(r"0*([0-9]+)(\.0+)?", key.strip())
        return name_trial(number[1] if number else key.strip(), trial)

    known = {rating.sample for rating in judged}
    alike: dict[str, list[str]] = {}
    for name in known:
        alike.setdefault(bare(name), []).append(name)
    renamed = []
    for rating in human:
        names = alike.get(bare(rating.sample), [])
        is_clear = rating.sample not in known and len(names) == 1
        renamed.append(replace(rating, sample=names[0]) if is_clear else rating)
    return renamed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """How values become numbers: as they are, or by the places of their labels."""

    labels: tuple[str, ...]
    tie: float | None
    level: Level

    def number(self, value: float | str | None) -> float:
        if value is None:
            return math.nan
        return float(self.labels.index(label(value)) if self.labels else value)


def _scale(
    judged: Sequence[Rating], human: Sequence[Rating], tie: str | None, level: Level | None
) -> _Scale:
    ours, theirs = distinct("value", judged), distinct("value", human)
    values = dict.fromkeys((*ours, *theirs))
    is_nominal = any(isinstance(value, str) for value in values)
    if is_nominal and not {*map(label, ours)} & {*map(label, theirs)}:
        advice = "Use the same labels, or numbers, in all files."
        raise _unmatched(["value"], judged, human, advice)
    tie_label = TIE if tie is None else tie
    if is_nominal:
        _refuse_mixed([*judged, *human], tie_label)
    if is_nominal and level not in (None, "nominal"):
        raise ConfigError(f"--level {level}: {list_values(values)} are labels, which are nominal")
    labels = tuple(sorted({label(value) for value in values})) if is_nominal else ()
    scale = _Scale(labels=labels, tie=None, level=level or ("nominal" if is_nominal else "ordinal"))
    ties = [value for value in values if label(value) == tie_label]
    if tie is not None and not ties:
        raise ConfigError(f"--tie {tie}: no rating has this value; there are {list_values(values)}")
    return replace(scale, tie=scale.number(ties[0]) if ties else None)


def _refuse_mixed(ratings: Iterable[Rating], tie: str) -> None:
    """Raise `DataError` for numbers among labels, or labels among numbers.

    A tie may have a label among numbers, which then are names: model 1, model 2, tie.
    """
    labels: list[str] = []
    numbers: list[str] = []
    for rating in ratings:
        if rating.value is not None and label(rating.value) != tie:
            text = f"{rating.where}: value is {label(rating.value)}"
            (labels if isinstance(rating.value, str) else numbers).append(text)
    if not (labels and numbers):
        return
    few, many = sorted((("label", labels), ("number", numbers)), key=lambda kind: len(kind[1]))
    examples = few[1][:_EXAMPLES]
    if len(few[1]) > _EXAMPLES:
        examples.append(f"... ({len(few[1])} {few[0]}s)")
    raise DataError(
        f"the values are of two kinds ({many[0]}s: {len(many[1])}, {few[0]}s: {len(few[1])})",
        examples,
        "Leave the cell of a missing rating empty, write all labels as words, and name the label "
        "of a tie with --tie; if metrics differ in this, choose one with --metric.",
    )


def _match(
    judged: Sequence[Rating], rated: Sequence[Rating], shared: Sequence[str], scale: _Scale
) -> Match:
    judges, people = _by_rater(judged, shared), _by_rater(rated, shared)
    # every unit of people, with the ratings by judges
    units = {
        unit: [ratings[unit] for ratings in judges.values() if unit in ratings]
        for unit in dict.fromkeys(unit for ratings in people.values() for unit in ratings)
    }
    scored = {
        unit for ratings in judges.values() for unit in ratings if ratings[unit].value is not None
    }
    common = [unit for unit in units if unit in scored]
    unjudged = [units[unit] for unit in units if unit not in scored]
    people = {rater: r for rater, r in people.items() if scored & r.keys()} or people

    def matrix(raters: Raters) -> Matrix:
        rows = [
            [scale.number(r[unit].value) if unit in r else math.nan for unit in common]
            for r in raters.values()
        ]
        return np.array(rows, dtype=np.float64)

    def cluster(unit: Unit) -> str:
        """The dialogue that a unit belongs to, or else its sample."""
        ratings = [*units[unit], *(r[unit] for r in people.values() if unit in r)]
        return next((rating.cluster for rating in ratings if rating.cluster), str(unit[0]))

    def first_trial(unit: Unit) -> Unit | None:
        """The same unit in the first trial; None for a unit of the first trial."""
        trial = read_trial(unit[0] or "")
        return (name_trial(trial.key), *unit[1:]) if trial.number > 1 else None

    unrated = scored - units.keys()
    return Match(
        metric=next(iter(distinct("metric", (*rated, *judged))), ""),
        panel=Panel(
            judges=matrix(judges),
            people=matrix(people),
            clusters=tuple(map(cluster, common)),
            unjudged=Counter(r[0].why if r else "no judgement" for r in unjudged),
            level=scale.level,
            ordered=not scale.labels,
            tie=scale.tie,
        ),
        judges=tuple(judges),
        labels=scale.labels,
        unrated=len(unrated),
        later_trials=sum(first_trial(unit) in units for unit in unrated),
    )


def _by_rater(ratings: Iterable[Rating], shared: Sequence[str]) -> Raters:
    """Rater -> unit -> rating; raises `DataError` if a rater rated a unit twice."""
    raters: Raters = {}
    for rating in ratings:
        unit = _unit_of(rating, shared)
        before = raters.setdefault(rating.rater, {}).setdefault(unit, rating)
        if before is not rating:
            tags = sorted(f"--tag {n}={v}" for n, v in before.tags.items() - rating.tags.items())
            raise DataError(
                rating.where,
                [f"{rating.rater!r} rates {_unit_name(unit)} again, after {before.where}"],
                f"Choose some of the run's scores, for example with {' '.join(tags)}."
                if tags
                else "Name the raters in a field rater, or distinguish the units by "
                f"{', '.join(FIELDS)} in all files.",
            )
    return raters


def _unit_of(rating: Rating, shared: Sequence[str]) -> Unit:
    return (rating.sample, *(getattr(rating, name) for name in shared))


def _unit_name(unit: Unit) -> str:
    return " / ".join(part for part in unit if part is not None)
