"""Several judges of one run: each gives the same verdicts, and a score is their mean or median.

The first judge has the plan's own calls, each other one a copy of them. The scores of each judge
alone have the tag `judge`; tables, comparisons and rankings read the common ones, which have none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from statistics import fmean, median
from typing import Literal

import numpy as np

from mmconv.benchmarks.base.layouts import IF_MISSING, MEANING
from mmconv.benchmarks.base.metrics import mapped
from mmconv.benchmarks.base.results import Calls, Outcomes, Scale, ends_of
from mmconv.core.config import CANDIDATE, ModelSpec
from mmconv.core.errors import ConfigError
from mmconv.core.graph import change_parts
from mmconv.core.judges import JUDGE, judge_roles, list_labels
from mmconv.core.types import Call, Cell, Part, Ref, Score, Table
from mmconv.stats import ScoreFrame, as_cell, paired_difference, summarise_share
from mmconv.stats.repeats import of_both, summarise_kappa, summarise_reliability

CANDIDATE_AND_JUDGE: Mapping[str, str] = {
    CANDIDATE: "The model that is evaluated.",
    JUDGE: "The model that judges, or a list of them; not needed with generate_only.",
}
"""The model roles of most benchmarks."""


TAG = "judge"
"""The tag of the scores of one judge alone: its label."""

BY_JUDGE = "_by_judge"
"""The end of the names of tables with the numbers of each judge alone."""

AGREEMENT = "judges"

NOT_SCORED = "not scored by all judges"

NOTES = (
    "Same verdict: pass or fail at the benchmark's threshold. Kappa: the same beyond chance. "
    "Reliability: the intraclass correlation ICC(1,1) of the values, 1 if both judges always give "
    "the same. Second less first: above 0 the second judge gives more.",
    "All answers count, with their turns and conditions.",
)


def check_judges(models: Mapping[str, ModelSpec], offline: Collection[str]) -> None:
    """Raise `ConfigError` for several judges that cannot judge together.

    `offline` are providers with prompts of their own.
    """
    roles = judge_roles(models)
    labels = [models[role].label for role in roles]
    if repeated := sorted({each for each in labels if labels.count(each) > 1}):
        raise ConfigError(f"two judges are called {', '.join(repeated)}: set `name` in their files")
    kinds = {models[role].provider in offline for role in roles}
    if len(kinds) > 1 or any(models[role].is_reference for role in roles[1:]):
        raise ConfigError("a judge that is not a language model cannot judge with one that is")


def copy_calls(models: Iterable[str], calls: Sequence[Call]) -> Iterator[Call]:
    """The judge's calls for each other judge among the roles `models`."""
    judged = _judged(calls)
    for role in judge_roles(models)[1:]:
        copy = partial(_copy, role=role, judged=judged)
        yield from (call.changed(copy) for call in calls if call.model == JUDGE)


def _judged(calls: Iterable[Call]) -> frozenset[str]:
    """The ids of the first judge's calls, fallbacks included."""
    return frozenset(each.id for call in calls if call.model == JUDGE for each in call.attempts)


def _copy(call: Call, role: str, judged: Collection[str]) -> Call:
    """The call of another judge, which reads the copies of judgements in place of these."""

    def copied(part: Part) -> Part:
        if isinstance(part, Ref) and part.call in judged:
            return replace(part, call=f"{role}/{part.call}")
        return part

    messages = change_parts(call.messages, copied)
    return replace(call, id=f"{role}/{call.id}", model=role, messages=messages)


def split_calls(
    models: Mapping[str, ModelSpec], calls: Calls, outcomes: Outcomes
) -> dict[str, tuple[Calls, Outcomes]]:
    """The plan's own calls with the outcomes of each judge, by its label; without a judge once."""
    roles = judge_roles(models)
    if len(roles) < 2:
        return {models[role].label: (calls, outcomes) for role in roles} or {"": (calls, outcomes)}
    own = {name: call for name, call in calls.items() if call.model not in roles[1:]}
    judged = _judged(own.values())
    shared = {name: each for name, each in outcomes.items() if name not in judged}
    found: dict[str, tuple[Calls, Outcomes]] = {models[JUDGE].label: (own, outcomes)}
    for role in roles[1:]:
        copies = {name: outcomes[copy] for name in judged if (copy := f"{role}/{name}") in outcomes}
        found[models[role].label] = own, {**shared, **copies}
    return found


def combine_judges(
    by_judge: Mapping[str, Iterable[Score]], scale: Scale, how: Literal["mean", "vote"] = "mean"
) -> Iterator[Score]:
    """The mean of each score over the judges, or by vote the median, and the scores of each alone.

    A score that one judge lacks is missing. If other scores have a scale, one without it does not
    come from a judge. The scores of one judge are left as they are.

    Raises `ConfigError` for scores that have the tag of a judge already.
    """
    by_judge = {label: [*scores] for label, scores in by_judge.items()}
    if any(TAG in score.tags for scores in by_judge.values() for score in scores):
        raise ConfigError(
            f"scores cannot have the tag {TAG!r}: it names one of several judges; rename the tag"
        )
    if len(by_judge) == 1:
        yield from next(iter(by_judge.values()))
        return
    every = {label: {_place(each): each for each in scores} for label, scores in by_judge.items()}
    combine = median if how == "vote" else fmean
    first: dict[object, Score] = {}
    for scores in every.values():
        first = scores | first
    for place, score in first.items():
        absent = replace(score, value=None, why=NOT_SCORED)
        theirs = {label: scores.get(place, absent) for label, scores in every.items()}
        values = [each.value for each in theirs.values() if each.value is not None]
        why = next((each.why for each in theirs.values() if each.why is not None), None)
        yield replace(score, value=combine(values) if why is None else None, why=why)
        if not isinstance(scale, Mapping) or ends_of(scale, score.metric) is not None:
            for label, each in theirs.items():
                yield replace(each, tags={**each.tags, TAG: label})


def make_judge_tables(
    frame: ScoreFrame,
    tables: Sequence[Table],
    make: Callable[[ScoreFrame], Sequence[Table]],
    least_pass: Callable[[str], float | None],
    labels: Mapping[str, str],
) -> Iterator[Table]:
    """The agreement of several judges, and the numbers of each; `frame.judges` has their scores.

    `make` made the `tables` of the frame; `least_pass` is the least value of a score that passes.
    """
    if frame.judges:
        judged = frame.judges.values()
        least = {name: least_pass(name) for each in judged for name in each.distinct("metric")}
        yield _tabulate_agreement(frame.judges, least, labels)
        by_judge = {label: make(each) for label, each in frame.judges.items()}
        yield from _tabulate_judges(tables, by_judge)


def _tabulate_judges(
    tables: Sequence[Table], by_judge: Mapping[str, Sequence[Table]]
) -> Iterator[Table]:
    """The numbers of each judge alone, for each table in which they differ from their mean.

    The first one is printed. `by_judge` are the tables of each judge's scores.
    """
    others = {label: {each.name: each for each in made} for label, made in by_judge.items()}
    is_detail = False
    for table in tables:
        theirs = {label: made[table.name] for label, made in others.items() if table.name in made}
        if table.detail or all(each.rows == table.rows for each in theirs.values()):
            continue
        shown = [
            column for column in table.columns if column != MEANING and IF_MISSING not in column
        ]
        rows = {
            name: {
                f"{column}, {label}": cell
                for column in shown
                for label, each in theirs.items()
                if (cell := each.rows.get(name, {}).get(column)) is not None
            }
            for name in table.rows
        }
        filled = {column for row in rows.values() for column in row}
        every = [f"{column}, {label}" for column in shown for label in theirs]
        yield replace(
            table,
            name=f"{table.name}{BY_JUDGE}",
            title=f"By judge: {table.title}",
            columns=tuple(column for column in every if column in filled),
            rows=rows,
            notes=(),
            findings=(),
            axis=None,
            detail=is_detail,
        )
        is_detail = True


def _tabulate_agreement(
    judges: Mapping[str, ScoreFrame],
    thresholds: Mapping[str, float | None],
    labels: Mapping[str, str],
) -> Table:
    """How far each two judges agree on each score; `thresholds` are the least that passes."""
    rows = {
        f"{labels.get(metric, metric)}: {list_labels(pair)}": dict(
            _agreement(judges[pair[0]], judges[pair[1]], metric, least)
        )
        for metric, least in thresholds.items()
        for pair in combinations(judges, 2)
    }
    title = f"How far the judges agree: {list_labels([*judges])}"
    return Table.of(AGREEMENT, title, rows, notes=NOTES)


def _agreement(
    one: ScoreFrame, other: ScoreFrame, metric: str, least: float | None
) -> Iterator[tuple[str, Cell]]:
    # both have the same scores in the same order
    left, right = (each.select(metric=metric) for each in (one, other))
    names = tuple(map(str, range(len(left))))
    left, right = (replace(each, samples=names) for each in (left, right))
    if least is not None:
        one_passed, other_passed = (
            mapped(each, lambda value: float(value >= least)) for each in (left, right)
        )
        same = np.equal(one_passed.numbers, other_passed.numbers)
        alike = of_both(one_passed, other_passed, same)
        yield "same verdict (%)", as_cell(summarise_share(alike), 100.0, share=True)
        yield "kappa", as_cell(summarise_kappa(one_passed, other_passed))
    yield "reliability", as_cell(summarise_reliability(left, right))
    yield "second less first", as_cell(paired_difference(left, right), signed=True)


def _place(score: Score) -> object:
    return score.metric, score.turn, frozenset(score.tags.items())
