"""Which ratings by judges and by people are of the same unit: they become panels.

A unit is a sample with what else both sides distinguish: metric, condition, turn. What only one
side distinguishes must be chosen, so that nothing is mixed up in silence. Nothing is measured here:
that is `mmconv.stats.agreement.panel`.
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

_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """What a rater gave a sample, or None and why not.

    `where` it stands and the `tags` of a run's score are for messages.
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
    tags: Mapping[str, str] = field(default_factory=dict)


def require_fields(ratings: Sequence[Rating], **chosen: str | None) -> None:
    """Raise `ConfigError` where something is chosen by a field that no rating has."""
    for name, value in chosen.items():
        if value is not None and not distinct(name, ratings):
            there = [each for each in FIELDS if distinct(each, ratings)]
            raise ConfigError(
                f"--{name} {value}: no rating has a {name} to choose by; beside sample, rater and "
                f"value there is: {list_values(there)}"
            )


def choose(ratings: Iterable[Rating], **chosen: str | None) -> list[Rating]:
    """The ratings whose fields have the chosen values, or lack the field; None chooses nothing.

    Raises `ConfigError` with the known values if there are ratings and none matches.
    """
    every = list(ratings)
    wanted = {name: value for name, value in chosen.items() if value is not None}
    found = _having(every, wanted)
    if every and not found:
        named = ", ".join(f"{name} {value}" for name, value in wanted.items())
        offers = "; ".join(f"{name} {_offered(name, every, wanted)}" for name in wanted)
        raise ConfigError(f"no rating by {_raters_of(every)} has {named}; there are: {offers}")
    return found


def _having(ratings: Iterable[Rating], wanted: Mapping[str, str]) -> list[Rating]:
    return [
        rating
        for rating in ratings
        if all(getattr(rating, name) in (None, value) for name, value in wanted.items())
    ]


def _offered(name: str, ratings: Sequence[Rating], wanted: Mapping[str, str]) -> str:
    """A field's values among the ratings that have all else that is wanted, or among all."""
    others = {other: value for other, value in wanted.items() if other != name}
    return list_values(distinct(name, _having(ratings, others) or ratings))


def _raters_of(ratings: Sequence[Rating]) -> str:
    return list_values(distinct("rater", ratings))


def distinct(name: str, ratings: Iterable[Rating]) -> tuple[Any, ...]:
    """The values of a field in order of first appearance, None left out."""
    values = dict.fromkeys(getattr(rating, name) for rating in ratings)
    return tuple(value for value in values if value is not None)


def label(value: float | str) -> str:
    """A value as it is written: numbers without trailing zeros."""
    return value if isinstance(value, str) else f"{value:.15g}"


def list_values(values: Iterable[float | str]) -> str:
    """The first values by comma, and how many there are if not all are listed; "none" of none."""
    labels = [label(value) for value in values]
    more = f", ... ({len(labels)})" if len(labels) > _SHOWN else ""
    return ", ".join(labels[:_SHOWN]) + more or "none"


TIE = "tie"
"""The label of a tie, unless another one is named."""

_CULPRITS = 3
"""How many ratings are named that are not like the others."""

_Unit: TypeAlias = tuple[str | None, ...]
_Raters: TypeAlias = dict[str, dict[_Unit, Rating]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The units of one metric ("" where none is named) that a judge and a person rated.

    `unrated` counts those that judges rated and no person did; `later_trials`, those of them that
    are later trials of samples that people rated. Those of people alone are counted in the panel.
    """

    metric: str
    panel: Panel
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

    A sample that people write as 2.0 or 002 is the judge's 2, where it has no other like it.
    `tie` is the value of a tie; where it is None, the label `tie` is one. `level` None stands for
    ordinal, or for nominal where values are labels. Raises `InputError` where ratings of one unit
    cannot be distinguished, the two sides rate in different ways, or nothing matches.
    """
    human = _named_as_judged(judged, human)
    rated = [*filter(_is_rated, human)]
    scored = [*filter(_is_rated, judged)]
    if not scored or not rated:
        raise _odds(["sample"], scored, rated, "Nothing is left: choose fewer things.")
    shared = [name for name in FIELDS if distinct(name, judged) and distinct(name, human)]
    for name in FIELDS:
        if name not in shared:
            _refuse_several(name, judged, human)
    scale = _scale(judged, human, tie, level)
    metrics: list[str | None] = [None]
    if "metric" in shared:
        named = distinct("metric", rated)
        _refuse_unknown(named, distinct("metric", judged))
        metrics = [*named]
    matches = [
        _matched(choose(judged, metric=metric), choose(rated, metric=metric), shared, scale)
        for metric in metrics
    ]
    if all(np.isnan(each.panel.judges).all() for each in matches):
        raise _unmet(scored, rated, shared)
    return matches


def _named_as_judged(judged: Sequence[Rating], human: Sequence[Rating]) -> list[Rating]:
    """The ratings by people with the names that the judge's samples have, as far as that is sure.

    Programs that take a column with a gap for fractions write 2.0 for 2.
    """
    known = {each.sample for each in judged}
    alike: dict[str, list[str]] = {}
    for name in known:
        alike.setdefault(_bare(name), []).append(name)
    meant = {
        name: found[0]
        for name in {each.sample for each in human} - known
        if len(found := alike.get(_bare(name), [])) == 1
    }
    return [replace(each, sample=meant.get(each.sample, each.sample)) for each in human]


def _bare(sample: str) -> str:
    """A sample's name with its number as ConvBench has it, if it is one; without stray blanks."""
    key, trial = read_trial(sample.strip())
    number = re.fullmatch(r"0*([0-9]+)(\.0+)?", key.strip())
    return name_trial(number[1] if number else key.strip(), trial)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """How values become numbers: themselves, or the places of their labels if there are any."""

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
    given = distinct("value", judged), distinct("value", human)
    values = dict.fromkeys((*given[0], *given[1]))
    named = any(isinstance(value, str) for value in values)
    if named and not {*map(label, given[0])} & {*map(label, given[1])}:
        raise _odds(["value"], judged, human, "Write the same labels, or numbers, in all files.")
    if named:
        _refuse_mixed([*judged, *human], TIE if tie is None else tie)
    if named and level not in (None, "nominal"):
        raise ConfigError(f"--level {level}: {list_values(values)} are labels, which are nominal")
    labels = tuple(sorted({label(value) for value in values})) if named else ()
    scale = _Scale(labels=labels, tie=None, level=level or ("nominal" if named else "ordinal"))
    ties = [value for value in values if label(value) == (TIE if tie is None else tie)]
    if tie is not None and not ties:
        raise ConfigError(f"--tie {tie}: no rating has this value; there are {list_values(values)}")
    return replace(scale, tie=scale.number(ties[0]) if ties else None)


def _matched(
    judged: Sequence[Rating], rated: Sequence[Rating], shared: Sequence[str], scale: _Scale
) -> Match:
    judges, everybody = _by_rater(judged, shared), _by_rater(rated, shared)
    wanted = dict.fromkeys(unit for ratings in everybody.values() for unit in ratings)
    scored = {unit for ratings in judges.values() for unit in ratings if _is_rated(ratings[unit])}
    units = [unit for unit in wanted if unit in scored]
    met = {rater: given for rater, given in everybody.items() if scored & given.keys()}
    people = met or everybody
    ours = [_ratings_of(unit, judges) for unit in units]
    theirs = [_ratings_of(unit, people) for unit in units]
    panel = Panel(
        judges=_matrix(judges, units, scale),
        people=_matrix(people, units, scale),
        clusters=tuple(map(_cluster, ours, theirs)),
        unjudged=Counter(
            _why_unjudged(_ratings_of(unit, judges)) for unit in wanted if unit not in scored
        ),
        level=scale.level,
        ordered=not scale.labels,
        tie=scale.tie,
    )
    metric = next(iter(distinct("metric", (*rated, *judged))), "")
    unrated = scored - wanted.keys()
    return Match(
        metric=metric,
        panel=panel,
        unrated=len(unrated),
        later_trials=sum(_first_trial(unit) in wanted for unit in unrated),
    )


def _first_trial(unit: _Unit) -> _Unit | None:
    """The unit of the same sample in its first trial; None for one that is of the first."""
    sample, *others = unit
    trial = read_trial(sample or "")
    return (name_trial(trial.key), *others) if trial.number > 1 else None


def _matrix(raters: _Raters, units: Sequence[_Unit], scale: _Scale) -> Matrix:
    rows = [
        [scale.number(ratings[unit].value) if unit in ratings else math.nan for unit in units]
        for ratings in raters.values()
    ]
    return np.array(rows, dtype=np.float64)


def _by_rater(ratings: Iterable[Rating], shared: Sequence[str]) -> _Raters:
    """Rater -> unit -> rating; raises `DataError` where a rater rated a unit twice."""
    raters: _Raters = {}
    for rating in ratings:
        unit = _unit_of(rating, shared)
        before = raters.setdefault(rating.rater, {}).setdefault(unit, rating)
        if before is not rating:
            raise DataError(
                rating.where,
                [f"{rating.rater!r} rates {_unit_name(unit)} again, after {before.where}"],
                _told_apart(before, rating),
            )
    return raters


def _told_apart(one: Rating, other: Rating) -> str:
    """How to distinguish two ratings of a unit by one rater."""
    tags = [f"--tag {name}={value}" for name, value in one.tags.items() - other.tags.items()]
    if tags:
        return f"Of a run's scores choose some, as by {' '.join(sorted(tags))}."
    return (
        "Name the raters in a field rater, or distinguish the units by "
        f"{', '.join(FIELDS)} in all files."
    )


def _ratings_of(unit: _Unit, raters: _Raters) -> list[Rating]:
    return [ratings[unit] for ratings in raters.values() if unit in ratings]


def _cluster(ours: Sequence[Rating], theirs: Sequence[Rating]) -> str:
    """The dialogue that a unit belongs to: the one named first, or the sample."""
    named = (rating.cluster for rating in (*ours, *theirs) if rating.cluster)
    return next(named, theirs[0].sample)


def _is_rated(rating: Rating) -> bool:
    return rating.value is not None


def _why_unjudged(found: Sequence[Rating]) -> str:
    """Why no judge rated a unit that all judges left open."""
    return found[0].why if found else "no judgement"


def _refuse_mixed(ratings: Iterable[Rating], tie: str) -> None:
    """Refuse numbers among labels, or labels among numbers: the fewer are named.

    A tie may have a label among numbers, which then are names: model 1, model 2, tie.
    """
    given = [each for each in ratings if each.value is not None and label(each.value) != tie]
    labels = [each for each in given if isinstance(each.value, str)]
    numbers = [each for each in given if not isinstance(each.value, str)]
    if not (labels and numbers):
        return
    few, many = sorted((labels, numbers), key=len)
    kinds = ("label", "number") if few is labels else ("number", "label")
    problems = [f"{each.where}: value is {label(each.value or 0)}" for each in few[:_CULPRITS]]
    if len(few) > _CULPRITS:
        problems.append(f"... ({len(few)} {kinds[0]}s)")
    raise DataError(
        f"the values are of two kinds ({kinds[1]}s: {len(many)}, {kinds[0]}s: {len(few)})",
        problems,
        "Leave the cell empty if a rating is missing, write all labels as words, and name the "
        "label of a tie by --tie; if metrics differ in this, choose one with --metric.",
    )


def _refuse_several(name: str, judged: Sequence[Rating], human: Sequence[Rating]) -> None:
    """Refuse ratings that one side distinguishes by this field, and the other does not."""
    for side, ratings in (("judges", judged), ("people", human)):
        values = distinct(name, ratings)
        if len(values) > 1:
            raise ConfigError(
                f"the {side} rated several {name}s ({list_values(values)}), which the other files "
                f"do not distinguish: choose one with --{name}, or add a field {name} to them"
            )


def _refuse_unknown(metrics: Iterable[str], known: Iterable[str]) -> None:
    unknown = [metric for metric in metrics if metric not in {*known}]
    if unknown:
        raise ConfigError(
            f"people rated {list_values(unknown)}, which no judge did "
            f"(judges: {list_values(known)}): choose with --metric, or write the judge's names"
        )


def _unmet(judged: Sequence[Rating], rated: Sequence[Rating], shared: Sequence[str]) -> DataError:
    """How the units of judges and of people differ, if none are the same."""
    names = ("sample", *shared)
    differing = [name for name in names if not {*distinct(name, judged)} & {*distinct(name, rated)}]
    if differing:
        advice = f"A unit must have the same {' and '.join(differing)} in all files."
        return _odds(differing, judged, rated, advice)
    what = " / ".join(names)
    problems = [
        f"{side} rated these ({what}): {list_values(dict.fromkeys(units))}"
        for side, ratings in (("judges", judged), ("people", rated))
        for units in [[_unit_name(_unit_of(rating, shared)) for rating in ratings]]
    ]
    return DataError("judges and people do not meet", problems, "No unit is the same in all files.")


def _odds(
    names: Iterable[str], judged: Sequence[Rating], human: Sequence[Rating], advice: str
) -> DataError:
    problems = [
        f"{side} have these {name}s: {list_values(distinct(name, ratings))}"
        for name in names
        for side, ratings in (("judges", judged), ("people", human))
    ]
    return DataError("judges and people do not meet", problems, advice)


def _unit_of(rating: Rating, shared: Sequence[str]) -> _Unit:
    return (rating.sample, *(getattr(rating, name) for name in shared))


def _unit_name(unit: _Unit) -> str:
    return " / ".join(part for part in unit if part is not None)
