"""MT-Bench-101's tables: scores, the paper's layout, turns, histories, unscored turns, answers.

Every cell carries n, what is missing by reason, and a 95 % interval where there is one. The
authors' convention stands beside ours, labelled. How a table looks on paper is `mmconv.report`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from judges.parsers.convbench import HIGHEST_RATING, LOWEST_RATING
from mmconv.benchmarks.mtbench101.options import GOLDEN, SELF
from mmconv.benchmarks.mtbench101.quantities import (
    Entrant,
    authors_dialogues,
    authors_score,
    by_turn,
    count_readings,
    estimate,
    history_effect,
    tasks_of,
)
from mmconv.benchmarks.mtbench101.scoring import (
    AUTHORS,
    NEITHER,
    ONLY_AUTHORS,
    OTHER,
    OUT_OF_RANGE,
    RATING,
)
from mmconv.benchmarks.mtbench101.taxonomy import AVERAGE, MEANS, TASKS
from mmconv.benchmarks.shared.endings import endings_table
from mmconv.stats import Column, as_cell
from mmconv.values import UNPARSED, Cell, Table

QUANTITIES = (*MEANS, *TASKS)
AUTHORS_TITLE = "authors: first [n], unread turns dropped"
MEAN_TITLE = "mean of turns"
MINIMUM_TITLE = "minimum of turns"

CONVENTION = (
    "By our reading the last “Rating: [[n]]” counts, n a whole number, and a dialogue with an "
    "unscored turn is not scored. By the authors' it is the first [n] anywhere, of any size, and "
    "unread turns are dropped before the minimum; only the average is rounded."
)
MEANS_NOTE = (
    "Average, groups and abilities are plain means of their tasks, and have no interval where one "
    "of these has none."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext:
    """What tables tell besides the scores: who was judged, by whom, by which dialogue score.

    `minimum` False says that the dialogues' own scores are the means of their turns.
    """

    candidate: str
    judge: str
    minimum: bool = True
    notes: tuple[str, ...] = ()

    @property
    def own_title(self) -> str:
        """The title of the dialogues' own scores."""
        return MINIMUM_TITLE if self.minimum else MEAN_TITLE

    def is_plain(self, entrant: Entrant) -> bool:
        """Whether the entrant goes without saying: the one that was judged, as it usually is."""
        return entrant.name == self.candidate

    def mark(self, entrant: Entrant) -> str:
        """What the names of the entrant's columns or rows begin with."""
        return "" if self.is_plain(entrant) else f"{entrant.name}: "


def build_tables(entrants: Sequence[Entrant], context: TableContext) -> list[Table]:
    """All tables that the scores have something for, with the entrants in their order."""
    judged = [entrant for entrant in entrants if entrant.tasks]
    made = [
        _scores(judged, context),
        _paper("paper", context.own_title, _own_cell, judged, context),
        _paper("paper_authors", AUTHORS_TITLE, _authors_cell, judged, context),
        _turns(judged, context),
        _histories(judged, context),
        _unscored(judged, context),
        _answers(entrants, context),
    ]
    return [table for table in made if table.rows]


def _scores(entrants: Sequence[Entrant], context: TableContext) -> Table:
    rows: dict[str, dict[str, Cell]] = {}
    columns = dict.fromkeys(["meaning"])
    for entrant in entrants:
        before = context.mark(entrant)
        for name in QUANTITIES:
            cells = _by_all_conventions(entrant, name, context)
            if cells:
                row = rows.setdefault(name, {"meaning": Cell(value=_meaning(name))})
                row.update({before + title: cell for title, cell in cells.items()})
                columns.update(dict.fromkeys(before + title for title in cells))
    return Table(
        name="scores",
        title=f"MT-Bench-101 scores of {context.candidate} (1-10), judged by {context.judge}",
        columns=tuple(columns),
        rows={name: rows[name] for name in QUANTITIES if name in rows},
        notes=(CONVENTION, MEANS_NOTE, *_gaps(entrants), *context.notes),
    )


def _by_all_conventions(entrant: Entrant, name: str, context: TableContext) -> dict[str, Cell]:
    """A quantity by the dialogues' own scores, by their means of turns, and the authors' way."""
    if not tasks_of(entrant, name):
        return {}
    return {
        context.own_title: _own_cell(entrant, name),
        MEAN_TITLE: as_cell(estimate(entrant, name, "mean")),
        AUTHORS_TITLE: _authors_cell(entrant, name),
    }


def _own_cell(entrant: Entrant, name: str) -> Cell:
    """A quantity by the dialogues' own scores."""
    return as_cell(estimate(entrant, name, "dialogue"))


def _authors_cell(entrant: Entrant, name: str) -> Cell:
    """A quantity as the authors have it, with the dialogues of all its tasks."""
    tasks = tasks_of(entrant, name)
    dialogues = Column.joined([authors_dialogues(entrant, task) for task in tasks])
    return Cell(
        value=authors_score(entrant, name),
        n=int(dialogues.present.sum()),
        missing=dialogues.missing,
    )


def _paper(
    name: str,
    convention: str,
    cell: Callable[[Entrant, str], Cell],
    entrants: Sequence[Entrant],
    context: TableContext,
) -> Table:
    """The layout of the paper's Table 3: a row per model, the average and the tasks."""
    return Table(
        name=name,
        title=f"The paper's layout, {convention}",
        columns=(AVERAGE, *TASKS),
        rows={
            entrant.name: {
                quantity: cell(entrant, quantity)
                for quantity in (AVERAGE, *TASKS)
                if tasks_of(entrant, quantity)
            }
            for entrant in entrants
        },
        notes=(CONVENTION, *_gaps(entrants), *context.notes),
        detail=True,
    )


def _turns(entrants: Sequence[Entrant], context: TableContext) -> Table:
    """The mean rating at each turn, by task (paper, Figure 4)."""
    rows: dict[str, dict[str, Cell]] = {}
    turns = _own_turns(entrants)
    for task in TASKS:
        for entrant in entrants:
            found = {turn: by_turn(entrant, task, turn) for turn in turns}
            cells = {f"turn {turn}": as_cell(each) for turn, each in found.items() if each}
            if cells:
                rows[task if context.is_plain(entrant) else f"{task}, {entrant.name}"] = cells
    return Table(
        name="turns",
        title="Mean rating by turn",
        columns=tuple(f"turn {turn}" for turn in turns),
        rows=rows,
        notes=context.notes,
    )


def _histories(entrants: Sequence[Entrant], context: TableContext) -> Table:
    """What a self-made history changes, by task and turn (paper, Figure 6)."""
    rows: dict[str, dict[str, Cell]] = {}
    by_condition = {entrant.condition: entrant for entrant in entrants}
    turns = _own_turns(entrants)
    if {GOLDEN, SELF} <= by_condition.keys():
        golden, own = by_condition[GOLDEN], by_condition[SELF]
        for task in TASKS:
            found = {turn: history_effect(golden, own, task, turn) for turn in turns}
            cells = {f"turn {turn}": as_cell(each) for turn, each in found.items() if each}
            if cells:
                rows[task] = cells
    return Table(
        name="histories",
        title="What the candidate's own history changes, against the golden one",
        columns=tuple(f"turn {turn}" for turn in turns),
        rows=rows,
        notes=("Differences are paired by dialogue.", *context.notes),
        signed=True,
    )


def _unscored(entrants: Sequence[Entrant], context: TableContext) -> Table:
    """How many turns of each task were scored, how many not and why, by either reading."""
    rows = {}
    for entrant in entrants:
        before = context.mark(entrant)
        for name in (*entrant.tasks, "all"):
            tasks = entrant.tasks if name == "all" else (name,)
            counts = _counts(entrant, tasks)
            rows[before + name] = {what: Cell(value=float(n)) for what, n in counts.items()}
    columns = dict.fromkeys(column for row in rows.values() for column in row)
    fixed = ("turns", "scored", UNPARSED, OUT_OF_RANGE)
    return Table(
        name="unscored",
        title="Turns scored and not scored",
        columns=tuple(dict.fromkeys((*fixed, *columns))) if rows else fixed,
        rows=rows,
        notes=context.notes,
        digits=0,
    )


def _counts(entrant: Entrant, tasks: Sequence[str]) -> dict[str, int]:
    counts = {"turns": 0, "scored": 0, UNPARSED: 0, OUT_OF_RANGE: 0}
    for task in tasks:
        ratings = entrant.select(RATING, task)
        counts["turns"] += len(ratings)
        counts["scored"] += int(ratings.present.sum())
        for why, number in ratings.missing.items():
            # "failed: timeout" and "skipped: turn_2" are told apart elsewhere
            reason = why.partition(":")[0]
            counts[reason] = counts.get(reason, 0) + number
    outside = [
        value
        for task in tasks
        for value in entrant.select(AUTHORS, task).values
        if value is not None and not LOWEST_RATING <= value <= HIGHEST_RATING
    ]
    return counts | {
        "authors: dropped": count_readings(entrant, tasks, NEITHER),
        "authors: outside 1-10": len(outside),
        "authors: another number than ours": count_readings(entrant, tasks, OTHER),
        "authors: read, and not by us": count_readings(entrant, tasks, ONLY_AUTHORS),
    }


def _answers(entrants: Sequence[Entrant], context: TableContext) -> Table:
    rows = (
        (f"{context.mark(entrant)}{task}", partial(entrant.select, task=task))
        for entrant in entrants
        for task in TASKS
    )
    title = f"How the answers of {context.candidate} ended"
    return endings_table("answers", title, rows, context.notes)


def _own_turns(entrants: Sequence[Entrant]) -> list[int]:
    return sorted({turn for entrant in entrants for turn in entrant.frame.turns() if turn})


def _gaps(entrants: Sequence[Entrant]) -> list[str]:
    return [
        f"{entrant.name}: {len(entrant.tasks)} of {len(TASKS)} tasks were judged; "
        "means are over those."
        for entrant in entrants
        if len(entrant.tasks) < len(TASKS)
    ]


def _meaning(name: str) -> str:
    if name in TASKS:
        return TASKS[name].name
    return "mean of all tasks" if name == AVERAGE else f"mean of {', '.join(MEANS[name])}"
