"""What CMT-Eval measures: scores by subset, TLS by speech act and strategy, DLS by persona.

A mean over dialogues takes each dialogue's mean over its turns. Overall is the plain mean of the
subsets, not weighted by their sizes (paper, Table 8).

The authors' own aggregation is `Official`: a turn that the judge left out counts 3, and a score off
the scale counts as it is. A cell's n counts the dialogues with any score by the judge. Those
without one enter the mean as 3 and are counted as missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from statistics import fmean, stdev
from typing import NamedTuple, TypeAlias

from judges.parsers.cmteval import DIMENSIONS, HIGHEST, LOWEST
from mmconv.benchmarks.base.layouts import Build, Layout
from mmconv.benchmarks.base.metrics import (
    ColumnOf,
    Group,
    Mean,
    MeanOf,
    Metric,
    Official,
    Select,
)
from mmconv.benchmarks.cmteval.data import ACTS, PATTERNS, STRATEGIES, SUBSETS
from mmconv.core.types import UNPARSED, Cell, Table
from mmconv.stats import Column, ScoreFrame

MISSING = "missing in the judgement"
DEFAULTED = (MISSING, UNPARSED)
"""The reasons for which the authors' script takes `AUTHORS_DEFAULT`."""

AUTHORS_DEFAULT = 3.0
"""The score of a turn, or of all turns, that the authors' script cannot read."""

MAIN = {"IS": "IS", "Adp": "Adp", "DLS": "DLS", "DLS by the lowest turn": "DLS_min"}
"""Column -> score of the main table."""

OVERALL = "overall"
MEAN = "Mean"
DEVIATION = "Standard Deviation"

PAPER: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    f"{subset} {name}": ((subset,), DIMENSIONS if name == "DLS" else (name,))
    for subset in SUBSETS
    for name in (*DIMENSIONS, "DLS")
} | {OVERALL: (SUBSETS, DIMENSIONS)}
"""Column of the paper's Table 8 -> the subsets and the scores that it is the mean of."""

SCORES_NOTES = (
    "Means over dialogues, of each dialogue's mean over its turns. The TLS of a turn is the mean "
    "of its IS and Adp, and the DLS of a dialogue is the mean of its TLS.",
    "Overall is the plain mean of the subsets that were judged. It has no interval if one of them "
    "has none.",
    "A dialogue with an unscored turn is missing, since its other turns may be easier and the "
    "lowest of fewer turns is higher. Its scored turns count by speech act and by strategy.",
)
CONVENTION = (
    f"As in the authors' scripts, a turn that the judge left out counts {AUTHORS_DEFAULT:g} and a "
    "score off the scale counts as it is. n counts dialogues with a score by the judge. Standard "
    "deviation: over all dialogues of all models."
)
COUNTS_NOTE = (
    "A label that names an act twice counts twice. The caption of the paper's Table 11 names "
    "Standard, but the table counts all three subsets."
)


def act_tag(act: str) -> str:
    """The tag of a turn's scores for a speech act; its value is how often the label names it."""
    return f"act {act}"


def metrics(models: Sequence[str]) -> Iterator[Metric]:
    """All metrics of these models; runs are compared in the means of the main table."""
    for title, score in MAIN.items():
        subsets = [
            Mean(name, of=Select(score, where={"subset": name}), group=_group(title))
            for name in SUBSETS
        ]
        yield from subsets
        yield MeanOf(OVERALL, of=subsets, group=_group(title), fewest=2)
    for act in ACTS.values():
        yield from _by_model(act, partial(_turns_with, act), "speech_acts", models)
    for score, table in (("TLS", "turns"), ("DLS", "dialogues")):
        yield from _by_model(score, Select(score, reduce="rows"), table, models)
    for model in models:
        yield from _paper_row(model, _mean_of_means, (model,))
    if len(models) > 1:
        yield from _paper_row(MEAN, _mean_of_means, models)
    yield from _paper_row(DEVIATION, _deviation, models)
    yield from _act_counts()


def _by_model(
    name: str, of: ColumnOf, table: str, models: Sequence[str]
) -> Iterator[Mean | MeanOf]:
    means = [
        Mean(model, of=partial(_of_model, of, model), group=_group(model), compare=None)
        for model in models
    ]
    yield from (replace(mean, name=name, table=table) for mean in means)
    group = _group("mean over models")
    yield MeanOf(name, of=means, group=group, table=table, fewest=2, compare=None)


def _of_model(of: ColumnOf, model: str, frame: ScoreFrame) -> Column:
    return of(frame.only(model=model))


def _group(title: str) -> Group:
    return Group(title=title, lowest=LOWEST, highest=HIGHEST)


def _turns_with(act: str, frame: ScoreFrame) -> Column:
    """The TLS of each turn with the act; a turn with several acts counts for each."""
    # the tag's value is how often the label names the act
    return Select("TLS", where={act_tag(act): frame.distinct(act_tag(act))}, reduce="rows")(frame)


class _Dialogues(NamedTuple):
    """A model's dialogues of one subset: the `values` that the authors' scripts give them.

    `judged` of them have a score by the judge. `missing` counts the reasons of the others, and of
    dialogues without a value.
    """

    values: list[float]
    judged: int
    missing: Counter[str]


_Reduce: TypeAlias = Callable[[Sequence[_Dialogues]], float | None]


def _paper_row(title: str, reduce: _Reduce, models: Sequence[str]) -> Iterator[Official]:
    """A row of the paper's Table 8, of these models; only a model has an overall score."""
    for name, (subsets, scores) in PAPER.items():
        if name != OVERALL or title not in (MEAN, DEVIATION):
            compute = partial(_paper_cell, reduce, [*product(models, subsets)], scores)
            yield Official(name, compute=compute, group=Group(title=title), table="paper_scores")


def _paper_cell(
    reduce: _Reduce, places: Sequence[tuple[str, str]], scores: Sequence[str], frame: ScoreFrame
) -> Cell | None:
    """One number of each model's dialogues of each subset; overall takes at least two subsets."""
    found = (_dialogues(frame, model, subset, scores) for model, subset in places)
    parts = [part for part in found if part is not None]
    if len(parts) < min(2, len({subset for _, subset in places})):
        return None
    missing = sum((part.missing for part in parts), Counter[str]())
    return Cell(value=reduce(parts), n=sum(part.judged for part in parts), missing=missing)


def _mean_of_means(parts: Sequence[_Dialogues]) -> float | None:
    """The plain mean of the parts' means; None if one has no value."""
    if not all(part.values for part in parts):
        return None
    return fmean(fmean(part.values) for part in parts)


def _deviation(parts: Sequence[_Dialogues]) -> float | None:
    """The sample standard deviation of all dialogues of all models, not of the models' means."""
    values = [value for part in parts for value in part.values]
    return stdev(values) if len(values) > 1 else None


def _dialogues(
    frame: ScoreFrame, model: str, subset: str, scores: Sequence[str]
) -> _Dialogues | None:
    """Each dialogue's mean of these scores, with the default for what the judge left out."""
    frame = frame.only(model=model, subset=subset)
    ours = Column.joined([frame.select(metric=name) for name in scores])
    if not len(ours):
        return None
    rows = [*zip(ours.samples, ours.reasons, strict=True)]
    scored = {sample for sample, reason in rows if reason not in DEFAULTED}
    unjudged: dict[str, str] = {}
    for sample, reason in rows:
        if sample not in scored and reason is not None:
            unjudged.setdefault(sample, reason)
    theirs = [frame.select(metric=f"authors_{name}").per_sample("mean") for name in scores]
    values = [
        fmean(row) for row in zip(*(each.values for each in theirs), strict=True) if None not in row
    ]
    taken = Counter(f"{reason} (taken as {AUTHORS_DEFAULT:g})" for reason in unjudged.values())
    return _Dialogues(values, len(values) - len(unjudged), taken + theirs[0].missing)


def _act_counts() -> Iterator[Official]:
    """How many turns have a speech act (paper, Table 11)."""
    places: dict[str, tuple[str, ...]] = {subset: (subset,) for subset in SUBSETS}
    for act, (name, subsets) in product(ACTS.values(), [*places.items(), ("all", SUBSETS)]):
        compute = partial(_count, act_tag(act), subsets)
        group = Group(title="turns")
        yield Official(f"{act}, {name}", compute=compute, group=group, table="speech_act_counts")


def _count(tag: str, subsets: tuple[str, ...], frame: ScoreFrame) -> Cell | None:
    """How often labels of one turn name the act. Models and trials repeat the same turns."""
    turns = {
        times: Select("TLS", where={"subset": subsets, tag: times}, reduce="rows")(frame)
        for times in frame.distinct(tag)
    }
    count = sum(int(times) * len({*column.clusters}) for times, column in turns.items())
    return Cell(value=float(count)) if count else None


def layouts(models: Sequence[str]) -> Iterator[Layout | Build]:
    """The tables of these models, in their order."""
    yield Layout(
        "scores",
        "CMT-Eval scores, judged by {judge}",
        rows={"model": models},
        row_label="{model}, {name}",
        notes=SCORES_NOTES,
    )
    yield Layout(
        "paper_scores",
        "The paper's Table 8, by the authors' conventions",
        rows="group",
        columns="name",
        notes=(CONVENTION,),
    )
    yield from _breakdowns(models)
    yield Layout(
        "speech_act_counts",
        "Turns by speech act",
        columns={"turn": None},
        column_label="turn {turn}",
        notes=(COUNTS_NOTE,),
        digits=0,
        detail=True,
    )
    yield _judgements
    ended = {"model": models, "subset": SUBSETS}
    yield Layout("replies", "How the replies ended", of="answers", rows=ended, columns="name")


def _breakdowns(models: Sequence[str]) -> Iterator[Layout]:
    split = partial(
        Layout,
        columns={"subset": SUBSETS},
        column_label="{group}, {subset}",
        notes=("In a mean over models n counts dialogues.",) if len(models) > 1 else (),
    )
    yield split("speech_acts", "TLS by speech act")
    yield split(
        "speech_acts_by_turn",
        "TLS by speech act and turn",
        of="speech_acts",
        rows={"turn": None},
        row_label="{name}, turn {turn}",
        detail=True,
    )
    yield split("personas", "DLS by user persona", of="dialogues", rows={"persona": None})
    strategies = {"strategy": (*STRATEGIES.values(), "none")}
    yield split("strategies", "TLS by challenge strategy", of="turns", rows=strategies)
    patterns = {"pattern": tuple(PATTERNS.values())}
    yield split("patterns", "DLS by speech act pattern", of="dialogues", rows=patterns)


def _judgements(frame: ScoreFrame) -> Table:
    """What the judge left out, merged, or scored although the dialogue has no such turn."""
    rows = {}
    for model, subset in product(frame.distinct("model"), SUBSETS):
        part = frame.only(model=model, subset=subset)
        turns, merged, surplus = (part.select(metric=name) for name in ("TLS", "merged", "surplus"))
        if not len(turns):
            continue
        complete, judged = (
            int(turns.per_sample("mean", partial=is_partial).present.sum())
            for is_partial in (False, True)
        )
        counts = {
            "dialogues": len(surplus),
            "dialogues scored in part": judged - complete,
            "dialogues not scored": len(surplus) - judged,
            "turns": len(turns),
            "scored turns": int(turns.present.sum()),
            "merged turns": _total(merged),
            "dialogues with merged turns": _total(merged.per_sample("max", partial=True)),
            "turns scored that are not there": _total(surplus),
        }
        cells = {name: Cell(value=float(count)) for name, count in counts.items()}
        cells["scored turns"] = replace(cells["scored turns"], missing=turns.missing)
        rows[f"{model}, {subset}"] = cells
    return Table.of("judgements", "What the judge scored", rows, digits=0)


def _total(column: Column) -> float:
    return sum(value for value in column.values if value is not None)
