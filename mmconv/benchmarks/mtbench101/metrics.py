"""What MT-Bench-101 measures: tasks, abilities, groups and their average; turns and histories.

A task is the mean of its dialogues; everything above is the plain mean of its tasks (paper, section
4.2). The authors' own reading of the same judgements has columns of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from judges.parsers.convbench import HIGHEST_RATING, LOWEST_RATING
from mmconv.benchmarks.layouts import Build, Context, Layout, make_tables
from mmconv.benchmarks.metrics import (
    Delta,
    Group,
    Mean,
    MeanOf,
    Metric,
    Official,
    Select,
    endings_metrics,
)
from mmconv.benchmarks.mtbench101.options import GOLDEN, SELF
from mmconv.benchmarks.mtbench101.scoring import (
    AUTHORS,
    DIALOGUE,
    NEITHER,
    ONLY_AUTHORS,
    OTHER,
    OUT_OF_RANGE,
    RATING,
)
from mmconv.benchmarks.mtbench101.taxonomy import AVERAGE, MEANS, TASKS
from mmconv.core.types import UNPARSED, Cell, Table
from mmconv.stats import Column, ScoreFrame

AUTHORS_DIGITS = 2
"""The authors' average is rounded to so many digits before it is printed."""

MOST_TURNS = 20
"""Histories are compared up to this turn; the authors' dialogues have at most 7."""

AUTHORS_TITLE = "authors: first [n], unread turns dropped"
MEAN_TITLE = "mean of turns"
MINIMUM_TITLE = "minimum of turns"
HISTORIES = "own history - golden"
HISTORY_TITLES = {GOLDEN: "", SELF: f", {SELF} history"}
"""Condition -> what the titles of its numbers end with."""

CONVENTION = (
    "Our reading takes the last “Rating: [[n]]” with a whole n, and a dialogue with an unscored "
    "turn is not scored. The authors take the first [n] anywhere, of any size, and drop unread "
    "turns before the minimum; only the average is rounded."
)
MEANS_NOTE = (
    "Average, groups and abilities are plain means of the tasks that were judged. They have no "
    "interval if one of these tasks has none."
)

_MEANINGS = {name: task.name for name, task in TASKS.items()} | {
    name: "mean of all tasks" if name == AVERAGE else f"mean of {', '.join(parts)}"
    for name, parts in MEANS.items()
}


def metrics(options: Mapping[str, Any]) -> Iterator[Metric]:
    """All metrics of a run with these options; a run has a part of them."""
    minimum = options.get("minimum", True)
    for condition, after in HISTORY_TITLES.items():
        ways = {MEAN_TITLE: Select(RATING, condition=condition)}
        if minimum:
            ways = {MINIMUM_TITLE: Select(DIALOGUE, condition=condition, reduce="rows"), **ways}
        for title, select in ways.items():
            yield from _means(select, _group(f"{title}{after}"))
        for name in (*MEANS, *TASKS):
            yield Official(
                name,
                compute=AuthorsScore(name=name, condition=condition),
                group=Group(title=f"{AUTHORS_TITLE}{after}"),
                meaning=_MEANINGS[name],
            )
    yield Mean(
        RATING,
        of=Select(RATING, reduce="rows"),
        group=_group("rating (1-10)"),
        table="turns",
        compare=None,
    )
    yield _history_effect(HISTORIES, table="histories")
    for task in TASKS:
        for turn in range(1, MOST_TURNS + 1):
            yield _history_effect(f"{task}, turn {turn}", turn=turn, where={"task": task})
    yield from endings_metrics("answers")


def _history_effect(
    name: str, *, table: str = "", turn: int | None = None, where: Mapping[str, str] | None = None
) -> Delta:
    """What the candidate's own history changes, paired by dialogue (paper, Figure 6)."""
    golden, own = (
        Mean(
            name,
            of=Select(RATING, condition=condition, turn=turn, where={**(where or {})}),
            group=_group(condition),
        )
        for condition in (GOLDEN, SELF)
    )
    return Delta(
        name,
        start=golden,
        goal=own,
        group=_group(HISTORIES),
        table=table,
        # runs are compared turn by turn, as the paper shows it
        compare=None if turn is None else "change",
    )


def _group(title: str) -> Group:
    return Group(title=title, lowest=LOWEST_RATING, highest=HIGHEST_RATING)


def _means(select: Select, group: Group) -> Iterator[Metric]:
    tasks = {
        task: Mean(
            task, of=replace(select, where={"task": task}), group=group, meaning=_MEANINGS[task]
        )
        for task in TASKS
    }
    for name, parts in MEANS.items():
        of = [tasks[part] for part in parts]
        yield MeanOf(name, of=of, group=group, meaning=_MEANINGS[name])
    yield from tasks.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorsScore:
    """A quantity by the authors' convention, with the dialogues of all its tasks.

    Unread turns do not take part in a dialogue's minimum, unread dialogues in a task, unread tasks
    in a mean. Source: `get_final_results` in the authors' code, which rounds the average.
    """

    name: str
    condition: str

    def __call__(self, frame: ScoreFrame) -> Cell | None:
        """The score; None if no dialogue of its tasks was judged."""
        columns = [self._dialogues(frame, task) for task in MEANS.get(self.name, (self.name,))]
        columns = [column for column in columns if len(column)]
        if not columns:
            return None
        dialogues = Column.joined(columns)
        return Cell(
            value=self._score(columns), n=int(dialogues.present.sum()), missing=dialogues.missing
        )

    def _dialogues(self, frame: ScoreFrame, task: str) -> Column:
        """The least turn that the authors' reading has a number for, per dialogue."""
        where = {"task": task}
        return Select(AUTHORS, condition=self.condition, where=where, reduce="min", partial=True)(
            frame
        )

    def _score(self, columns: Sequence[Column]) -> float | None:
        found = [column.numbers[column.present].tolist() for column in columns]
        means = [math.fsum(values) / len(values) for values in found if values]
        if not means:
            return None
        score = math.fsum(means) / len(means)
        return round(score, AUTHORS_DIGITS) if self.name == AVERAGE else score


def build_tables(
    frames: Mapping[str, ScoreFrame], options: Mapping[str, Any], context: Context
) -> list[Table]:
    """All tables that the scores of each candidate have something for."""
    arranged = layouts(context, minimum=options.get("minimum", True), gaps=[*_gaps(frames)])
    return make_tables(arranged, [*metrics(options)], frames, context)


def _gaps(frames: Mapping[str, ScoreFrame]) -> Iterator[str]:
    for candidate, frame in frames.items():
        judged = sum(len(frame.select(metric=DIALOGUE, task=task)) > 0 for task in TASKS)
        if 0 < judged < len(TASKS):
            yield f"{candidate}: {judged} of {len(TASKS)} tasks were judged; means are over those."


def layouts(
    context: Context, *, minimum: bool, gaps: Sequence[str] = ()
) -> Iterator[Layout | Build]:
    """The tables in their order; `gaps` say which candidates were not judged in all tasks."""
    yield Layout(
        "scores",
        f"MT-Bench-101 scores of {context.candidate} (1-10), judged by {context.judge}",
        notes=(CONVENTION, MEANS_NOTE, *gaps),
    )
    yield from _papers(MINIMUM_TITLE if minimum else MEAN_TITLE, (CONVENTION, *gaps))
    turns = {"turn": None}
    for condition, after in HISTORY_TITLES.items():
        yield Layout(
            _named("turns", condition),
            f"Mean rating by turn{after}",
            of="turns",
            rows={"task": tuple(TASKS), "condition": (condition,)},
            row_label="{task}",
            columns=turns,
            column_label="turn {turn}",
        )
    yield Layout(
        "histories",
        "What the candidate's own history changes, against the golden one",
        rows={"task": tuple(TASKS)},
        columns=turns,
        column_label="turn {turn}",
        notes=("Differences are paired by dialogue.",),
    )
    yield _unscored
    for condition, after in HISTORY_TITLES.items():
        yield Layout(
            _named("answers", condition),
            f"How the answers of {context.candidate} ended{after}",
            of="answers",
            rows={"task": tuple(TASKS), "condition": (condition,)},
            row_label="{task}",
            columns="name",
        )


def _papers(own: str, notes: Sequence[str]) -> Iterator[Layout]:
    """The paper's Table 3: a row per candidate, the average and the tasks."""
    for condition, after in HISTORY_TITLES.items():
        for name, title in {"paper": own, "paper_authors": AUTHORS_TITLE}.items():
            yield Layout(
                _named(name, condition),
                f"The paper's layout, {title}{after}",
                of="scores",
                rows="candidate",
                columns="name",
                names=(AVERAGE, *TASKS),
                groups=(f"{title}{after}",),
                notes=notes,
                detail=True,
            )


def _named(table: str, condition: str) -> str:
    return table if condition == GOLDEN else f"{table}_{condition}"


def _unscored(frame: ScoreFrame) -> Table:
    """How many turns of each task were scored, how many not and why, by either reading."""
    rows = {}
    for condition in frame.distinct("condition"):
        before = "" if condition == GOLDEN else f"{condition} history: "
        tasks = [task for task in TASKS if len(_ratings(frame, condition, (task,)))]
        for name, of in [
            *((task, (task,)) for task in tasks),
            *([("all", tasks)] if tasks else []),
        ]:
            counts = _counts(frame, condition, tuple(of))
            rows[before + name] = {what: Cell(value=float(n)) for what, n in counts.items()}
    fixed = ("turns", "scored", UNPARSED, OUT_OF_RANGE)
    columns = dict.fromkeys((*fixed, *(column for row in rows.values() for column in row)))
    return Table(
        name="unscored",
        title="Turns scored and not scored",
        columns=tuple(columns),
        rows=rows,
        digits=0,
    )


def _ratings(frame: ScoreFrame, condition: str, tasks: tuple[str, ...]) -> Column:
    return frame.select(metric=RATING, condition=condition, task=tasks)


def _counts(frame: ScoreFrame, condition: str, tasks: tuple[str, ...]) -> dict[str, int]:
    ratings = _ratings(frame, condition, tasks)
    counts = {"turns": len(ratings), "scored": int(ratings.present.sum())}
    counts |= {UNPARSED: 0, OUT_OF_RANGE: 0}
    for why, number in ratings.missing.items():
        # other tables list "failed: timeout" and "skipped: turn_2" one by one
        reason = why.partition(":")[0]
        counts[reason] = counts.get(reason, 0) + number
    authors = frame.select(metric=AUTHORS, condition=condition, task=tasks).values
    outside = [n for n in authors if n is not None and not LOWEST_RATING <= n <= HIGHEST_RATING]

    def read(reading: str) -> int:
        return len(frame.select(metric=AUTHORS, condition=condition, task=tasks, reading=reading))

    return counts | {
        "authors: dropped": read(NEITHER),
        "authors: outside 1-10": len(outside),
        "authors: another number than ours": read(OTHER),
        "authors: read, and not by us": read(ONLY_AUTHORS),
    }
